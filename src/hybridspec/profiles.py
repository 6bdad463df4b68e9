"""Which calibration profile belongs to a pair on a device, and what it is checked against."""

from __future__ import annotations

from pathlib import Path

import torch

from hybridspec import assets
from hybridspec.checkpoint.identity import fingerprint
from hybridspec.checks import expect
from hybridspec.errors import RequestError
from hybridspec.policy.profile import Profile, check_belongs, load_profile


def pair_identity(target: Path, drafter: Path) -> dict[str, str]:
    """SHA-256 of target and drafter, configuration and weights."""
    return {"target": fingerprint(target), "drafter": fingerprint(drafter)}


def runtime_identity(device: torch.device, dtype: torch.dtype) -> dict[str, str]:
    """What of a runtime a profile must match: the device's kind or a GPU's name, and the dtype."""
    name = "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)
    return {"device": name, "dtype": str(dtype).removeprefix("torch.")}


def find_profile(
    named: str | Path | None,
    target: Path,
    drafter: Path | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Profile | None:
    """The profile a user named, checked; without one the embedded pair's own, if it fits here.

    Raises:
        RequestError: a profile without a drafter.
        ProfileError: it cannot be read, or is of another pair or runtime.
    """
    if named is None:
        return _embedded(target, drafter, device, dtype)
    expect(isinstance(named, str | Path), "profile", named, "a file written by calibrate, or None")
    if drafter is None:
        raise RequestError(
            "A calibration profile was given and no drafter. Name the drafter (draft, --draft), or "
            "leave the profile out."
        )
    path = Path(named)
    profile = load_profile(path)
    check_belongs(profile, pair_identity(target, drafter), runtime_identity(device, dtype), path)
    return profile


def _embedded(
    target: Path, drafter: Path | None, device: torch.device, dtype: torch.dtype
) -> Profile | None:
    """The embedded pair's profile, which is of one kind of device and dtype; None elsewhere."""
    if target != assets.TARGET or drafter != assets.DRAFTER or not assets.PROFILE.exists():
        return None
    profile = load_profile(assets.PROFILE)
    runtime = runtime_identity(device, dtype)
    fits = all(profile.runtime.get(name) == value for name, value in runtime.items())
    return profile if fits else None
