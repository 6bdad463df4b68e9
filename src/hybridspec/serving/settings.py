"""What a server is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hybridspec.checks import expect, is_a, is_unicode
from hybridspec.errors import OptionError

PREFIX = "hybridspec"
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are served. The engine has its own options.

    Raises OptionError for a value that cannot be used.

    Attributes:
        names: what requests may call the model; the first is what answers call it.
        system: the decoding system of requests that name none; None is the engine's default.
        thinking: whether the chat template lets the model think where a request does not say.
        max_tokens: most tokens of a chat answer whose request sets no limit; None is the context.
        max_waiting: most requests in the line; one more is refused.
        max_body: most bytes of a request's body.
        keep_alive: seconds without an event after which a stream says that it is alive.
        api_key: what clients must show; None asks for none. It is not part of the representation.
        allowed_hosts: names that the Host header may have; empty allows any.
        allowed_origins: web pages of other origins that may read answers; none by default.
        metrics_prefix: first part of every metric's name.
    """

    names: tuple[str, ...] = ("embedded",)
    system: str | None = None
    thinking: bool = False
    max_tokens: int | None = None
    max_waiting: int = 256
    max_body: int = 16 * MIB
    keep_alive: float = 5.0
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    metrics_prefix: str = PREFIX

    def __post_init__(self) -> None:
        expect(bool(self.names) and all(self.names), "names", self.names, "one name or more")
        for name in self.names:
            expect(is_unicode(name), "served_model_name", name, "a name in UTF-8")
        hosts = tuple(host.lower() for host in self.allowed_hosts)  # as the header is compared
        object.__setattr__(self, "allowed_hosts", hosts)
        origins = tuple(origin.rstrip("/").lower() for origin in self.allowed_origins)
        object.__setattr__(self, "allowed_origins", origins)
        least = {"max_waiting": 1, "max_body": 1, "max_tokens": 1}
        for name, limit in least.items():
            value = getattr(self, name)
            holds = value is None or (is_a(value, int) and value >= limit)
            expect(holds, name, value, f"an integer of at least {limit}")
        expect(self.keep_alive > 0, "keep_alive", self.keep_alive, "seconds above 0")
        holds = self.metrics_prefix.isidentifier() and self.metrics_prefix.isascii()
        expect(holds, "metrics_prefix", self.metrics_prefix, "letters, digits and _")
        if self.api_key is not None and not (self.api_key.isprintable() and self.api_key.strip()):
            raise OptionError("api_key", "is empty or holds control characters; expected a key.")

    @property
    def name(self) -> str:
        """What answers call the model."""
        return self.names[0]
