"""The server on a GPU in bf16: what a client hears is plain decoding's, to the token and the bit.

The kernels of `exact` give a row the bits that plain decoding gives it (docs/runtime.md), so that
nothing here is compared up to rounding, log-probabilities included. Run by `make test-gpu`.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

NEEDED = "the server needs fastapi, uvicorn and prometheus-client, the test httpx: not all are here"
runs = pytest.importorskip("server_runs", reason=NEEDED)

from server_runs import CHAT, DEVICE, TEXT, asked, engine_of, heard, post, streamed  # noqa: E402

from hybridspec.core import prefill_chunk  # noqa: E402
from served import until  # noqa: E402

pytestmark = pytest.mark.gpu
GARDEN = {"messages": [{"role": "user", "content": "What should I know about gardening?"}]}
STORY = {"prompt": "The garden behind the house was"}
GREEDY = {"temperature": 0, "max_tokens": 64}
SEEDED = {"temperature": 0.9, "top_p": 0.95, "top_k": 50, "seed": 7, "max_tokens": 64}
LED = {"return_rounds": True}  # by the host, which alone has the drafts that are shown
ASKED = pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
ROUTES = pytest.mark.parametrize(
    ("path", "prompt"), [(CHAT, GARDEN), (TEXT, STORY)], ids=["chat", "completion"]
)
ON_DEVICE = ("hybridspec", "static:4", "dflash")


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return runs.profile_here(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def served(profile):
    with runs.server(profile) as made:
        yield made


@ASKED
@ROUTES
def test_a_stream_is_plain_decoding_s_answer(served, path, prompt, params):
    """Rounds that stay on the device; `hybridspec` is what a request gets that names none."""
    body = prompt | params | {"ignore_eos": True}
    plain = heard(served, path, body, system="ar")
    assert len(plain[0].ids) == params["max_tokens"]
    for system in (None, *ON_DEVICE):
        said, last = streamed(served, path, body, system=system)
        assert said == plain, system
        assert last["hybridspec"]["system"] == system or system is None
        assert heard(served, path, body, system=system) == plain, system
    if DEVICE != "cpu":
        assert {"ar", *ON_DEVICE} <= engine_of(served)._launching.runs.figures.keys()


@ASKED
@pytest.mark.parametrize("system", ["hybridspec", "auto"])
def test_rounds_that_the_host_leads_say_the_same(served, system, params):
    """Seeded answers of the two are of two samplers, so `ar` is led by the host here too."""
    plain, _ = streamed(served, CHAT, GARDEN | params | LED, system="ar")
    said, _ = streamed(served, CHAT, GARDEN | params | LED, system=system)
    assert said == plain
    if params is GREEDY:
        assert said == heard(served, CHAT, GARDEN | params, system="ar")


def test_usage_and_facts_agree(served):
    body = GARDEN | GREEDY | {"ignore_eos": True, "return_spec_tokens_details": True}
    said, last = streamed(served, CHAT, body, stream_options={"include_usage": True})
    for document in (last, post(served, CHAT, body)):
        usage, own = document["usage"], document["hybridspec"]
        facts = document["metrics"]["speculative_decoding"]
        assert usage["completion_tokens"] == document["timings"]["predicted_n"] == 64
        assert usage["total_tokens"] == usage["prompt_tokens"] + 64
        counts = facts["acceptance_histogram"]
        assert sum(counts) == facts["num_spec_steps"] == own["rounds"]
        accepted = sum(j * count for j, count in enumerate(counts))
        assert (
            accepted
            == facts["num_accepted_draft_tokens"]
            == document["timings"]["draft_n_accepted"]
        )
        assert 64 <= 1 + own["rounds"] + accepted < 64 + 16
        assert facts["mean_acceptance_length"] > 1.5
        lengths = own["verification_length_histogram"]
        drafts = sum((w - 1) * count for w, count in enumerate(lengths) if w)
        assert drafts == facts["num_draft_tokens"] == document["timings"]["draft_n"]
        assert document["sglext"]["spec_tokens_details"]["spec_verify_ct"] == own["rounds"]
    assert len(said[0].ids) == 64


STEERED = {
    "presence": GREEDY | {"presence_penalty": 1.5},
    "frequency": GREEDY | {"frequency_penalty": 0.7},
    "repetition": GREEDY | {"repetition_penalty": 1.3},
    "bias": GREEDY | {"logit_bias": {"290": -100, "714": 5}},
    "all": SEEDED | {"presence_penalty": 0.5, "frequency_penalty": 0.2, "repetition_penalty": 1.1,
                     "logit_bias": {"290": -100, "714": 3}},
}  # fmt: skip


@pytest.mark.parametrize("shape", STEERED)
def test_steered_answers_are_plain_decoding_s(served, shape):
    """With the log-probabilities of every token and of the likeliest, to the bit."""
    body = GARDEN | STEERED[shape] | {"logprobs": True, "top_logprobs": 5, "ignore_eos": True}
    plain = asked(served, CHAT, body, system="ar")
    for system in (*ON_DEVICE, "auto"):
        assert asked(served, CHAT, body, system=system) == plain, system
    free = SEEDED if shape == "all" else GREEDY
    unsteered = heard(served, CHAT, GARDEN | free | {"ignore_eos": True})
    assert unsteered[0].ids != tuple(plain[0]["token_ids"])


def test_log_probabilities_are_of_the_tokens(served):
    body = GARDEN | GREEDY | {"logprobs": True, "top_logprobs": 3, "ignore_eos": True}
    choice = asked(served, CHAT, body)[0]
    assert choice["token_ids"] == list(
        heard(served, CHAT, GARDEN | GREEDY | {"ignore_eos": True})[0].ids
    )
    for token in choice["logprobs"]["content"]:
        likeliest = token["top_logprobs"][0]
        assert token["logprob"] == likeliest["logprob"] <= 0  # of equals another may stand first
    echoed = asked(served, TEXT, STORY | GREEDY, logprobs=2, echo=True)[0]
    entries = echoed["logprobs"]["token_logprobs"]
    assert len(entries) == len(echoed["prompt_token_ids"]) + len(echoed["token_ids"])
    assert entries[0] is None
    assert all(entry <= 0 for entry in entries[1:])


@pytest.mark.parametrize("system", [*ON_DEVICE, "auto"])
def test_a_stop_string_cuts_where_plain_decoding_is_cut(served, system):
    """The device is further by then. The next answer is right all the same."""
    whole = heard(served, CHAT, GARDEN | GREEDY, system="ar")[0]
    stop = whole.text[len(whole.text) // 2 :][:9]
    body = GARDEN | GREEDY | {"stop": [stop]}
    plain = heard(served, CHAT, body, system="ar")[0]
    assert plain.text == whole.text[: whole.text.index(stop)]
    assert plain.finish == "stop"
    assert heard(served, CHAT, body, system=system)[0] == plain
    assert streamed(served, CHAT, body, system=system)[0][0] == plain
    assert heard(served, CHAT, GARDEN | GREEDY, system=system)[0] == whole


@ROUTES
def test_several_choices_are_plain_decoding_s(served, path, prompt):
    body = prompt | SEEDED | {"n": 3}
    plain = heard(served, path, body, system="ar")
    assert len({choice.ids for choice in plain}) == 3
    assert streamed(served, path, body)[0] == plain
    assert [heard(served, path, prompt | SEEDED, seed=7 + i)[0] for i in range(3)] == plain


def test_json_by_a_schema(served):
    pytest.importorskip("xgrammar", reason="JSON answers need xgrammar, which is not installed")
    schema = {
        "type": "object",
        "properties": {"plant": {"enum": ["rose", "oak"]}, "count": {"enum": [1, 2, 3]}},
        "required": ["plant", "count"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "plants", "schema": schema}}
    for params in (GREEDY, SEEDED):
        body = GARDEN | params | {"response_format": form, "max_tokens": 200, "logprobs": True}
        body["frequency_penalty"] = 2  # or the toy writes all the spaces that it may
        plain = asked(served, CHAT, body, system="ar")
        said = json.loads(plain[0]["message"]["content"])
        assert said["plant"] in ("rose", "oak")
        assert said["count"] in (1, 2, 3)
        for system in (*ON_DEVICE, "auto"):
            assert asked(served, CHAT, body, system=system) == plain, system


def test_a_prompt_of_several_parts(served):
    """Longer than a first pass takes, and read in two."""
    target = engine_of(served).target
    chunk = prefill_chunk(target.device, target.dtype)
    ids = engine_of(served).encode("The river runs behind the mill. " * chunk)[: chunk + 40]
    for params in (GREEDY, SEEDED):
        body = {"prompt": ids, "ignore_eos": True} | params
        plain = heard(served, TEXT, body, system="ar")
        assert streamed(served, TEXT, body)[0] == plain
    assert post(served, TEXT, body)["usage"]["prompt_tokens"] == chunk + 40


def test_eight_clients_at_once(served):
    """Each hears what it hears alone, on the device, led by the host, and by plain decoding."""
    shapes = [
        GREEDY,
        SEEDED,
        GREEDY | {"presence_penalty": 1.0},
        SEEDED | {"top_logprobs": 2, "logprobs": True},
    ]
    bodies = [
        GARDEN | shape | {"system": system, "user": f"{i} {system}"}
        for i, shape in enumerate(shapes)
        for system in ("hybridspec", "ar")
    ]
    alone = [asked(served, CHAT, body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as clients:
        together = list(clients.map(lambda body: asked(served, CHAT, body), 2 * bodies))
    assert together == 2 * alone
    until(served.idle)


@pytest.mark.parametrize("more", [{}, {"stop": ["no such words"]}, {"presence_penalty": 0.1}],
                         ids=["device", "with stops", "host"])  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_makes_room(served, stream, more):
    before = heard(served, CHAT, GARDEN | GREEDY)
    count = served.metric("generation_tokens_total")
    body = STORY | {"max_tokens": 30_000, "ignore_eos": True, "stream": stream} | more
    connection = served.send(TEXT, body)
    until(lambda: served.metric("generation_tokens_total") > count + 5)
    connection.close()
    until(served.idle)
    assert served.metric("generation_tokens_total") < count + 30_000
    assert heard(served, CHAT, GARDEN | GREEDY) == before
    assert heard(served, CHAT, GARDEN | GREEDY, system="ar") == before


def test_health_and_metrics(served):
    names = ("spec_decode_num_drafts_total", "spec_decode_num_accepted_tokens_total",
             "generation_tokens_total", "prompt_tokens_total")  # fmt: skip
    before = {name: served.metric(name) for name in names}
    document = post(served, CHAT, GARDEN | GREEDY)
    added = {name: served.metric(name) - value for name, value in before.items()}
    facts, usage = document["metrics"]["speculative_decoding"], document["usage"]
    assert list(added.values()) == [
        facts["num_spec_steps"], facts["num_accepted_draft_tokens"], usage["completion_tokens"],
        usage["prompt_tokens"],
    ]  # fmt: skip
    assert 1 < served.metric("spec_accept_length") <= 16
    assert served.idle()
    assert runs.httpx.get(f"{served.url}/health").json() == {"status": "ok"}
