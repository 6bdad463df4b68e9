"""The pair at work: loaded, a few tokens decoded, and which kernels did it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from hybridspec.core import Generation, SamplingParams
from hybridspec.doctor.finding import Finding, had
from hybridspec.doctor.setting import Setting
from hybridspec.engine import Engine
from hybridspec.kernels import support
from hybridspec.memory import size
from hybridspec.runtime.accelerate import drafter_refusal, refusal

PROMPT, TOKENS = "Write a poem about autumn.", 32


def load(setting: Setting) -> Iterator[Finding]:
    """Weights, which are refused where they are no numbers, and tokenizer."""
    had(setting.fits)
    target, drafter = had(setting.folders)
    device, dtype = str(setting.device), str(setting.dtype).removeprefix("torch.")
    began = time.perf_counter()
    setting.engine = Engine.load(
        target, drafter, device=device, dtype=dtype, profile=setting.profile
    )
    value = f"{time.perf_counter() - began:.1f} s on {device} in {dtype}"
    if setting.on_gpu:
        value += f", {size(torch.cuda.memory_allocated(setting.device))} allocated"
    yield Finding("load", "OK", value)


def block(setting: Setting) -> Iterator[Finding]:
    """A few tokens by plain decoding and by the default system."""
    engine = had(setting.engine)
    plain = _answer(engine, "ar")
    if engine.drafter is None:
        yield Finding("tokens", "OK", f"{len(plain.token_ids)} tokens, {_seconds(plain)}")
    else:
        exact = not setting.on_gpu or _unserved(engine)["Verifications"] is None
        yield compared(plain, _answer(engine, engine.default_system), exact=exact)


def compared(plain: Generation, drafted: Generation, *, exact: bool) -> Finding:
    """Two answers to one prompt. exact: whether equality is promised."""
    times = f"{_seconds(plain)}, {_seconds(drafted)}"
    length = f"acceptance length {drafted.stats.mean_acceptance_length:.2f}"
    if drafted.token_ids == plain.token_ids:
        value = f"{len(plain.token_ids)}, equal to plain decoding's; {times}; {length}"
        return Finding("tokens", "OK", value)
    pairs = zip(plain.token_ids, drafted.token_ids, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), "the end")
    value = f"{drafted.system} differs from plain decoding at token {place}; {times}; {length}"
    if exact:
        return Finding("tokens", "FAIL", value, "Please report this as a defect of hybridspec.")
    advice = (
        "Without our kernels a near tie of rounding may do that on a GPU; `hybridspec bench "
        "verify` tells ties from faults."
    )
    return Finding("tokens", "note", value, advice)


def _answer(engine: Engine, system: str) -> Generation:
    chat = engine.tokenizer is not None and engine.tokenizer.has_chat_template
    params = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
    return engine.generate(PROMPT, params, system=system, chat=chat)


def _seconds(answer: Generation) -> str:
    stats = answer.stats
    return f"{answer.system} {stats.prefill_seconds + stats.decode_seconds:.2f} s"


def launcher(setting: Setting) -> Iterator[Finding]:
    """Who leads rounds on a GPU; `kernels` tells of those that the host leads all the same."""
    if not setting.on_gpu:
        return
    engine = had(setting.engine)
    if engine.launcher == "host":
        advice = "The tokens are right, the speed is less; docs/runtime.md says what it takes."
        yield Finding("launcher", "note", "the host leads every round", advice)
    else:
        value = f"{engine.launcher}: rounds of fixed rules stay on the device"
        yield Finding("launcher", "OK", value)


def kernels(setting: Setting) -> Iterator[Finding]:
    """Which work our kernels do, and all that was said of work they do not do. Comes last: some of
    that is said in the middle of an answer."""
    engine, told = had(setting.engine), []
    if not setting.on_gpu:
        yield Finding("kernels", "OK", "none on a CPU, where plain torch does all the work")
    for what, reason in (_unserved(engine) if setting.on_gpu else {}).items():
        if reason is None:
            yield Finding("kernels", "OK", f"{what.lower()} run as kernels")
        else:
            told.append(reason)
            advice = "The tokens are right, the speed is less."
            yield Finding("kernels", "note", f"{what.lower()} run in torch: {reason}", advice)
    for sentence in support.said():
        if not any(sentence.endswith(f": {reason}.") for reason in told):
            yield Finding("kernels", "note", sentence)


def _unserved(engine: Engine) -> dict[str, str | None]:
    """By what is done on a GPU: why kernels do not do it, None where they do."""
    general = support.missing(engine.target.device)
    reasons = {"Verifications": general or refusal(engine.target)}
    if engine.drafter is not None:
        reasons["Drafts"] = general or drafter_refusal(engine.drafter)
    return reasons
