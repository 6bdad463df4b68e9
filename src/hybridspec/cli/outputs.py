"""Where results may be written: checked before hours of work, not after."""

from __future__ import annotations

from pathlib import Path

from hybridspec.errors import OptionError


def check_out(out: Path, *inputs: Path) -> None:
    """Refuse a place for a result that is no file, lies nowhere, or is one of the inputs.

    Raises:
        OptionError: names --out and what is wrong with it.
    """
    if not out.name:
        raise OptionError("out", f"is {str(out)!r}; expected the path of a file to write.")
    if not out.parent.is_dir():
        raise OptionError("out", f"is {out}, but there is no folder {out.parent}; make it first.")
    if out.exists() and not out.is_file():
        raise OptionError("out", f"is {out}, which is not a regular file; name another path.")
    for path in inputs:
        if path.exists() and out.exists() and out.samefile(path):
            raise OptionError("out", f"is {out}, which is also read; name another path.")


def work_folder(out: Path) -> Path:
    """Where a calibration keeps what it has done: beside its profile."""
    return out.with_name(out.name + ".work")
