"""Whether a bench of GPU work can run here. Importing this imports no torch."""

from __future__ import annotations

import os

from hybridspec.errors import RequestError

INSTALL = "`pip install cuda-bindings nvidia-cuda-nvrtc triton`"


def require(verb: str, option: str, *, small: bool, kernels: bool = True) -> None:
    """Refuse what cannot run; without a GPU, have Triton's interpreter run the kernels. Call it
    before a module that defines kernels is imported: that is when the switch is read.

    Args:
        verb: its name in sentences.
        option: the one that asks for a small shape.
        small: whether it was given.
        kernels: whether this run has any of our kernels.

    Raises:
        RequestError: there is no GPU and the shape is a GPU's, or a package is missing.
    """
    import torch

    from hybridspec.kernels.support import PACKAGES, installed

    if not torch.cuda.is_available():
        if not small:
            raise RequestError(
                f"{verb} needs a CUDA GPU, and torch finds none here; {option} shows on a CPU that "
                "it works, without meaningful figures."
            )
        os.environ["TRITON_INTERPRET"] = "1"
    lacking = [name for package, name in PACKAGES.items() if not installed(package)]
    if kernels and lacking:
        are = "which is" if len(lacking) == 1 else "which are"
        raise RequestError(f"{verb} needs {' and '.join(lacking)}, {are} not installed: {INSTALL}.")
