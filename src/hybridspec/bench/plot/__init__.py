"""Pictures of the results: speed-up by category and by w, acceptance, the cost of a round by w; of
a profile by verification length; of scripted runs; and of a calibration.

matplotlib is of the extra `[plot]`. Every picture shows all systems that have
what it shows, names those that have not, and says on which machine it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.errors import HybridSpecError
from hybridspec.extras import install

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hybridspec.policy.profile import Profile


def check_matplotlib() -> None:
    """Raises HybridSpecError, with what to install, where matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise HybridSpecError(
            f"Pictures need matplotlib, which is not installed. Install it with {install('plot')}; "
            "nothing else needs it."
        ) from None


def draw(results: dict[str, Any], out: Path) -> list[Path]:
    """Draw `speedup`, `lengths`, `chosen`, `acceptance` and `round_cost` as PNG and SVG into `out`.

    Args:
        results: as `results.assemble` gives them.
        out: an existing folder.

    Returns:
        The PNG files. A picture without anything to show is left out.

    Raises:
        HybridSpecError: no matplotlib, or a folder that cannot be written.
    """
    check_matplotlib()
    from hybridspec.bench.plot import acceptance, chosen, cost, lengths, speedup

    pictures = {
        "speedup": speedup.draw,
        "lengths": lengths.draw,
        "chosen": chosen.draw,
        "acceptance": acceptance.draw,
        "round_cost": cost.draw,
    }
    return _drawn({out / name: partial(picture, results) for name, picture in pictures.items()})


def draw_components(document: dict[str, Any], out: Path) -> list[Path]:
    """Draw `components` of a profile by verification length into `out`.

    Args:
        document: as `bench profile` writes it.
        out: an existing folder.

    Returns and raises as `draw`.
    """
    check_matplotlib()
    from hybridspec.bench.plot import components

    return _drawn({out / "components": partial(components.draw, document)})


def draw_round(document: dict[str, Any], out: Path) -> list[Path]:
    """Draw `round_components` of a scripted round's clocks into `out`, where that part has run.

    Args:
        document: as `bench.scripted.clocks` writes it.
        out: an existing folder.

    Returns and raises as `draw`.
    """
    check_matplotlib()
    from hybridspec.bench.plot import round_components

    return _drawn({out / "round_components": partial(round_components.draw, document)})


def draw_scripted(document: dict[str, Any], out: Path) -> list[Path]:
    """Draw `scripted_speedup`, `scripted_rounds` and `scripted_tokens` of scripted runs into `out`.

    Args:
        document: as `bench scripted` writes it.
        out: an existing folder.

    Returns and raises as `draw`.
    """
    check_matplotlib()
    from hybridspec.bench.plot import scripted

    pictures = {
        "scripted_speedup": scripted.speedup,
        "scripted_rounds": scripted.round_time,
        "scripted_tokens": scripted.tokens,
    }
    return _drawn({out / name: partial(picture, document) for name, picture in pictures.items()})


def draw_calibration(profile: Profile, stem: Path) -> list[Path]:
    """Draw STEM.reliability and STEM.cost of a calibration profile.

    Returns and raises as `draw`. Reliability is left out where the calibration had too few prompts
    to judge it.
    """
    check_matplotlib()
    from hybridspec.bench.plot import calibration

    pictures = {"reliability": calibration.reliability, "cost": calibration.cost}
    return _drawn(
        {
            stem.with_name(f"{stem.name}.{name}"): partial(picture, profile)
            for name, picture in pictures.items()
        }
    )


def _drawn(pictures: Mapping[Path, Callable[[], Figure | None]]) -> list[Path]:
    """The PNG files of those that show something, by the stems of their files."""
    from matplotlib import rc_context

    from hybridspec.bench.plot import canvas

    with rc_context(canvas.STYLE):
        figures = {stem: picture() for stem, picture in pictures.items()}
        return [canvas.save(f, stem) for stem, f in figures.items() if f is not None]
