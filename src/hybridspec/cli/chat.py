"""`hybridspec chat`: a conversation at the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hybridspec.cli import options as o
from hybridspec.cli.loading import Pair, import_engine, load_engine, uncalibrated
from hybridspec.cli.output import note
from hybridspec.cli.prompt import Question, argument_text
from hybridspec.cli.shape import read_bias

if TYPE_CHECKING:
    from hybridspec.engine import Engine

MIB = 2**20


def chat(
    thinking: o.Thinking = None,
    system_prompt: o.SystemPrompt = None,
    model: o.Model = None,
    draft: o.Draft = None,
    revision: o.Revision = None,
    draft_revision: o.DraftRevision = None,
    device: o.Device = "auto",
    dtype: o.DType = "auto",
    max_context: o.MaxContext = None,
    profile: o.Profile = None,
    kernels: o.Kernels = True,
    launcher: o.Launcher = "auto",
    prefix_memory: o.PrefixMemory = 1024,
    system: o.System = None,
    max_tokens: o.MaxTokens = 1024,
    temperature: o.Temperature = 0.0,
    top_k: o.TopK = 0,
    top_p: o.TopP = 1.0,
    min_p: o.MinP = 0.0,
    presence_penalty: o.PresencePenalty = 0.0,
    frequency_penalty: o.FrequencyPenalty = 0.0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    logit_bias: o.LogitBias = None,
    seed: o.Seed = None,
    stop: o.Stop = None,
) -> None:
    """Chat with a model at the terminal.

    A line is a message, and /help lists the commands: /system, /think, /stats, /reset, /quit. What
    the model says goes to standard output as it is decoded; what it thinks, and all else, to
    standard error.

    Ctrl-C stops an answer; at the prompt, twice, it leaves the chat, and so does Ctrl-D. When the
    context is full, the oldest turns are left out, and it is said.

    Without a terminal every line of standard input is a message or a command, in plain text; the
    first that cannot be used ends the chat, and so does Ctrl-C.

    Exit codes: 0 done; 2 the input cannot be used; 130 left by Ctrl-C; 141 nobody reads standard
    output any more.
    """
    pair = Pair(model, draft, revision, draft_revision)
    asked = Question("", thinking=thinking, system_prompt=system_prompt)
    stops = tuple(argument_text(text, "--stop") for text in stop or ())
    import_engine()
    from hybridspec.chat.lines import Piped, Typed
    from hybridspec.chat.session import Manner, Session
    from hybridspec.core import SamplingParams

    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        repetition_penalty=repetition_penalty,
        logit_bias=read_bias(logit_bias or ()),
        seed=seed,
        stop=stops,
    )
    engine = load_engine(
        pair,
        system=system,
        device=device,
        dtype=dtype,
        max_context=max_context,
        profile=profile,
        kernels=kernels,
        launcher=launcher,
        prefix_memory=prefix_memory * MIB,
    )
    interactive = sys.stdin is not None and sys.stdin.isatty()
    manner = Manner(params, system, bool(thinking))
    session = Session(engine, manner, asked.system_prompt, interactive)
    if interactive:
        _greet(engine, pair, system)
    session.run(Typed() if interactive else Piped())


def _greet(engine: Engine, pair: Pair, system: str | None) -> None:
    model, draft = pair.names
    drafter = (
        "without a drafter" if engine.drafter is None else f"with the drafter {draft or model}"
    )
    note(f"{model} {drafter}, context {engine.max_context} tokens. /help lists the commands.")
    caution = uncalibrated(engine) if system is None else ""
    if caution:
        note(caution)
