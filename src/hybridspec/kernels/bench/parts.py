"""The parts of the kernels' bench, in order: a name, and the module here and function that it is.
Checks come first, then what `figures.py` asks for, then what else is worth knowing.

A function takes a `Setting`, checks or times, and keeps records. Modules are imported when their
turn comes, so that one that does not import leaves the others alone. Importing this imports no
torch.
"""

from __future__ import annotations

PARTS: dict[str, str] = {
    "check-products": "checks.check_products",
    "check-experts": "checks.check_experts",
    "check-gdn": "checks.check_gdn",
    "check-verifiers": "verifiers.check_verifiers",
    "check-attention": "attention.check_attention",
    "check-head": "head.check_head",
    "check-rounds": "rounds.check_rounds",
    "check-stream": "stream.check_stream",
    "check-drafter": "drafter.check_drafter",
    "check-sampling": "sampling.check_sampling",
    "check-prefill": "prefill_checks.check_prefill",
    "memory": "memory.keep_memory",
    "gdn": "gdn.time_gdn",
    "verifiers": "verifiers.time_verifiers",
    "products": "against.time_products",
    "stream": "stream.time_stream",
    "forward": "forward.time_forward",
    "attention": "attention.time_attention",
    "windows": "attention.time_windows",
    "tokens": "head.time_head",
    "drafter": "drafter.time_drafter",
    "prompt": "prompt.time_prompt",
    "peers": "outside.time_peers",
    "prefill": "prefill.time_prefill",
    "launches": "launches.time_launches",
    "graphs": "graphs.time_graphs",
    "experts": "moe.time_experts",
    "joint": "products.time_joint",
    "out": "products.time_out",
    "router": "products.time_router",
    "head": "products.time_head",
    "rounds": "rounds.time_rounds",
    "sampling": "sampling.time_sampling",
    "norms": "products.time_norms",
}
