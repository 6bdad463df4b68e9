"""Prompt in, tokens out. Three lines of user code:

engine = Engine.load()
answer = engine.generate("What is the capital of France?", chat=True)
print(answer.text)
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from hybridspec.checkpoint import (
    GenerationConfig,
    check_pair,
    load_drafter,
    load_target,
    read_drafter_config,
    read_generation_config,
    read_target_config,
)
from hybridspec.checks import MOST_LOGPROBS, check_token_ids, expect, is_a
from hybridspec.core import SamplingParams, TokenLogprobs
from hybridspec.errors import RequestError
from hybridspec.model.config import TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.placement import choose_context, choose_device, choose_dtype
from hybridspec.policy.profile import Profile
from hybridspec.profiles import find_profile
from hybridspec.runtime.accelerate import accelerated, accelerated_drafter
from hybridspec.runtime.launching import LAUNCHERS, Launching
from hybridspec.runtime.logprobs import prompt_logprobs
from hybridspec.runtime.prefix.reuse import MODES, Mode, Prefixes
from hybridspec.runtime.room import states
from hybridspec.runtime.round import Sequence
from hybridspec.runtime.steering import Steering
from hybridspec.sources import find_pair, pair_name
from hybridspec.stream import Stream, whole
from hybridspec.systems import System, check_system, parse_system
from hybridspec.text.grammar import Grammar, Grammars, begin
from hybridspec.text.prompt import Prompt, encode_prompt
from hybridspec.text.stop import OutputStream
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools.definitions import Tools

# With a profile, the policy that learns: as fast as any (README), and safe where it is stale.
CALIBRATED_SYSTEM = "auto"
DEFAULT_SYSTEM = "static:4"  # without one: the embedded pair's best fixed length on a CPU (README)
MOST_SYSTEMS = 64  # whose policies an engine keeps


class Engine:
    """One target, perhaps its drafter, and the memory of one sequence, allocated once."""

    _named: str | None = None  # the pair, as `load` was asked for it

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None = None,
        tokenizer: Tokenizer | None = None,
        *,
        defaults: GenerationConfig | None = None,
        max_context: int | None = None,
        profile: Profile | None = None,
        kernels: bool = True,
        launcher: str = "auto",
        prefix_memory: int = 0,
    ) -> None:
        """Wrap loaded models; `load` is the usual way.

        Args:
            target: prepared target.
            drafter: prepared drafter of this target; None leaves only plain decoding.
            tokenizer: None takes and gives token ids only.
            defaults: the checkpoint's stop ids and sampling settings.
            max_context: most tokens of prompt and answer together.
            profile: the pair's calibration on this device, for the systems that need one.
            kernels: on a GPU, draft and verify with kernels (`kernels/forward`), not in torch.
            launcher: who leads from round to round: `host`, or `loop`, `switch` or `eager`, which
                stay on the device (docs/runtime.md); `auto` is `loop` where the target's passes are
                kernels on a GPU, else `host`.
            prefix_memory: bytes of states kept on the model's device, so that a prompt with a
                known beginning goes on from there; 0 keeps nothing. See `stream` for `reuse`.
        """
        expect(isinstance(kernels, bool), "kernels", kernels, "True or False")
        expect(launcher in LAUNCHERS, "launcher", launcher, " or ".join(LAUNCHERS))
        fits = is_a(prefix_memory, int) and prefix_memory >= 0
        expect(fits, "prefix_memory", prefix_memory, "a number of bytes, 0 or more")
        if kernels:
            target = accelerated(target)
            drafter = None if drafter is None else accelerated_drafter(drafter, target)
        self.profile = profile
        self._systems: dict[str, System] = {}
        self._grammars: Grammars | None = None
        self.target, self.drafter, self.tokenizer = target, drafter, tokenizer
        self.defaults = defaults or GenerationConfig(eos_token_ids=())
        self.max_context = choose_context(max_context, target.config.max_position_embeddings)
        self._launching = Launching(launcher, target, drafter)
        joint = True if self._launching.on_device else None
        self._state, self._drafter_state = states(target, drafter, self.max_context, joint)
        target.set_context(self.max_context)
        if drafter is not None:
            drafter.set_context(self.max_context)
        opening = tokenizer.opening_id() if tokenizer and prefix_memory else None
        marks = () if opening is None else (opening,)
        self._prefixes = Prefixes(target, self._state.slot(), prefix_memory, marks)
        self._current: weakref.ref[Stream] | None = None
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls,
        model: str | Path | None = None,
        draft: str | Path | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_context: int | None = None,
        revision: str | None = None,
        draft_revision: str | None = None,
        progress: bool | None = None,
        profile: str | Path | None = None,
        kernels: bool = True,
        launcher: str = "auto",
        prefix_memory: int = 0,
    ) -> Self:
        """Load a checkpoint folder or Hub id and its drafter; with neither, the embedded pair.

        Args:
            model: target folder or `owner/name`; None is the embedded pair.
            draft: drafter folder or `owner/name`; None decodes plainly (but see `model`).
            device: `cpu`, `cuda`, `cuda:1`, ...; `auto` takes a GPU when there is one.
            dtype: `float32`, `bfloat16`, `float16`, `float64`; `auto` is bfloat16 on a GPU and
                float32 on a CPU.
            max_context: most tokens of prompt and answer; by default the model's own limit,
                but no more than 32,768.
            revision, draft_revision: branch, tag or commit of a Hub id.
            progress: show a bar while loading; None shows it on a terminal only.
            profile: a calibration profile of the pair on this device (`hybridspec calibrate`); None
                takes the embedded pair's own where it fits.
            kernels: on a GPU, draft and verify with our kernels (the default) or in plain torch.
            launcher: who leads from round to round, as in `Engine`.
            prefix_memory: bytes of states kept for prompts that begin alike, as in `Engine`.

        Raises:
            CheckpointError: a checkpoint that cannot be used. RequestError: an option out of range.
            ProfileError: a profile that cannot be read or is of another pair or device.
        """
        place = choose_device(device)
        number = choose_dtype(dtype, place)
        holds = progress is None or isinstance(progress, bool)
        expect(holds, "progress", progress, "True, False or None")
        folder, source = find_pair(model, draft, revision, draft_revision)
        config = _check_configs(folder, source, max_context)  # before gigabytes are read
        calibrated = find_profile(profile, folder, source, place, number)
        tokenizer, defaults = Tokenizer.from_dir(folder), read_generation_config(folder)
        target = load_target(folder, place, number, progress=progress)
        drafter = None
        if source is not None:
            drafter = load_drafter(source, config, place, number, progress=progress)
        engine = cls(
            target,
            drafter,
            tokenizer,
            defaults=defaults,
            max_context=max_context,
            profile=calibrated,
            kernels=kernels,
            launcher=launcher,
            prefix_memory=prefix_memory,
        )
        engine._named = pair_name(model, draft)
        return engine

    def __repr__(self) -> str:
        made = "a target" if self.drafter is None else "a target and a drafter"
        dtype = str(self.target.dtype).removeprefix("torch.")
        return (
            f"<Engine of {self._named or made}, system {self.default_system}, on "
            f"{self.target.device} in {dtype}, context {self.max_context}>"
        )

    @property
    def default_system(self) -> str:
        """The decoding system used when none is named."""
        if self.drafter is None:
            return "ar"
        return DEFAULT_SYSTEM if self.profile is None else CALIBRATED_SYSTEM

    @property
    def launcher(self) -> str:
        """Who leads rounds that can stay on the device: `loop`, `switch` or `eager`; `host` where
        none can."""
        return self._launching.name

    def encode(
        self,
        prompt: Prompt,
        *,
        chat: bool = False,
        enable_thinking: bool = False,
        tools: Tools | None = None,
    ) -> list[int]:
        """Token ids of a prompt: text, messages (or text with `chat`) through the template, or ids.

        Args:
            prompt: text, token ids, or messages in OpenAI's form, with tool calls and results too.
            chat: wrap a text prompt as a user's message in the chat template.
            enable_thinking: passed to the chat template.
            tools: definitions in OpenAI's form, for the chat template; calls in the answer are read
                by `hybridspec.text.tools`.

        Raises:
            RequestError: nothing in it, another form, ids out of range, no tokenizer or template
                for it, or tools that cannot be used.
        """
        for name, value in (("chat", chat), ("enable_thinking", enable_thinking)):
            expect(isinstance(value, bool), name, value, "True or False")
        return encode_prompt(
            prompt,
            self.tokenizer,
            self.target.config.vocab_size,
            chat=chat,
            enable_thinking=enable_thinking,
            tools=tools,
        )

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        system: str | System | None = None,
        chat: bool = False,
        enable_thinking: bool = False,
        tools: Tools | None = None,
        explain: bool = False,
        keep_drafts: bool = False,
        grammar: Grammar | None = None,
        reuse: Mode = "exact",
    ) -> Stream:
        """Start an answer; iterate over the result for its pieces.

        Args:
            prompt: text, token ids, or chat messages.
            params: sampling and limits; greedy with 256 tokens by default.
            system: a name such as `ar`, `dflash` or `static:W`, or a `System` of one's own; all
                give the same tokens. See `systems.py`.
            chat: wrap a text prompt as a user's message in the chat template.
            enable_thinking: passed to the chat template.
            tools: as of `encode`.
            explain: keep what each round's policy saw, in its statistics.
            keep_drafts: keep each round's draft tokens there, those not verified included.
            grammar: what the answer must be, from `grammar` of this engine.
            reuse: what an engine with `prefix_memory` does with kept states: `exact` goes on where
                that gives the bits of a run without them; `near` also from ends of answers, equal
                up to rounding; `none` neither takes nor keeps any.

        Raises:
            RequestError: a prompt, parameter or system that cannot be served, or an answer is
                under way.
        """
        params = SamplingParams() if params is None else params
        expect(isinstance(params, SamplingParams), "params", params, "SamplingParams or None")
        check_token_ids(params, self.target.config.vocab_size)
        for option, value in (("explain", explain), ("keep_drafts", keep_drafts)):
            expect(isinstance(value, bool), option, value, "True or False")
        expect(reuse in MODES, "reuse", reuse, " or ".join(MODES))
        chosen = check_system(system) if isinstance(system, System) else self._system(system)
        ids = self.encode(prompt, chat=chat, enable_thinking=enable_thinking, tools=tools)
        most = min(params.max_tokens, self._room(ids))
        eos = self.defaults.eos_token_ids
        detokenizer = self.tokenizer.detokenizer() if self.tokenizer else None
        output = OutputStream(detokenizer, params, eos, most)
        vocabulary, device = self.target.config.vocab_size, self.target.device
        walk = begin(grammar, params, self.tokenizer, vocabulary, output.stop_ids)
        steering = Steering.of(params, ids, vocabulary, device, walk)
        with self._lock:
            self._check_free()
            self._launching.halt()  # a stream that was dropped may have left the device at work
            observed = explain or keep_drafts
            rounds = self._launching.rounds(
                chosen, output, self.target, observed=observed, steering=steering
            )
            sequence = self._sequence(params, chosen.drafts)
            sequence.explain, sequence.keep_drafts = explain, keep_drafts
            reused = self._prefixes.answer(self.target, reuse)
            stream = Stream(rounds, sequence, ids, output, most, reused)
            self._current = weakref.ref(stream)
        return stream

    generate = whole(stream)

    def score(
        self, ids: Prompt, top: int, *, wanted: Callable[[], bool] = lambda: True
    ) -> tuple[TokenLogprobs | None, ...]:
        """Log-probabilities of a prompt's own tokens, each after those before it.

        Args:
            ids: token ids; another prompt is encoded first.
            top: how many of the most likely tokens to list at each place, 0 to 20.
            wanted: asked before each part of the prompt; where it says no, the scores end.

        Returns:
            An entry a token; None for the first, which follows nothing.

        Raises:
            RequestError: a prompt that cannot be taken or is longer than the context, `top` out of
                range, an answer is under way, or it is not wanted any more.
        """
        holds = is_a(top, int) and 0 <= top <= MOST_LOGPROBS
        expect(holds, "top", top, f"an integer from 0 to {MOST_LOGPROBS}")
        tokens = self.encode(ids)
        if len(tokens) > self.max_context:
            raise RequestError(
                f"The prompt has {len(tokens)} tokens and the context {self.max_context}. Shorten "
                "the prompt or raise max_context (--max-context)."
            )
        with self._lock:
            self._check_free()
            self._launching.halt()
            return prompt_logprobs(self.target, self._state.slot(0), tokens, top, wanted)

    def grammar(
        self,
        schema: Mapping[str, Any] | None,
        *,
        after: str | None = None,
        tools: Tools | None = None,
        opening: str = "",
    ) -> Grammar:
        """What an answer must be, for `stream` and `generate`; needs the extra `[grammar]`.

        An answer by it is JSON unless it runs into a limit or a stop string. Objects have the
        properties that a schema names, in its order, and no others.

        Args:
            schema: a JSON schema; None: any JSON object.
            after: the text of a token such as `</think>` after which the grammar begins; until it
                comes, anything may.
            tools: functions in OpenAI's form; the answer may then be calls of them instead, in the
                form of the chat template and with arguments of the model's own.
            opening: text of such an answer with which the prompt ends already.

        Raises:
            RequestError: a schema that cannot be kept to, no such token, an opening of no such
                answer, tools that cannot be used, no tokenizer, or xgrammar is not installed.
        """
        if self._grammars is None:
            vocabulary, eos = self.target.config.vocab_size, self.defaults.eos_token_ids
            self._grammars = Grammars(self.tokenizer, vocabulary, eos)
        return self._grammars.make(schema, after, tools, opening)

    @property
    def nbytes(self) -> int:
        """Bytes of the sequence's memory: target and drafter state."""
        return self._state.nbytes + (self._drafter_state.nbytes if self._drafter_state else 0)

    def _system(self, name: str | None) -> System:
        """One object a name: what it learns serves the answers after. Of names that clients make
        up, such as `specdecpp:0.123`, the last ones are kept."""
        name = self.default_system if name is None else name
        system = self._systems.pop(name, None) if isinstance(name, str) else None
        if system is None:
            block = self.drafter.config.block_size if self.drafter else None
            system = parse_system(name, block, self.profile)
        self._systems[name] = system
        while len(self._systems) > MOST_SYSTEMS:
            del self._systems[next(iter(self._systems))]
        return system

    def _sequence(self, params: SamplingParams, drafts: bool) -> Sequence:
        """Fresh slots for a request. The seed is drawn here when the request names none."""
        taps = self.drafter.config.target_layer_ids if self.drafter and drafts else ()
        seed = secrets.randbits(64) if params.seed is None else params.seed
        drafter_slot = self._drafter_state.slot() if self._drafter_state else None
        slot = self._state.slot(0, taps)
        return Sequence(slot, drafter_slot, params, seed)

    def _room(self, ids: list[int]) -> int:
        room = self.max_context - len(ids)
        if room < 1:
            raise RequestError(
                f"The prompt has {len(ids)} tokens and the context {self.max_context}, which must "
                "also hold the answer. Shorten the prompt or raise max_context (--max-context)."
            )
        return room

    def _check_free(self) -> None:
        """One sequence's memory serves one answer at a time; a dropped stream holds nothing."""
        current = self._current() if self._current else None
        if current is not None and not current.finished:
            raise RequestError(
                "The engine is in the middle of another answer; it serves one at a time. Finish or "
                "close that stream first."
            )


def _check_configs(target: Path, drafter: Path | None, max_context: int | None) -> TargetConfig:
    config = read_target_config(target)
    if drafter is not None:
        check_pair(config, read_drafter_config(drafter))
    choose_context(max_context, config.max_position_embeddings)
    return config
