"""Log-probabilities of what has no text. For all else of sampling: `test_case_sampling.py`."""

from __future__ import annotations

from test_chat_route import ask


def test_a_token_that_ends_the_answer_has_its_logprob_too(client):
    choice = ask(client, temperature=0, logprobs=True, return_token_ids=True)["choices"][0]
    tokens = choice["logprobs"]["content"]
    assert len(tokens) == len(choice["token_ids"])
    assert tokens[-1]["token"] == "<|im_end|>"
    text = "".join(token["token"] for token in tokens[:-1])
    assert text == choice["message"]["content"]
