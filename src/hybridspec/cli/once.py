"""Options are given once: of two prompts, or of --chat and --raw, none wins in silence."""

from __future__ import annotations

from collections import Counter

import typer
from typer.core import TyperCommand

from hybridspec.errors import RequestError


class Once(TyperCommand):
    """A command that refuses an option given twice, unless its help calls it repeatable."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Reads the arguments.

        Raises:
            RequestError: an option, or the two forms of a flag, given more than once.
        """
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(given).items():
            once = option.nargs == 1 and not getattr(option, "multiple", False)
            if once and times > 1:
                forms = " or ".join((*option.opts[:1], *option.secondary_opts[:1]))
                raise RequestError(f"{forms} is given {times} times; expected once.")
        return super().parse_args(ctx, args)
