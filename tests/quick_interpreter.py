"""Triton's interpreter without most of its bookkeeping: the same numbers in a fraction of the time.

It works out anew, at every operation, what never changes: which functions a module has, the types
of blocks, the dtypes of numpy. And it interprets further operations to check integers for overflow.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from triton import language
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

EXACT = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


def quicken() -> None:
    """Puts what is here in the place of the interpreter's own, for all of this process."""
    interpreter._patch_lang = _patched_once(interpreter._patch_lang)
    interpreter._patch_builtin = _patch_builtin
    interpreter._get_np_dtype = _kept_by_name(interpreter._get_np_dtype)
    core.block_type.__init__ = _alike(core.block_type.__init__)
    core.tensor.__init__ = _tensor
    TritonSemantic.binary_op_sanitize_overflow_impl = _refuse_overflow


@functools.cache
def _builtins(package: Any) -> tuple[str, ...]:
    return tuple(n for n in dir(package) if core.is_builtin(getattr(package, n, None)))


def _patch_builtin(package: Any, builder: Any, scope: Any) -> None:
    """Whatever has been put in a builtin's place already is none."""
    for name in _builtins(package):
        member = getattr(package, name)
        if core.is_builtin(member):
            interpreter._patch_attr(package, name, member, builder, scope)


def _patched_once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that a kernel calls finds the language as the kernel's start has left it."""
    languages = functools.cache(
        lambda fn: [v for v in fn.__globals__.values() if v is core or v is language]
    )

    def patch_lang(fn: Any) -> Any:
        if any(core.is_builtin(f) for f in (core.tensor.__add__, *(v.load for v in languages(fn)))):
            return patch(fn)
        return interpreter._LangPatchScope()

    return patch_lang


def _kept_by_name(dtype_of: Callable[[Any], np.dtype]) -> Callable[[Any], np.dtype]:
    kept: dict[str, np.dtype] = {}

    def find(type_: Any) -> np.dtype:
        if type_.name not in kept:
            kept[type_.name] = dtype_of(type_)
        return kept[type_.name]

    return find


def _alike(make: Callable[..., None]) -> Callable[..., None]:
    """Blocks of one element and shape share what is made of these."""
    made: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(core._unwrap_if_constexpr(size) for size in shape)
        key = (element_ty.name, sizes)
        if key not in made:
            make(self, element_ty, list(sizes))
            made[key] = self.__dict__.copy()
        self.__dict__.update(made[key])

    return init


def _tensor(self: Any, handle: Any, type: Any) -> None:
    sizes = tuple(type.shape) if type.is_block() else ()
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.shape, self.numel = _shape(sizes)


@functools.cache
def _shape(sizes: tuple[int, ...]) -> tuple[Any, Any]:
    shape = core.tuple([core.constexpr(size) for size in sizes])
    return shape, core.constexpr(int(np.prod(sizes)))


def _refuse_overflow(self: Any, lhs: Any, rhs: Any, binary_op: Callable[..., Any]) -> None:
    """The interpreter's own check: results that integers of fewer than 64 bits cannot hold."""
    kind = lhs.type.scalar
    if kind.int_bitwidth >= 64:
        return
    wide = (t.handle.data.astype(np.int64) for t in (lhs, rhs))
    exact = EXACT[binary_op.__name__](*wide)
    if exact.min() < kind.get_int_min_value() or exact.max() > kind.get_int_max_value():
        raise OverflowError(f"an int{kind.int_bitwidth} overflows in {binary_op.__name__}")
