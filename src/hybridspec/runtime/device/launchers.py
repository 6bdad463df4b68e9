"""How rounds are composed into a launch: one body for every length, or one a length."""

from __future__ import annotations

from functools import partial

from hybridspec.kernels.linear.config import ROWS
from hybridspec.runtime.device.numbers import Numbers
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.device.signals import arm, lose
from hybridspec.runtime.graph import Description, Recorder, Work
from hybridspec.runtime.launching import Launcher


def describe(round_: Round, most: int, launcher: Launcher) -> Description:
    """A launch of at most `most` rounds: it ends with the answer, or where the host asks for it."""
    body = switched if launcher == "switch" else looped

    def launch(recorder: Recorder) -> None:
        recorder.run(partial(arm, round_.memory.numbers, most))
        recorder.loop(round_.memory.numbers.going, partial(body, round_))

    return launch


def looped(round_: Round, recorder: Recorder) -> None:
    """One body: lengths are data."""
    recorder.run(round_.whole)


def switched(round_: Round, recorder: Recorder) -> None:
    """The paper's form: a body a length, w = 1 included, for each of the two stages."""
    numbers = round_.memory.numbers
    recorder.run(round_.draft)
    if round_.plan.split:
        recorder.switch(numbers.looked, _bodies(round_.stage0, numbers), numbers.damaged)
        recorder.run(round_.correct)
    recorder.switch(numbers.verified, _bodies(round_.stage1, numbers), numbers.damaged)
    recorder.run(round_.end)


def _bodies(stage: Work, numbers: Numbers) -> list[Description]:
    """Body i is for the length i. Without room a length is 0; no round begins so. The last is for
    every other number: a switch takes it where an index is out of range."""

    def body(recorder: Recorder) -> None:
        recorder.run(stage)

    def lost(recorder: Recorder) -> None:
        recorder.run(partial(lose, numbers))

    bodies: list[Description] = [body] * (1 + ROWS)
    return [*bodies, lost]
