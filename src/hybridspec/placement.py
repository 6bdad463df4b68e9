"""Where a model runs, in which numbers and with how much room, from the names a user gives."""

from __future__ import annotations

import torch

from hybridspec.checks import expect, is_a
from hybridspec.errors import RequestError

DEFAULT_CONTEXT = 32768
DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is a GPU when there is one.

    Raises:
        RequestError: another name, or a GPU that torch does not see.
    """
    expect(isinstance(name, str), "device", name, "a name such as 'cpu' or 'cuda:0'")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if name != "cpu" and (kind != "cuda" or not (name == kind or index.isdecimal())):
        raise RequestError(f"The device {name!r} is unknown; expected auto, cpu, cuda or cuda:N.")
    found = torch.cuda.device_count()
    if kind == "cuda" and (len(index) > 4 or int(index or 0) >= found):
        raise RequestError(f"The device {name} was asked for and torch sees {found} GPUs.")
    return torch.device(name)


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype called `name`; `auto` is bfloat16 on a GPU and float32 on a CPU.

    Raises:
        RequestError: another name.
    """
    expect(isinstance(name, str), "dtype", name, "a name such as 'float32'")
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise RequestError(f"The dtype {name!r} is unknown; expected auto or {', '.join(DTYPES)}.")
    return DTYPES[name]


def choose_context(asked: int | None, most: int) -> int:
    """Most tokens of prompt and answer; without a wish the model's limit, if it is not enormous.

    Raises:
        OptionError: no integer from 2 to `most`.
    """
    if asked is None:
        return min(DEFAULT_CONTEXT, most)
    holds = is_a(asked, int) and 2 <= asked <= most
    expect(holds, "max_context", asked, f"2 to {most}, the model's limit")
    return asked
