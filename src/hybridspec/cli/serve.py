"""`hybridspec serve`: an OpenAI-compatible server around one pair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridspec.cli import options as o
from hybridspec.cli.loading import EMBEDDED, Pair, import_engine, load_engine, one_model
from hybridspec.cli.output import note, write
from hybridspec.errors import OptionError

if TYPE_CHECKING:
    from hybridspec.engine import Engine
    from hybridspec.serving import Settings

MIB = 2**20

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        envvar="HYBRIDSPEC_MODEL",
        show_envvar=False,
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
        envvar="HYBRIDSPEC_DRAFT",
        show_envvar=False,
        show_default="none with MODEL",
        help="Its DFlash drafter: a folder or Hub id.",
    ),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="NAME",
        envvar="HYBRIDSPEC_HOST",
        show_envvar=False,
        help="Where to listen: 127.0.0.1 is this machine alone, 0.0.0.0 whoever reaches it.",
    ),
]
Port = Annotated[
    int,
    typer.Option(
        "--port",
        "-p",
        metavar="N",
        min=0,
        max=65535,
        envvar="HYBRIDSPEC_PORT",
        show_envvar=False,
        help="0 takes a free one and says which.",
    ),
]
ServedName = Annotated[
    list[str] | None,
    typer.Option(
        "--served-model-name",
        metavar="NAME",
        show_default="MODEL",
        help="What requests may call the model (repeatable); the first is what answers call it.",
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        envvar="HYBRIDSPEC_API_KEY",
        show_envvar=False,
        show_default="none is asked for",
        help="The key that clients must show. The environment variable HYBRIDSPEC_API_KEY is the "
        "better place: a command line can be read by others.",
    ),
]
Thinking = Annotated[
    bool,
    typer.Option(
        "--thinking/--no-thinking",
        help="Let the model think first in chats whose request does not say.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        "-n",
        metavar="N",
        show_default="what the context leaves",
        help="Most tokens of a chat answer whose request sets no limit.",
    ),
]
MaxWaiting = Annotated[
    int,
    typer.Option("--max-waiting", metavar="N", help="Most requests in the line; 503 beyond."),
]
MaxBody = Annotated[
    int, typer.Option("--max-body", metavar="MIB", min=1, help="Most MiB of a request; 413 beyond.")
]
MetricsPrefix = Annotated[
    str,
    typer.Option(
        "--metrics-prefix",
        metavar="WORD",
        help="First part of every metric's name; vllm lets existing dashboards read them.",
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        show_default="this machine's own names on 127.0.0.1, else any",
        help="A name that the Host header may have, as behind a proxy (repeatable).",
    ),
]
AllowedOrigin = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-origin",
        metavar="URL",
        show_default="none",
        help="A web page's origin that may read answers, or * (repeatable).",
    ),
]
Drain = Annotated[
    int,
    typer.Option(
        "--drain",
        metavar="SECONDS",
        min=0,
        help="How long answers under way may take after SIGTERM or Ctrl-C; a second one does not "
        "wait.",
    ),
]
AccessLog = Annotated[
    bool,
    typer.Option("--access-log", help="A line a request on standard error, without its text."),
]


def serve(
    context: typer.Context,
    model: Model = None,
    named: o.Model = None,
    draft: Draft = None,
    revision: o.Revision = None,
    draft_revision: o.DraftRevision = None,
    device: o.Device = "auto",
    dtype: o.DType = "auto",
    max_context: o.MaxContext = None,
    profile: o.Profile = None,
    kernels: o.Kernels = True,
    launcher: o.Launcher = "auto",
    system: o.System = None,
    prefix_memory: o.PrefixMemory = 1024,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    served_model_name: ServedName = None,
    api_key: ApiKey = None,
    thinking: Thinking = False,
    max_tokens: MaxTokens = None,
    max_waiting: MaxWaiting = 256,
    max_body: MaxBody = 16,
    metrics_prefix: MetricsPrefix = "hybridspec",
    allowed_host: AllowedHost = None,
    allowed_origin: AllowedOrigin = None,
    drain: Drain = 30,
    access_log: AccessLog = False,
) -> None:
    """Serve a model to OpenAI's clients.

    One answer at a time: requests wait in line, clients take turns, and who goes away makes room.
    Sampling defaults are the checkpoint's. docs/server.md lists parameters, figures and metrics.

    Exit codes: 0 stopped by SIGTERM; 2 it cannot be served, said in one sentence; 130 Ctrl-C.
    """
    import_engine()
    from hybridspec.serving import Settings, create_app
    from hybridspec.serving.run import address_of, listen, run

    pair = Pair(one_model(context, model, named), draft, revision, draft_revision)
    settings = Settings(
        names=tuple(served_model_name or [_name(pair)]),
        system=system,
        thinking=thinking,
        max_tokens=max_tokens,
        max_waiting=max_waiting,
        max_body=max_body * MIB,
        api_key=api_key,
        allowed_hosts=_hosts(host, allowed_host),
        allowed_origins=tuple(allowed_origin or ()),
        metrics_prefix=metrics_prefix,
    )

    def load() -> Engine:
        return load_engine(
            pair,
            system=system,
            device=device,
            dtype=dtype,
            max_context=max_context,
            profile=profile,
            kernels=kernels,
            launcher=launcher,
            prefix_memory=prefix_memory * MIB,
        )

    app = create_app(load, settings)
    with listen(host, port) as made:
        address = address_of(made)
        write(f"Listening at {address}; the model loads.\n")
        if api_key is None and not _is_own(host):
            note(f"Note: whoever reaches {host} can ask; --api-key asks for a key.")

        def loaded() -> None:
            write(_ready(app.state.worker.engine, settings, address, profile, prefix_memory))

        run(app, made, drain=drain, loaded=loaded, access_log=access_log)


def _name(pair: Pair) -> str:
    """A Hub id as it is, and of a folder its last part: where it lies is nobody's business."""
    from hybridspec.checkpoint.source import local_folder

    if pair.model is None:
        return EMBEDDED
    folder = local_folder(pair.model)
    return pair.model if folder is None else folder.resolve().name


def _is_own(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _hosts(host: str, named: list[str] | None) -> tuple[str, ...]:
    """The names that a request may use: any, unless only this machine is meant to ask."""
    from hybridspec.serving.guards import LOOPBACK

    if not _is_own(host):
        return tuple(named or ())
    for name in named or ():
        if not name or "/" in name:
            raise OptionError("allowed_hosts", f"is {name!r}; expected a name without http://.")
    return (*LOOPBACK, host, *(named or ()))


def _ready(
    engine: Engine, settings: Settings, address: str, profile: Path | None, prefixes: int
) -> str:
    """What is served, in one line."""
    target = engine.target
    calibration = "none" if engine.profile is None else str(profile or "its own")
    facts = [
        f"system {settings.system or engine.default_system}",
        f"profile {calibration}",
        f"{str(target.dtype).removeprefix('torch.')} on {target.device}",
        f"context {engine.max_context}",
        f"{engine.nbytes / MIB:.0f} MiB of state",
        f"at most {prefixes} MiB of kept prefixes",
    ]
    return f"Serving {settings.name} at {address}/v1: {', '.join(facts)}.\n"
