"""Figures for Prometheus, under the suffixes that vLLM's dashboards read."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hybridspec.core import Generation, RoundStats

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)
LABEL = "model_name"


class Metrics:
    """What one server counts, in a registry of its own. Any thread may count."""

    def __init__(self, prefix: str, model: str) -> None:
        """Count for a model; `prefix` comes before every name."""
        self.registry = CollectorRegistry()
        self._prefix, self._model = prefix, model
        self._counters()
        self._histograms()
        self._accept_length = self._gauge("spec_accept_length", "Tokens a round, since the start")
        self._accept_rate = self._gauge("spec_accept_rate", "Accepted of verified drafts")
        self._rounds = self._offered = self._accepted = 0

    def _counters(self) -> None:
        count = self._counter
        self._drafts = count("spec_decode_num_drafts", "Rounds")
        self._draft_tokens = count("spec_decode_num_draft_tokens", "Drafts verified: w - 1 a round")
        self._accepted_tokens = count("spec_decode_num_accepted_tokens", "Drafts accepted")
        self._places = self._family(
            "spec_decode_num_accepted_tokens_per_pos", "Drafts accepted by place", "position"
        )
        self._lengths = self._family("verify_length", "Rounds by target inputs w", "length")
        self._expansions = count("router_expansions", "Rounds longer than the policy named first")
        self._prompt_tokens = count("prompt_tokens", "Tokens of prompts")
        self._generation_tokens = count("generation_tokens", "Tokens of answers")
        self._queries = count("prefix_cache_queries", "Tokens of prompts that were looked up")
        self._hits = count("prefix_cache_hits", "Tokens of prompts whose state was kept")
        self._success = self._family("request_success", "Answers by their end", "finished_reason")

    def _histograms(self) -> None:
        time, tokens = self._histogram, TOKENS
        self._round_seconds = time("round_seconds", "A round")
        self._first = time("time_to_first_token_seconds", "Request to first token")
        self._between = time("inter_token_latency_seconds", "A round by the tokens it gave")
        self._whole = time("e2e_request_latency_seconds", "Request to end")
        self._queued = time("request_queue_time_seconds", "In the line")
        self._prefill = time("request_prefill_time_seconds", "Reading the prompt")
        self._decode = time("request_decode_time_seconds", "First token to last")
        self._prompt_size = time("request_prompt_tokens", "Tokens of a prompt", tokens)
        self._answer_size = time("request_generation_tokens", "Tokens of an answer", tokens)

    def watch(self, waiting: Callable[[], int], running: Callable[[], int]) -> None:
        """Ask these for the requests that wait and run."""
        self._gauge("num_requests_waiting", "Requests in the line").set_function(waiting)
        self._gauge("num_requests_running", "Requests at the engine").set_function(running)

    def began(self, waited: float) -> None:
        """An answer has its turn after these seconds."""
        self._queued.observe(waited)

    def first_token(self, seconds: float) -> None:
        """The first token came after these seconds."""
        self._first.observe(seconds)

    def progress(self, facts: RoundStats | None, tokens: int, seconds: float) -> None:
        """A round gave tokens; without facts it was the prompt's pass, which is no round."""
        self._generation_tokens.inc(tokens)
        if facts is None:
            return
        self._round_seconds.observe(seconds)
        for _ in range(tokens):
            self._between.observe(seconds / tokens)
        self._drafts.inc()
        self._draft_tokens.inc(facts.w - 1)
        self._accepted_tokens.inc(facts.accepted)
        for position in range(facts.accepted):
            self._places.labels(self._model, str(position)).inc()
        self._lengths.labels(self._model, str(facts.w)).inc()
        self._expansions.inc(facts.w > facts.w0)
        self._accept(facts)

    def ended(self, answer: Generation, seconds: float) -> None:
        """An answer ended, in whatever way, after these seconds."""
        cached = answer.stats.cached_tokens
        self._prompt_tokens.inc(answer.prompt_tokens)
        self._queries.inc(answer.prompt_tokens)
        self._hits.inc(cached)
        self._success.labels(self._model, answer.finish_reason).inc()
        self._whole.observe(seconds)
        self._prefill.observe(answer.stats.prefill_seconds)
        self._decode.observe(answer.stats.decode_seconds)
        self._prompt_size.observe(answer.prompt_tokens)
        self._answer_size.observe(len(answer.token_ids))

    def text(self) -> bytes:
        """All of it, in Prometheus' text form."""
        return generate_latest(self.registry)

    def _accept(self, facts: RoundStats) -> None:
        self._rounds += 1
        self._offered += facts.w - 1
        self._accepted += facts.accepted
        self._accept_length.set(1 + self._accepted / self._rounds)
        self._accept_rate.set(self._accepted / self._offered if self._offered else 0.0)

    def _name(self, suffix: str) -> str:
        return f"{self._prefix}:{suffix}"

    def _family(self, suffix: str, said: str, label: str) -> Counter:
        return Counter(self._name(suffix), said, (LABEL, label), registry=self.registry)

    def _counter(self, suffix: str, said: str) -> Counter:
        return Counter(self._name(suffix), said, (LABEL,), registry=self.registry).labels(
            self._model
        )

    def _gauge(self, suffix: str, said: str) -> Gauge:
        return Gauge(self._name(suffix), said, (LABEL,), registry=self.registry).labels(self._model)

    def _histogram(self, suffix: str, said: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
        made = Histogram(
            self._name(suffix), said, (LABEL,), registry=self.registry, buckets=buckets
        )
        return made.labels(self._model)
