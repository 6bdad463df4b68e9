"""The soak finds out a server that says something else, refuses, or grows."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hybridspec.bench.soak.asks import CHAT, TEXT, WRONG, asks
from hybridspec.bench.soak.client import Choice, Client, Refused
from hybridspec.bench.soak.load import Load, alone
from hybridspec.bench.soak.main import main
from hybridspec.bench.soak.report import report, sound
from hybridspec.bench.soak.server import serving
from hybridspec.errors import HybridSpecError

HOST = "127.0.0.1"
WORDS = ("The", " rain", " falls")


class Handler(BaseHTTPRequestHandler):
    """Says the same to every request that is not wrong, but for what `server.lie` adds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        wrong = next((w for w in WRONG if (w.path, w.data) == (self.path, data)), None)
        if wrong is not None or self.server.status != 200:
            status = self.server.status if wrong is None else wrong.status
            return self._answer(status + self.server.wrong_by, b"{}")
        body = json.loads(data)
        parts = [*WORDS, self.server.lie]
        if not body.get("stream"):
            return self._answer(200, json.dumps(self._document("".join(parts), "stop")).encode())
        events = [self._document(p, None) for p in parts] + [self._document("", "stop")]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        return self._answer(200, f": waiting\n\n{text}data: [DONE]\n\n".encode())

    def _document(self, text, finish):
        choice = {"index": 0, "logprobs": None, "finish_reason": finish}
        said = {"text": text} if self.path == TEXT else {"delta": {"content": text}}
        return {"choices": [choice | said]}

    def _answer(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Fake(ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that has left is no reason to write to the terminal."""


@pytest.fixture
def fake():
    with Fake((HOST, 0), Handler) as server:
        server.daemon_threads = True
        server.lie, server.status, server.wrong_by = "", 200, 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def load(fake):
    """A load with what the server says alone, and the server."""
    known = alone(HOST, fake.server_port, asks(6, seed=1))
    assert [one.answer for one in known] == [[Choice("The rain falls", "stop")]] * 6
    return Load(HOST, fake.server_port, known, seed=1)


def test_requests_are_of_all_kinds_and_the_same_for_the_same_seed():
    made = asks(200, seed=5)
    assert made == asks(200, seed=5) != asks(200, seed=6)
    assert {ask.path for ask in made} == {CHAT, TEXT}
    fields = {name for ask in made for name in ask.body}
    assert fields >= {"messages", "prompt", "temperature", "seed", "top_p", "top_k", "min_p", "n"}
    assert fields >= {"presence_penalty", "logit_bias", "stop", "logprobs", "echo", "ignore_eos"}


def test_a_server_that_keeps_its_word_has_no_faults(load):
    tally = load.run(4, range(60))
    assert (tally.failed, tally.requests) == (0, 60)
    assert all(tally.counts[kind] > 2 for kind in ("answered", "streamed", "left", "refused"))


def test_other_words_are_faults(load, fake):
    fake.lie = " not"
    tally = load.run(4, range(60))
    whole = tally.counts["answered"] + tally.counts["streamed"]
    assert whole <= tally.failed <= whole + tally.counts["left"]
    assert "The rain falls not" in tally.faults[0]


def test_an_error_where_none_is_due_is_a_fault(load, fake):
    fake.status = 500
    tally = load.run(2, range(20))
    assert tally.counts["answered"] + tally.counts["streamed"] == 0
    assert tally.failed == tally.counts["failed"] > 0
    assert "500" in tally.faults[0]


def test_another_refusal_than_the_one_due_is_a_fault(load, fake):
    fake.wrong_by = 1
    tally = load.run(2, range(60))
    assert tally.failed == tally.counts["refused"] > 0


def test_a_part_is_the_beginning_of_the_whole_or_is_not():
    whole = Choice("The rain falls", "stop", [None, -1.0, -2.0])
    assert Choice("The rain", None, [None, -1.0]).begins(whole)
    assert Choice("The rain falls", "stop", [None, -1.0, -2.0]).begins(whole)
    for other in (
        Choice("The sun", None, [None]),
        Choice("The rain", None, [None, -1.5]),
        Choice("The rain", "stop", [None, -1.0]),
        Choice("The rain falls", "length", [None, -1.0, -2.0]),
    ):
        assert not other.begins(whole)


def test_a_client_leaves_after_as_many_events_as_it_wants(load, fake):
    ask = load._known[0].ask
    with Client(HOST, fake.server_port) as client:
        assert client.stream(ask, most=0) == []
        client.leave(reset=True)
        assert client.stream(ask, most=2) == [Choice("The rain")]
        client.leave(reset=False)
        fake.status = 503
        with pytest.raises(Refused) as refused:
            client.whole(ask)
    assert refused.value.status == 503


def results(**changes):
    figures = {"memory": 100, "threads": 3, "files": 8, "waiting": 0, "running": 0}
    samples = [{**figures, "seconds": i, "waiting": 2} for i in range(4)]
    made = {"minutes": 1.0, "clients": 2, "counts": {"answered": 3}, "failed": 0, "faults": []}
    made |= {"before": figures, "after": figures, "samples": samples, "exit_code": 0}
    return made | changes


def test_nothing_failed_or_grew_is_sound():
    made = results()
    assert sound(made)
    assert "| most in the line | 2 |" in report(made)
    assert "Faults" not in report(made)


@pytest.mark.parametrize(
    "changes",
    [
        {"failed": 1, "faults": ["what it said"]},
        {"exit_code": -9},
        {"after": results()["after"] | {"waiting": 1}},
        {"after": results()["after"] | {"files": 9}},
        {"samples": [{"memory": m, "waiting": 0} for m in (100, 102, 104, 106)]},
    ],
    ids=["fault", "exit code", "waiting", "files", "memory"],
)
def test_what_failed_or_grew_is_not_sound(changes):
    made = results(**changes)
    assert not sound(made)
    assert all(fault in report(made) for fault in made["faults"])


def test_a_server_that_does_not_start_is_said_so():
    with (
        pytest.raises(HybridSpecError, match="no checkpoint at '/nowhere"),
        serving(["/nowhere/at/all"]),
    ):
        pass


@pytest.mark.full
def test_half_a_minute_of_the_real_server(capsys, tmp_path):
    out = tmp_path / "soak.json"
    assert main(["--minutes", "0.5", "--clients", "4", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["counts"]["answered"] > 0
    assert "| exit code after SIGTERM | 0 |" in capsys.readouterr().out
