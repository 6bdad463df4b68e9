"""`hybridspec generate`: one prompt in, its answer out as it is decoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from hybridspec.cli import options as o
from hybridspec.cli.answer import follow
from hybridspec.cli.interrupts import INTERRUPTED
from hybridspec.cli.loading import Pair, import_engine, load_engine, uncalibrated
from hybridspec.cli.output import note, write, write_json
from hybridspec.cli.prompt import Question, argument_text, read_prompt
from hybridspec.cli.report import document, explanation, statistics_line
from hybridspec.cli.shape import read_bias, read_shape
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.core import Generation, SamplingParams
    from hybridspec.engine import Engine
    from hybridspec.text.grammar import Grammar


def generate(
    prompt: o.Prompt = None,
    file: o.File = None,
    chat: o.Chat = None,
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
    system: o.System = None,
    max_tokens: o.MaxTokens = 256,
    temperature: o.Temperature = 0.0,
    top_k: o.TopK = 0,
    top_p: o.TopP = 1.0,
    min_p: o.MinP = 0.0,
    presence_penalty: o.PresencePenalty = 0.0,
    frequency_penalty: o.FrequencyPenalty = 0.0,
    repetition_penalty: o.RepetitionPenalty = 1.0,
    logit_bias: o.LogitBias = None,
    logprobs: o.Logprobs = None,
    seed: o.Seed = None,
    stop: o.Stop = None,
    stop_token_id: o.StopTokenId = None,
    ignore_eos: o.IgnoreEos = False,
    json_mode: o.JsonMode = False,
    json_schema: o.JsonSchema = None,
    explain: o.Explain = False,
    as_json: o.Json = False,
) -> None:
    """Decode the answer to one prompt.

    Greedy unless a temperature is given. The text goes to standard output as it is decoded, a line
    of statistics to standard error.

    Counting: W counts target inputs of a round: the anchor and W-1 drafts. A counts accepted
    drafts. A round emits A+1 tokens, its acceptance length. In JSON, acceptance_histogram[A] and
    verification_length_histogram[W] count rounds. Tokens per second are of decoding: without the
    prompt and the first token.

    Exit codes: 0 done; 2 the input cannot be used; 130 Ctrl-C, with what there was of the answer;
    141 nobody reads standard output any more.
    """
    if logprobs is not None and not as_json:
        raise RequestError("--logprobs goes into the document of --json; give both or neither.")
    pair = Pair(model, draft, revision, draft_revision)
    question = Question(read_prompt(prompt, file), chat, thinking, system_prompt)
    stops = tuple(argument_text(text, "--stop") for text in stop or ())
    shape = read_shape(json_mode, json_schema)
    import_engine()
    params = _params(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        repetition_penalty=repetition_penalty,
        logit_bias=read_bias(logit_bias or ()),
        logprobs=logprobs,
        seed=seed,
        stop=stops,
        stop_token_ids=tuple(stop_token_id or ()),
        ignore_eos=ignore_eos,
    )
    if seed is not None and params.greedy:
        note("Note: --seed has no effect without --temperature above 0: nothing is drawn.")
    engine = load_engine(
        pair,
        system=system,
        device=device,
        dtype=dtype,
        max_context=max_context,
        profile=profile,
        kernels=kernels,
        launcher=launcher,
    )
    show, caution = _hide if as_json else write, ""
    grammar = None if shape is None else shape.grammar(engine, thinking=bool(thinking))
    answer = _answer(engine, question, params, system, explain, grammar, show)
    if system is None:
        caution = uncalibrated(engine)
    _report(answer, engine, pair, as_json, caution)
    if answer.finish_reason == "abort":
        raise typer.Exit(INTERRUPTED)


def _params(**values: Any) -> SamplingParams:
    from hybridspec.core import SamplingParams

    return SamplingParams(**values)


def _answer(
    engine: Engine,
    question: Question,
    params: SamplingParams,
    system: str | None,
    explain: bool,
    grammar: Grammar | None,
    show: Callable[[str], None],
) -> Generation:
    template = engine.tokenizer is not None and engine.tokenizer.has_chat_template
    prompt = question.messages() if question.is_chat(template) else question.text
    thinking = bool(question.thinking)
    stream = engine.stream(
        prompt, params, system=system, enable_thinking=thinking, explain=explain, grammar=grammar
    )
    return follow(stream, show)


def _report(answer: Generation, engine: Engine, pair: Pair, as_json: bool, caution: str) -> None:
    """Ends standard output and says how it went, figures last."""
    if as_json:
        write_json(_json(answer, engine, pair))
    elif not answer.text.endswith("\n"):
        write("\n")
    if not as_json:
        for line in explanation(answer):
            note(line)
    if caution:
        note(caution)
    note(statistics_line(answer))


def _json(answer: Generation, engine: Engine, pair: Pair) -> str:
    block_size = engine.drafter.config.block_size if engine.drafter else 1
    model, draft = pair.names
    facts = document(answer, block_size=block_size, model=model, draft=draft)
    return json.dumps(facts, ensure_ascii=False) + "\n"


def _hide(text: str) -> None:
    """With --json the text comes in the document, not as a stream."""
