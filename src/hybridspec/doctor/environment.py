"""What the pair runs on: packages, the GPU, and whether work can be recorded there."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib import metadata

import torch

from hybridspec.crowd import COST, REMEDY, Crowd
from hybridspec.doctor.finding import Finding, python_version
from hybridspec.doctor.setting import Setting
from hybridspec.extras import install
from hybridspec.kernels import support
from hybridspec.memory import size
from hybridspec.runtime.graph import Recorded

SWITCHES = (12, 8)  # CUDA whose conditional nodes can loop, branch both ways and switch


def python(setting: Setting) -> Iterator[Finding]:
    """The interpreter."""
    yield python_version()


def torch_version(setting: Setting) -> Iterator[Finding]:
    """torch, and whether it was built for GPUs."""
    built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    yield Finding("torch", "OK", f"{torch.__version__}, built {built}")


def threads(setting: Setting) -> Iterator[Finding]:
    """torch's threads, the cores, and what else they do. Of no weight where a GPU does the work."""
    crowd = Crowd.here()
    load = "unknown" if crowd.load is None else f"{crowd.load:.1f}"
    value = f"{crowd.threads} of torch, {crowd.cores} cores for this process, load average {load}"
    if crowd.slows and not setting.on_gpu:
        advice = f"Beside other work threads wait for each other ({COST}); {REMEDY}."
        yield Finding("threads", "note", value, advice)
    else:
        yield Finding("threads", "OK", value)


def triton(setting: Setting) -> Iterator[Finding]:
    """Most kernels are Triton's; without it a GPU works in plain torch."""
    if support.installed("triton"):
        yield Finding("triton", "OK", _version("triton"))
        return
    advice = (
        "Kernels need it: install the triton that your torch names."
        if setting.on_gpu
        else "A CPU needs none; on a GPU all would run in plain torch, several times slower."
    )
    yield Finding("triton", "note", "not installed", advice)


def cuda_bindings(setting: Setting) -> Iterator[Finding]:
    """What compiles the kernels in CUDA C++; the engine's passes on a GPU import it."""
    if support.installed("cuda.bindings"):
        yield Finding("cuda-bindings", "OK", _version("cuda-bindings"))
    elif setting.on_gpu:
        advice = f"The kernels cannot be loaded. Install it with {install('gpu')}."
        yield Finding("cuda-bindings", "FAIL", "not installed", advice)
    else:
        advice = "A CPU needs none; on a GPU the kernels cannot be loaded without it."
        yield Finding("cuda-bindings", "note", "not installed", advice)


def gpu(setting: Setting) -> Iterator[Finding]:
    """The card in use, or that there is none."""
    if not setting.on_gpu:
        yield _no_gpu()
        return
    from hybridspec.bench.machine import machine

    device = setting.device
    major, minor = torch.cuda.get_device_capability(device)
    free, total = torch.cuda.mem_get_info(device)
    driver = machine(device).get("driver", "unknown")
    value = (
        f"{torch.cuda.get_device_name(device)}, compute capability {major}.{minor}, "
        f"{size(free)} of {size(total)} free, driver {driver}"
    )
    if (major, minor) < support.OLDEST:
        advice = "Kernels need 8.0; on this card all runs in plain torch, several times slower."
        yield Finding("gpu", "note", value, advice)
    else:
        yield Finding("gpu", "OK", value)


def _no_gpu() -> Finding:
    if torch.cuda.is_available():
        advice = "Leave --device out to use the GPU."
        return Finding("gpu", "note", "the CPU is used though torch sees a GPU", advice)
    advice = (
        "The CPU does all the work: right, and slow for pairs larger than the embedded one. If "
        "there is a card, install its driver and a torch built for CUDA."
    )
    return Finding("gpu", "note", "torch sees none", advice)


def graphs(setting: Setting) -> Iterator[Finding]:
    """Passes are recorded as CUDA graphs: one is recorded and replayed."""
    if not setting.on_gpu:
        return
    with torch.cuda.device(setting.device):
        counter = torch.zeros(4, device=setting.device)

        def work() -> None:
            counter.add_(1)

        recorded = Recorded(work)
        for _ in range(3):  # runs and records, replays, replays
            recorded()
        found = counter.tolist()
    if found == [3.0] * 4:
        yield Finding("graphs", "OK", "a CUDA graph is recorded and replays right")
    else:
        advice = "Update the GPU's driver, or torch if it is older than the driver."
        yield Finding("graphs", "FAIL", f"a CUDA graph counted {found}, not 3 each", advice)


def conditional_nodes(setting: Setting) -> Iterator[Finding]:
    """Whether a graph can loop and branch by itself."""
    if not setting.on_gpu:
        return
    built, driver = _pair(torch.version.cuda), _driver()
    known = [version for version in (built, driver) if version is not None]
    value = f"torch's CUDA {_dotted(built)}, the driver's {_dotted(driver)}"
    if known and min(known) >= SWITCHES:
        yield Finding("conditional nodes", "OK", value)
    else:
        advice = (
            "Graphs that branch by themselves need 12.8 of both: without them the host leads "
            "every round, which costs speed alone."
        )
        yield Finding("conditional nodes", "note", value, advice)


def _driver() -> tuple[int, int] | None:
    """The newest CUDA that the driver serves; None without cuda-bindings to ask it."""
    if not support.installed("cuda.bindings"):
        return None
    driver = importlib.import_module("cuda.bindings.driver")
    code, version = driver.cuDriverGetVersion()  # 12080 is 12.8
    return None if code.value else (version // 1000, version % 1000 // 10)


def _pair(version: str | None) -> tuple[int, int] | None:
    if version is None:
        return None
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _dotted(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else f"{version[0]}.{version[1]}"


def _version(package: str) -> str:
    """Of a package that is there; its name may be another for some builds."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "installed, of unknown version"
