"""SGLang's own kernels, in a process of their own: GDN in the protocol of `verifiers.py`, and the
experts of `peers_moe.py`.

    python -m hybridspec.kernels.bench.peers DIR

DIR holds `sglang-0.5.16` and, if wanted, `sglang-0.5.23`, each an unpacked wheel or as much of one
as FILES names. Nothing else of SGLang is imported. One line of JSON a measurement. Always at the
35B shape, from bf16 projections, states in fp32, launched as SGLang launches them.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hybridspec.errors import said_by
from hybridspec.kernels.bench import peers_moe
from hybridspec.kernels.bench.clock import GraphClock
from hybridspec.kernels.bench.verifiers import LENGTHS, ROUNDS

LAYERS, KEY_HEADS, HEADS, SIZE, MOST, RING, SETS = 30, 16, 32, 128, 16, 32, 2
OPS = "sglang/kernels/ops"
FILES = {
    "verify": ("sglang-0.5.16", f"{OPS}/attention/fla/fused_sigmoid_gating_recurrent.py"),
    "replay": ("sglang-0.5.16", f"{OPS}/attention/fla/gdn_replayssm_spec_decode.py"),
    "scatter": ("sglang-0.5.16", f"{OPS}/mamba/mamba_state_scatter_triton.py"),
    "narrow": ("sglang-0.5.23", f"{OPS}/attention/linear/fused_sigmoid_gating_recurrent.py"),
    "fold": ("sglang-0.5.23", f"{OPS}/attention/linear/gdn_replayssm_spec_fold.py"),
    "experts": ("sglang-0.5.16", f"{OPS}/moe/fused_moe_triton_kernels.py"),
}
VERIFY = "fused_sigmoid_gating_delta_rule_update"


class Inputs(NamedTuple):
    """One layer's arguments, by SGLang's names."""

    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    b: Tensor
    A_log: Tensor
    dt_bias: Tensor


def inputs(w: int) -> Inputs:
    """Random, of w tokens."""

    def half(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda").bfloat16()

    q, k, v = (half(1, w, heads, SIZE) for heads in (KEY_HEADS, KEY_HEADS, HEADS))
    rate = torch.empty(HEADS, device="cuda").uniform_(1, 16).log()
    return Inputs(q, k, v, half(w, HEADS) - 4, half(w, HEADS), rate, torch.ones_like(rate))


class Peers:
    """The kernels that are there, and the memory they share."""

    def __init__(self, folder: Path) -> None:
        _stub_0_5_23()
        peers_moe.stub()
        self.kernels: dict[str, ModuleType] = {}
        self.missing: dict[str, str] = {}
        for name in FILES:
            try:
                self.kernels[name] = _module(folder, name)
            except Exception as error:
                self.missing[name] = said_by(error)
        one = (HEADS, SIZE, SIZE)
        self.states = [torch.randn(LAYERS, 2, *one, device="cuda") * 0.05 for _ in range(SETS)]
        self.slot, self.zero = _ints(1), _ints(0)

    def systems(self) -> Iterator[tuple[str, Callable[[int, int], Callable[[int], None]]]]:
        """Names, and what makes a round of set i, for w and m."""
        if {"verify", "scatter"} <= self.kernels.keys():
            yield "SGLang 0.5.16 per-token", self._per_token("verify")
        if {"narrow", "scatter"} <= self.kernels.keys():
            yield "SGLang 0.5.23 per-token", self._per_token("narrow")
        if "replay" in self.kernels:
            yield "SGLang 0.5.16 replay", self._replay
        if {"narrow", "fold"} <= self.kernels.keys():
            yield "SGLang 0.5.23 ring", self._ring

    def _common(self, w: int) -> dict[str, Any]:
        ends = torch.tensor([0, w], dtype=torch.int32, device="cuda")
        return {
            "softplus_beta": 1.0, "softplus_threshold": 20.0, "initial_state_indices": self.slot,
            "cu_seqlens": ends, "use_qk_l2norm_in_kernel": True, "disable_state_update": True,
            "cache_steps": MOST,
        }  # fmt: skip

    def _per_token(self, name: str) -> Callable[[int, int], Callable[[int], None]]:
        verify = getattr(self.kernels[name], VERIFY)
        scatter = self.kernels["scatter"].fused_mamba_state_scatter_with_mask

        def make(w: int, m: int) -> Callable[[int], None]:
            tokens, common = [inputs(w) for _ in range(LAYERS)], self._common(w)
            shape = (LAYERS, 2, MOST, HEADS, SIZE, SIZE)
            kept = [torch.empty(shape, device="cuda") for _ in range(SETS)]
            step = torch.tensor([m - 1], dtype=torch.int64, device="cuda")

            def one(i: int) -> None:
                for layer in range(LAYERS):
                    verify(
                        **tokens[layer]._asdict(), **common,
                        initial_state_source=self.states[i][layer],
                        intermediate_states_buffer=kept[i][layer],
                        intermediate_state_indices=self.zero,
                    )  # fmt: skip
                scatter(self.states[i], kept[i], self.slot, step)

            return one

        return make

    def _replay(self, w: int, m: int) -> Callable[[int], None]:
        kernels = self.kernels["replay"]
        tokens = [inputs(w) for _ in range(LAYERS)]
        caches = [[_replay_caches() for _ in range(LAYERS)] for _ in range(SETS)]
        cursors = [
            {
                "write_pos": _ints(0, 0), "cache_base": _ints(0, 0),
                "is_flush": torch.zeros(2, dtype=torch.int8, device="cuda"),
            }
            for _ in range(SETS)
        ]  # fmt: skip
        out = torch.empty(w, HEADS, SIZE, dtype=torch.bfloat16, device="cuda")
        ends, accepted = torch.tensor([0, w], dtype=torch.int32, device="cuda"), _ints(m)
        sizes = {"max_cache_len": RING, "max_spec_len": max(w, 2), "null_block_id": -1}

        def one(i: int) -> None:
            for layer in range(LAYERS):
                x = tokens[layer]
                kernels.gdn_replayssm_spec_decode(
                    q=x.q[0], k=x.k[0], v=x.v[0], a=x.a, b=x.b, A_log=x.A_log, dt_bias=x.dt_bias,
                    checkpoint_state=self.states[i][layer], **caches[i][layer], **cursors[i],
                    out=out, query_start_loc=ends, ssm_state_indices=self.slot,
                    scale=SIZE**-0.5, **sizes,
                )  # fmt: skip
            kernels.commit_gdn_replayssm_spec(
                **cursors[i], num_accepted=accepted, state_batch_indices=self.slot, **sizes
            )

        return one

    def _ring(self, w: int, m: int) -> Callable[[int], None]:
        verify = getattr(self.kernels["narrow"], VERIFY)
        fold = self.kernels["fold"].commit_gdn_replayssm_fold_all_layers
        tokens, common, accepted = [inputs(w) for _ in range(LAYERS)], self._common(w), _ints(m)
        rings = [_ring_caches() for _ in range(SETS)]

        def one(i: int) -> None:
            names = ("replayssm_rawv", "replayssm_rawk", "replayssm_g", "replayssm_beta")
            for layer in range(LAYERS):
                ring = {name: t[layer] for name, t in zip(names, rings[i], strict=True)}
                verify(
                    **tokens[layer]._asdict(), **common, **ring, cache_ring=True,
                    initial_state_source=self.states[i][layer],
                )  # fmt: skip
            fold(self.states[i], *rings[i], self.slot, accepted, MOST, KEY_HEADS)

        return one


def _zeros(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.zeros(*shape, dtype=dtype, device="cuda")


def _ints(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def _replay_caches() -> dict[str, Tensor]:
    value, key = (2, HEADS, RING, SIZE), (2, KEY_HEADS, RING, SIZE)
    wide = {name: _zeros(2, HEADS, RING, dtype=torch.float32) for name in ("g_cache", "beta_cache")}
    return wide | {
        "d_cache": _zeros(*value), "k_cache": _zeros(*key), "rawv_cache": _zeros(*value),
        "rawk_cache": _zeros(*key),
    }  # fmt: skip


def _ring_caches() -> tuple[Tensor, ...]:
    gates = (_zeros(LAYERS, 2, HEADS, MOST, dtype=torch.float32) for _ in range(2))
    value, key = (LAYERS, 2, HEADS, MOST, SIZE), (LAYERS, 2, KEY_HEADS, MOST, SIZE)
    return _zeros(*value), _zeros(*key), *gates


def _module(folder: Path, name: str) -> ModuleType:
    """A source file as a module by itself.

    Raises:
        FileNotFoundError: it is not there.
    """
    path = folder.joinpath(*FILES[name])
    if not path.is_file():
        wheel = FILES[name][0].replace("-", "==")
        raise FileNotFoundError(f"{path} is not there; it is in the wheel of {wheel}")
    spec = importlib.util.spec_from_file_location(f"peer_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _stub_0_5_23() -> None:
    """The two modules that its verification asks about the GPU, answered here."""
    major, minor = torch.cuda.get_device_capability()
    answers: dict[str, dict[str, Callable[..., Any]]] = {
        "sglang.kernels.jit.utils": {"is_arch_support_pdl": lambda: False},
        "sglang.srt.utils": {
            "get_device_sm": lambda: 10 * major + minor, "is_cuda": lambda: True,
            "is_hip": lambda: False, "is_gfx95_supported": lambda: False,
            "is_sm90_supported": lambda *_: major == 9,
        },
    }  # fmt: skip
    for name in ("sglang", "sglang.kernels", "sglang.kernels.jit", "sglang.srt"):
        sys.modules[name] = types.ModuleType(name)
    for name, functions in answers.items():
        module = types.ModuleType(name)
        for function, answer in functions.items():
            setattr(module, function, answer)
        sys.modules[name] = module


def measure(folder: Path) -> Iterator[dict[str, Any]]:
    """A record a system, w and m, and one a number of experts; one that fails says why and the
    others go on."""
    clock, peers = GraphClock(), Peers(folder)
    for name, reason in peers.missing.items():
        yield {"name": f"SGLang's {name}", "config": "", "failed": reason}
    if "experts" in peers.kernels:
        yield from peers_moe.measure(peers.kernels["experts"], clock)
    for name, make in peers.systems():
        for w in LENGTHS:
            for m in sorted({w, -(-w // 2)}):
                record: dict[str, Any] = {"name": f"round {name}: w = {w}, m = {m}", "config": ""}
                try:
                    one = make(w, m)
                    timing = clock.timing([lambda i=i, one=one: one(i) for i in range(SETS)])
                    record["us"] = round(timing(ROUNDS if name.endswith("replay") else None), 2)
                except Exception as error:
                    record["failed"] = repr(error)[:300]
                yield record


def main() -> int:
    """Print what is measured."""
    with torch.no_grad():
        for record in measure(Path(sys.argv[1])):
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
