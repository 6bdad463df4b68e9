"""The server on a GPU that keeps prefixes, and the commands `serve` and `doctor` there.

Run by `make test-gpu`.
"""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

NEEDED = "the server needs fastapi, uvicorn and prometheus-client, the test httpx: not all are here"
runs = pytest.importorskip("server_runs", reason=NEEDED)

from server_runs import CHAT, DEVICE, engine_of, post, streamed  # noqa: E402

from reused import store  # noqa: E402

pytestmark = pytest.mark.gpu
GREEDY = {"temperature": 0, "max_tokens": 48}
SEEDED = {"temperature": 0.9, "top_p": 0.95, "seed": 7, "max_tokens": 48}
STEERED = GREEDY | {"presence_penalty": 0.8, "logit_bias": {"290": -100}}
# On a GPU a message is not cut off within 256 tokens of the cut before.
LONG = "Tell me a story about a town. " * 60
SAID = [LONG, "And then? " * 150, "Why?"]


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return runs.profile_here(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def keeping(profile):
    with runs.server(profile, prefix_memory=1 << 28) as made:
        yield made


def cached(document: dict) -> int:
    return document["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("params", [GREEDY, SEEDED, STEERED], ids=["greedy", "seeded", "steered"])
@pytest.mark.parametrize("system", ["hybridspec", "ar", "dflash"])
def test_turns_go_on_with_the_tokens_of_a_cold_server(keeping, system, params):
    """What was kept is dropped before every cold turn, and then made again for the next one."""
    kept, messages, counts = store(engine_of(keeping)), [], []
    kept.clear()
    usage = {"stream_options": {"include_usage": True}}
    for text in SAID:
        messages.append({"role": "user", "content": text})
        body = {"messages": messages, "system": system} | params | usage
        warm, last = streamed(keeping, CHAT, body)
        counts.append(cached(last))
        kept.clear()
        cold, last = streamed(keeping, CHAT, body)
        assert cached(last) == 0
        assert warm == cold
        messages.append({"role": "assistant", "content": warm[0].text})
    assert counts[0] == 0
    assert 0 < counts[1] < counts[2]


def test_all_systems_go_on_from_what_a_drafting_one_has_kept(keeping):
    store(engine_of(keeping)).clear()
    body = {"messages": [{"role": "user", "content": LONG}]} | GREEDY
    first, _ = streamed(keeping, CHAT, body)
    for system in ("hybridspec", "ar", "static:4", "dflash", "auto"):
        assert streamed(keeping, CHAT, body, system=system)[0] == first, system
        assert cached(post(keeping, CHAT, body | {"system": system})) > 256
    assert keeping.metric("prefix_cache_hits_total") > 0


@pytest.mark.parametrize("named", [True, False], ids=["a profile", "as it comes"])
def test_the_command_serves(profile, named, keeping):
    """In a process of its own, loaded by the thread that serves."""
    options = ["--profile", str(profile), "--system", "hybridspec"] if named else []
    with runs.process(*options) as running:
        listening, ready = running.stdout.readline(), running.stdout.readline()
        url = next(word for word in listening.split() if word.startswith("http://")).rstrip(";")
        # Without a profile that fits, the embedded pair's own being a CPU's.
        default = "auto" if DEVICE == "cpu" else "static:4"
        system = "hybridspec" if named else default
        assert f"system {system}, " in ready, ready or running.stderr.read()
        assert f"{'bfloat16' if DEVICE == 'cuda' else 'float32'} on {DEVICE}" in ready
        body = {"messages": [{"role": "user", "content": LONG}]} | GREEDY
        answers = []
        for system in ("ar", None, None):
            got = runs.httpx.post(url + CHAT, json=body | {"system": system}, timeout=300)
            answers.append(got.json())
        texts = {answer["choices"][0]["message"]["content"] for answer in answers}
        assert len(texts) == 1
        assert cached(answers[1]) == 0  # plain decoding's states serve no system that drafts
        assert cached(answers[2]) > 0
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
        assert "Traceback" not in running.stderr.read()


def test_doctor_says_who_leads(profile):
    got = subprocess.run(
        [*runs.command("doctor", "--json"), "--profile", str(profile)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert got.returncode == 0, got.stdout + got.stderr
    found = {check["name"]: check for check in json.loads(got.stdout)["checks"]}
    assert found["tokens"]["state"] == found["load"]["state"] == "OK"
    assert "equal to plain decoding's" in found["tokens"]["value"]
    assert found["profile"]["state"] in ("OK", "note")
    if DEVICE != "cpu":
        assert found["launcher"]["state"] == "OK"
        assert found["launcher"]["value"].startswith("loop: ")
