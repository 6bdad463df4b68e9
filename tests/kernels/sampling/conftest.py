"""Thousands of rows through the interpreter, which otherwise prepares the language anew for every
call of one device function by another: most of the time, for a kernel of small steps."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def prepared_once():
    if torch.cuda.is_available():
        yield
        return
    from triton.runtime import interpreter

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", once_a_launch(interpreter._patch_lang))
        yield


def once_a_launch(prepare):
    """`prepare` for each function once, until what the launch itself prepared is taken back."""
    done = set()

    def wrapped(function):
        if function in done:
            return None
        done.add(function)
        scope = prepare(function)
        restore = scope.restore

        def forget():
            done.clear()
            restore()

        scope.restore = forget
        return scope

    return wrapped
