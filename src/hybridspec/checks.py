"""What a value given by a user must be; what does not fit is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hybridspec.errors import OptionError
from hybridspec.jsonfile import MOST_SHOWN

if TYPE_CHECKING:
    from hybridspec.core import SamplingParams

MAX_SEED = 2**64 - 1
MOST_BIAS = 100.0
MOST_LOGPROBS = 20
MOST_STOPS, MOST_STOP_TEXT = 256, 65_536  # strings, and their characters in all: each token asks
FILTERS = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}  # of what is drawn, and the values that are off


def is_a(value: object, *types: type) -> bool:
    """Whether a value is of one of the types. True and False are numbers only where named."""
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def expect(holds: bool, name: str, value: object, expected: str) -> None:
    """Refuse the value of an option unless something holds.

    Raises:
        OptionError: it does not.
    """
    if not holds:
        raise OptionError(name, f"is {brief(value)}; expected {expected}.")


def brief(value: object) -> str:
    """A value as Python writes it, for a sentence: cut where it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def check_sampling(params: SamplingParams) -> None:
    """Refuse sampling parameters of another type, out of range or without effect.

    Raises:
        OptionError: the first that cannot be used.
    """
    _check_types(params)
    _check_members(params)
    _check_bias(params.logit_bias)
    _check_ranges(params)
    if params.temperature == 0.0:
        _refuse_idle_filters(params)


def _check_types(params: SamplingParams) -> None:
    whole, real, lists = (int,), (int, float), (list, tuple)
    expected: list[tuple[str, tuple[type, ...], str]] = [
        ("max_tokens", whole, "an integer"),
        ("top_k", whole, "an integer"),
        ("seed", (int, type(None)), "an integer or None"),
        ("temperature", real, "a number"),
        ("top_p", real, "a number"),
        ("min_p", real, "a number"),
        ("stop", lists, "a list of strings"),
        ("stop_token_ids", lists, "a list of token ids"),
        ("ignore_eos", (bool,), "True or False"),
        ("presence_penalty", real, "a number"),
        ("frequency_penalty", real, "a number"),
        ("repetition_penalty", real, "a number"),
        ("logprobs", (int, type(None)), "an integer or None"),
    ]
    for name, types, words in expected:
        value = getattr(params, name)
        expect(is_a(value, *types), name, value, words)


def _check_members(params: SamplingParams) -> None:
    stop, ids = params.stop, params.stop_token_ids
    expect(all(is_a(text, str) for text in stop), "stop", stop, "a list of strings")
    expect(all(stop), "stop", stop, "a list of non-empty strings")
    few = len(stop) <= MOST_STOPS and sum(map(len, stop)) <= MOST_STOP_TEXT
    most = f"at most {MOST_STOPS} strings of {MOST_STOP_TEXT:,} characters in all"
    expect(few, "stop", stop, most)
    expect(all(map(is_unicode, stop)), "stop", stop, "valid Unicode, as all text of an answer is")
    expect(all(is_a(i, int) for i in ids), "stop_token_ids", ids, "a list of token ids")


def _check_bias(bias: object) -> None:
    """Token ids, each once, with what is added to their logits."""
    words = "a list of pairs (token id, number) or a mapping of them"
    expect(is_a(bias, list, tuple, Mapping), "logit_bias", bias, words)
    pairs = list(bias.items()) if isinstance(bias, Mapping) else list(bias)  # type: ignore[call-overload]
    for pair in pairs:
        fits = is_a(pair, list, tuple) and len(pair) == 2
        fits = fits and is_a(pair[0], int) and is_a(pair[1], int, float)
        expect(fits, "logit_bias", bias, words)
        if not abs(pair[1]) <= MOST_BIAS:
            said = f"gives token {pair[0]} {brief(pair[1])}; expected a number from -100 to 100."
            raise OptionError("logit_bias", said)
    ids = [token for token, _ in pairs]
    expect(len(set(ids)) == len(ids), "logit_bias", bias, "each token once")


def _check_ranges(params: SamplingParams) -> None:
    checks = [
        ("max_tokens", params.max_tokens >= 1, "an integer of at least 1"),
        ("temperature", 0.0 <= params.temperature <= 100.0, "between 0 (greedy) and 100"),
        ("top_k", params.top_k >= 0, "0 (off) or a positive integer"),
        ("top_p", 0.0 < params.top_p <= 1.0, "above 0 and at most 1"),
        ("min_p", 0.0 <= params.min_p <= 1.0, "between 0 (off) and 1"),
        ("seed", params.seed is None or 0 <= params.seed <= MAX_SEED, "between 0 and 2^64 - 1"),
        ("presence_penalty", abs(params.presence_penalty) <= 2.0, "between -2 and 2; 0 is off"),
        ("frequency_penalty", abs(params.frequency_penalty) <= 2.0, "between -2 and 2; 0 is off"),
        ("repetition_penalty", 0.01 <= params.repetition_penalty <= 2.0, "0.01 to 2; 1 is off"),
        ("logprobs", 0 <= (params.logprobs or 0) <= MOST_LOGPROBS, f"None or 0 to {MOST_LOGPROBS}"),
    ]
    for name, holds, words in checks:
        expect(holds, name, getattr(params, name), words)


def _refuse_idle_filters(params: SamplingParams) -> None:
    """Where nothing is drawn, a filter of what is drawn would be dropped in silence.

    A seed is let through: with it the same answer comes each time, as was asked.
    """
    for name, off in FILTERS.items():
        value = getattr(params, name)
        if value != off:
            raise OptionError(
                name,
                f"is {value!r}, but at temperature 0 nothing is drawn: the most likely token is "
                "taken. Add a temperature above 0 (--temperature), or leave it out.",
            )


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: it holds no lone surrogate, which is half a character."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_token_ids(params: SamplingParams, vocab_size: int) -> None:
    """Refuse a stop id or a biased id that no token has.

    Raises:
        OptionError: the first of them.
    """
    biased = [token for token, _ in params.logit_bias]
    for name, ids in (("stop_token_ids", params.stop_token_ids), ("logit_bias", biased)):
        for token in ids:
            if not 0 <= token < vocab_size:
                raise OptionError(name, f"names {token}; expected ids from 0 to {vocab_size - 1}.")
