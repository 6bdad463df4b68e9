"""The options of the verbs, in one place so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Prompt = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT",
        help="The prompt; - or nothing reads standard input.",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="PATH",
        help="Read the prompt from a UTF-8 file. As of standard input, one final line end is "
        "dropped.",
    ),
]
Chat = Annotated[
    bool | None,
    typer.Option(
        "--chat/--raw",
        show_default="--chat if the checkpoint has a chat template",
        help="Wrap the prompt as a user's message in the chat template, or continue it as it is.",
    ),
]
Thinking = Annotated[
    bool | None,
    typer.Option(
        "--thinking/--no-thinking",
        show_default="--no-thinking",
        help="Let the model think first, where its chat template has a place for it.",
    ),
]
SystemPrompt = Annotated[
    str | None,
    typer.Option("--system-prompt", metavar="TEXT", help="A system message for the chat template."),
]

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="SOURCE",
        show_default="the embedded pair",
        help="The target: a checkpoint folder, or a Hub id owner/name.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        "-d",
        metavar="SOURCE",
        show_default="none with --model",
        help="Its DFlash drafter: a folder or Hub id.",
    ),
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", metavar="REV", help="Branch, tag or commit of the model's Hub id."),
]
DraftRevision = Annotated[
    str | None,
    typer.Option("--draft-revision", metavar="REV", help="The same for the drafter."),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N.")]
DType = Annotated[
    str,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="auto (bfloat16 on a GPU, else float32), float32, bfloat16, float16 or float64.",
    ),
]
MaxContext = Annotated[
    int | None,
    typer.Option(
        "--max-context",
        metavar="N",
        show_default="the model's limit, at most 32768",
        help="Most tokens of prompt and answer together.",
    ),
]

Profile = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="PATH",
        show_default="the embedded pair's own, else none",
        help="A calibration profile of this pair on this device, as `hybridspec calibrate` writes.",
    ),
]
Kernels = Annotated[
    bool,
    typer.Option(
        "--kernels/--no-kernels",
        help="On a GPU: verify with our own kernels, or in plain torch.",
    ),
]
Launcher = Annotated[
    str,
    typer.Option(
        "--launcher",
        metavar="NAME",
        help="Who leads from round to round: host, or on a GPU loop or switch, where a whole run "
        "of rounds is one launch, or eager, the same to look into; auto takes loop where it can. "
        "The answer is the same.",
    ),
]
PrefixMemory = Annotated[
    int,
    typer.Option(
        "--prefix-memory",
        metavar="MIB",
        min=0,
        help="MiB of states kept on the model's device, so that the next turn of a conversation "
        "runs only what is new; 0 keeps none.",
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME[:ARG]",
        show_default="auto with a profile, static:4 with a drafter alone, else ar",
        help="The decoding system: ar (plain decoding), dflash (the drafter's whole block), "
        "static:W, or with a profile hybridspec, auto and others. It changes the speed, not the "
        "answer, but for near ties of rounding where it is not exact.",
    ),
]

MaxTokens = Annotated[
    int, typer.Option("--max-tokens", "-n", metavar="N", help="Most tokens of the answer.")
]
Temperature = Annotated[
    float,
    typer.Option("--temperature", metavar="T", help="0 is greedy; else sample at this T."),
]
TopK = Annotated[
    int, typer.Option("--top-k", metavar="K", help="Sample from the K most likely tokens; 0: all.")
]
TopP = Annotated[
    float,
    typer.Option("--top-p", metavar="P", help="Sample from the most likely tokens that make up P."),
]
MinP = Annotated[
    float,
    typer.Option(
        "--min-p", metavar="P", help="Drop tokens less likely than P times the likeliest."
    ),
]
PresencePenalty = Annotated[
    float,
    typer.Option(
        "--presence-penalty", metavar="X", help="Taken off tokens that the answer has; -2 to 2."
    ),
]
FrequencyPenalty = Annotated[
    float,
    typer.Option(
        "--frequency-penalty", metavar="X", help="The same, for every time it has them; -2 to 2."
    ),
]
Logprobs = Annotated[
    int | None,
    typer.Option(
        "--logprobs",
        metavar="K",
        show_default="none",
        help="With --json: log-probabilities of every token and of the K most likely, 0 to 20.",
    ),
]
RepetitionPenalty = Annotated[
    float,
    typer.Option(
        "--repetition-penalty",
        metavar="X",
        help="Divides positive logits of tokens in prompt and answer, multiplies negative ones; 1: "
        "off.",
    ),
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option(
        "--logit-bias",
        metavar="ID:VALUE",
        help="Added to a token's logit, -100 to 100 (repeatable).",
    ),
]
JsonMode = Annotated[
    bool,
    typer.Option("--json-mode", help="The answer is a JSON object; needs the extra [grammar]."),
]
JsonSchema = Annotated[
    Path | None,
    typer.Option(
        "--json-schema",
        metavar="PATH",
        help="The answer is JSON by this schema; needs the extra [grammar]. With --thinking it "
        "begins after the thought.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        show_default="drawn, and reported",
        help="Same seed, same answer, whatever the system.",
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="End before this text (repeatable)."),
]
StopTokenId = Annotated[
    list[int] | None,
    typer.Option("--stop-token-id", metavar="ID", help="End at this token (repeatable)."),
]
IgnoreEos = Annotated[
    bool, typer.Option("--ignore-eos", help="Go on past the model's own end tokens.")
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say on standard error why each round had its length: confidences, p, the score of "
        "each w, w0, new experts, w and A. With --json it is in the document.",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document with text, tokens and statistics."),
]
