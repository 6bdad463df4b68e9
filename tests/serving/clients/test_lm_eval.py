"""lm-eval against a server: two small tasks, whose every figure is what the engine itself gives.

lm-eval lives in an environment of its own: `make test-clients` makes it and runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hybridspec.core import SamplingParams

COMMAND = os.environ.get("HYBRIDSPEC_LM_EVAL")
TASKS = Path(__file__).parent / "tasks"
DOCUMENTS = [json.loads(line) for line in TASKS.joinpath("toy.jsonl").read_text().splitlines()]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(COMMAND is None, reason="HYBRIDSPEC_LM_EVAL names no lm_eval"),
]


@pytest.fixture
def evaluate(served, tmp_path):
    """`evaluate(task, kind, route, *options)`: the samples that lm-eval writes, in order."""

    def run(task: str, kind: str, route: str, *options: str) -> list[dict]:
        model = f"model=embedded,base_url={served.url}{route},num_concurrent=2"
        command = [COMMAND, "run", "--model", kind, "--model_args", model, "--tasks", task]
        command += ["--include_path", ".", "--log_samples", "--output_path", str(tmp_path)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment |= {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(
            [*command, *options], cwd=TASKS, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        [samples] = tmp_path.rglob(f"samples_{task}_*.jsonl")
        found = [json.loads(line) for line in samples.read_text().splitlines()]
        assert len(found) == len(DOCUMENTS)
        return sorted(found, key=lambda sample: sample["doc_id"])

    return run


def test_texts_are_the_engines(evaluate, engine):
    samples = evaluate(
        "toy_words", "local-chat-completions", "/v1/chat/completions", "--apply_chat_template"
    )
    params = SamplingParams(max_tokens=24, stop=(" to",))
    for sample, document in zip(samples, DOCUMENTS, strict=True):
        messages = [{"role": "user", "content": document["question"]}]
        assert sample["resps"] == [[engine.generate(messages, params, system="ar").text]]


def test_likelihoods_are_the_engines(evaluate, engine):
    """Also that it finds the tokenizer on the server: it has no files, and no transformers."""
    samples = evaluate("toy_choices", "local-completions", "/v1/completions")
    for sample, document in zip(samples, DOCUMENTS, strict=True):
        begun = len(engine.encode(document["text"]))
        wanted = []
        for choice in document["choices"]:
            scores = engine.score(document["text"] + choice, 1)[begun:]
            greedy = all(score.logprob == score.top[0][1] for score in scores)
            wanted.append([[str(sum(score.logprob for score in scores)), str(greedy)]])
        assert sample["resps"] == wanted
        best = max(range(len(wanted)), key=lambda i: float(wanted[i][0][0]))
        assert sample["acc"] == float(best == document["gold"])
