"""The checkpoints, whether they belong together, and the calibration profile that knows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hybridspec import assets
from hybridspec.checkpoint import fingerprint, load_drafter, load_target
from hybridspec.doctor.finding import Finding, had
from hybridspec.doctor.setting import Setting
from hybridspec.policy.profile import Profile, ProfileError, load_profile
from hybridspec.processor import of_another, processor_name, told_of
from hybridspec.profiles import find_profile
from hybridspec.sources import find_pair

CALIBRATE = "`hybridspec calibrate --help` and docs/policy.md say how to make one."


def checkpoints(setting: Setting) -> Iterator[Finding]:
    """Names, shapes and types of both, without reading a weight; and the bytes' hash."""
    folder, source = find_pair(setting.model, setting.draft)
    target, drafter = load_target(folder, "meta", setting.dtype), None
    yield Finding("target", "OK", _identified(folder))
    if source is None:
        advice = "Name the target's drafter with --draft."
        yield Finding("drafter", "note", "none, so decoding is plain", advice)
    else:
        drafter = load_drafter(source, target.config, "meta", setting.dtype)
        yield Finding("drafter", "OK", f"{_identified(source)}, made for this target")
    setting.folders, setting.models = (folder, source), (target, drafter)


def _identified(folder: Path) -> str:
    """As a profile knows it."""
    return f"{folder}, sha256 {fingerprint(folder)}"


def profile(setting: Setting) -> Iterator[Finding]:
    """What the default system chooses its lengths by. One of another pair or device is told of and
    left aside; one that cannot be read fails."""
    target, drafter = had(setting.folders)
    if drafter is None and setting.named is None:
        return
    if setting.named is not None:
        load_profile(setting.named)
    try:
        found = find_profile(setting.named, target, drafter, setting.device, setting.dtype)
    except ProfileError as error:
        yield Finding("profile", "note", str(error))
        return
    setting.profile = setting.named
    yield _none(target) if found is None else _described(found, setting.named or assets.PROFILE)


def _none(target: Path) -> Finding:
    own = " (the embedded pair's own is of a CPU in float32)" if target == assets.TARGET else ""
    advice = f"Without one every round has one fixed length; {CALIBRATE} Name it with --profile."
    return Finding("profile", "note", f"none that fits{own}", advice)


def _described(found: Profile, path: Path) -> Finding:
    """A profile that belongs. On a CPU its processor may be another, as its times then are."""
    runtime = found.runtime
    on = runtime.get("cpu", "a CPU") if runtime["device"] == "cpu" else runtime["device"]
    value = f"{path}, fitted to this pair on {on} in {runtime['dtype']}"
    if "torch" in runtime:
        value += f" with torch {runtime['torch']}"
    if of_another(runtime):
        advice = f"This is {processor_name()}, so its lengths may not suit; {CALIBRATE}"
        told_of(runtime)
        return Finding("profile", "note", value, advice)
    return Finding("profile", "OK", value)
