"""Pictures of the results: speed-up by category and by w, acceptance, the cost of a round by w.

matplotlib is an extra: `pip install hybridspec[plot]`. Every picture shows all systems that have
what it shows, names those that have not, and says on which machine it was measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hybridspec.errors import HybridSpecError


def check_matplotlib() -> None:
    """Raises HybridSpecError, with what to install, where matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise HybridSpecError(
            "Pictures need matplotlib, which is not installed; install it with "
            "`pip install matplotlib` (or hybridspec's extra `plot`), or leave out --plot."
        ) from None


def draw(results: dict[str, Any], out: Path) -> list[Path]:
    """Draw `speedup`, `lengths`, `acceptance` and `round_cost` as PNG and SVG into `out`.

    Args:
        results: as `results.assemble` gives them.
        out: an existing folder.

    Returns:
        The PNG files. A picture without anything to show is left out.

    Raises:
        HybridSpecError: no matplotlib, or a folder that cannot be written.
    """
    check_matplotlib()
    from matplotlib import rc_context

    from hybridspec.bench.plot import acceptance, canvas, cost, lengths, speedup

    pictures = {
        "speedup": speedup.draw,
        "lengths": lengths.draw,
        "acceptance": acceptance.draw,
        "round_cost": cost.draw,
    }
    with rc_context(canvas.STYLE):
        figures = {name: picture(results) for name, picture in pictures.items()}
        return [canvas.save(f, out / name) for name, f in figures.items() if f is not None]
