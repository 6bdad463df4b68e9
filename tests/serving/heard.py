"""Answers of the server in one form, whether they came whole or as a stream."""

from __future__ import annotations

from typing import Any

from served import Served, events

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
STREAM = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}


def whole(server: Served, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request without `stream`."""
    document = server.post(path, {"return_token_ids": True, **body}).json()
    check_facts(document)
    choices = []
    for choice in document["choices"]:
        said = choice.get("message", choice)
        heard = _empty()
        heard["text"] = said.get("content", said.get("text")) or ""
        heard["reasoning"] = said.get("reasoning_content", "")
        assert said.get("reasoning", "") == heard["reasoning"]
        heard["calls"] = [_call(call["id"], **call["function"]) for call in _calls(said)]
        heard["token_ids"], heard["logprobs"] = choice["token_ids"], choice["logprobs"]
        choices.append({**heard, "finish_reason": choice["finish_reason"]})
    return {"choices": choices, "usage": document["usage"]}


def streamed(server: Served, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to the same request, put together from its events, in the same form."""
    *chunks, last = events(server.post(path, {"return_token_ids": True, **body, **STREAM}).text)
    check_facts(last)
    check_counts(chunks, last["usage"])
    choices: dict[int, dict[str, Any]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        heard = choices.setdefault(choice["index"], _empty())
        assert heard["finish_reason"] is None, "something comes after the end"
        _add(heard, choice)
    return {"choices": [choices[i] for i in sorted(choices)], "usage": last["usage"]}


def _empty() -> dict[str, Any]:
    return {
        "text": "", "reasoning": "", "calls": [], "token_ids": [], "logprobs": None,
        "finish_reason": None,
    }  # fmt: skip


def _add(heard: dict[str, Any], choice: dict[str, Any]) -> None:
    """One event more."""
    said = choice.get("delta", choice)
    heard["text"] += said.get("content", said.get("text")) or ""
    heard["reasoning"] += said.get("reasoning_content", "")
    assert said.get("reasoning", "") == said.get("reasoning_content", "")
    for call in _calls(said):
        if "id" in call:
            assert call["index"] == len(heard["calls"])
            heard["calls"].append(_call(call["id"], call["function"]["name"], ""))
        assert call["index"] == len(heard["calls"]) - 1
        heard["calls"][-1]["arguments"] += call["function"]["arguments"]
    heard["token_ids"] += choice.get("token_ids", [])
    if choice["logprobs"] is not None:
        known = heard["logprobs"] or {}
        heard["logprobs"] = {
            name: part if part is None else known.get(name, []) + part
            for name, part in choice["logprobs"].items()
        }
    heard["finish_reason"] = choice["finish_reason"]


def _calls(said: dict[str, Any]) -> list[dict[str, Any]]:
    return said.get("tool_calls", [])


def _call(id: str, name: str, arguments: str) -> dict[str, Any]:
    assert id.startswith("call_")
    return {"name": name, "arguments": arguments}


def check_facts(document: dict[str, Any]) -> None:
    """A58: sums of the histogram are rounds and drafts; every count of tokens is the same one."""
    facts, usage = document["metrics"]["speculative_decoding"], document["usage"]
    counts, timings = facts["acceptance_histogram"], document["timings"]
    assert sum(counts) == facts["num_spec_steps"] == document["hybridspec"]["rounds"]
    assert sum(j * n for j, n in enumerate(counts)) == facts["num_accepted_draft_tokens"]
    assert timings["draft_n_accepted"] == facts["num_accepted_draft_tokens"]
    assert timings["draft_n"] == facts["num_draft_tokens"] >= facts["num_accepted_draft_tokens"]
    answers = len(document["hybridspec"]["seeds"])
    emitted = answers + facts["num_spec_steps"] + facts["num_accepted_draft_tokens"]
    trimmed = emitted - timings["predicted_n"]  # by a stop or the limit in each last block
    assert 0 <= trimmed < 16 * answers
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] * answers == timings["prompt_n"] + timings["cache_n"]
    assert usage["completion_tokens"] <= timings["predicted_n"]
    thinking = usage["completion_tokens_details"]["reasoning_tokens"]
    assert thinking <= usage["completion_tokens"]


def check_counts(chunks: list[dict[str, Any]], usage: dict[str, Any]) -> None:
    """Tokens so far are those of the events so far. The one with the role has none of the first
    piece's, which is counted by then."""
    told = 0
    for chunk in chunks:
        told += sum(len(choice.get("token_ids", [])) for choice in chunk["choices"])
        counted = chunk["usage"]["completion_tokens"]
        thinking = chunk["usage"]["completion_tokens_details"]["reasoning_tokens"]
        if not any("role" in choice.get("delta", ()) for choice in chunk["choices"]):
            assert counted == told
        assert thinking <= counted
    assert told == usage["completion_tokens"]


def unlike(ours: Any, law: Any, tolerance: float, at: str = "answer") -> list[str]:
    """Where two answers differ, field by field; numbers may by `tolerance`."""
    if isinstance(law, dict) and isinstance(ours, dict) and ours.keys() == law.keys():
        return [u for name in law for u in unlike(ours[name], law[name], tolerance, f"{at}.{name}")]
    if isinstance(law, list) and isinstance(ours, list) and len(ours) == len(law):
        pairs = enumerate(zip(ours, law, strict=True))
        return [u for i, (a, b) in pairs for u in unlike(a, b, tolerance, f"{at}[{i}]")]
    if isinstance(law, float) and isinstance(ours, float) and abs(ours - law) <= tolerance:
        return []
    return [] if type(ours) is type(law) and ours == law else [f"{at} is {ours!r}, not {law!r}"]
