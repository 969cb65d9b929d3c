"""Pictures for the command line. matplotlib is imported only when one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .compare import Comparison
from .errors import FileError, MissingExtraError

__all__ = ["draw_comparison", "pyplot", "save"]


def pyplot() -> Any:
    """matplotlib.pyplot without a screen, or the command that installs it."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("a picture", "plot") from None
    return plt


def save(figure: Any, path: Path) -> None:
    """Write a figure of pyplot's to a file, and let go of it."""
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as problem:  # no such folder; a format that matplotlib does not know
        raise FileError(f"the picture {path} cannot be written: {problem}") from None
    finally:
        pyplot().close(figure)


def draw_comparison(found: Comparison, path: Path) -> None:
    """n * variance of mean and missing rate, a point a mechanism, and the bounds as lines."""
    plt = pyplot()
    rows = found.rows
    labels = [row.mechanism if row.missing_rate is not None else f"{row.mechanism}*" for row in rows]
    figure, panels = plt.subplots(
        1, 2, figsize=(10, 0.36 * len(rows) + 2.1), layout="constrained", sharey=True
    )
    for panel, what, values, bound in (
        (panels[0], "mean", [row.mean for row in rows], found.best_mean),
        (panels[1], "missing rate", [row.missing_rate for row in rows], found.best_missing_rate),
    ):
        for y, (row, value) in enumerate(zip(rows, values, strict=True)):
            panel.axhline(y, color="#dddddd", lw=0.8, zorder=0)
            if value is None:
                continue
            # Ours are diamonds in red, the others circles in grey: told apart in print as well.
            ours = row.mechanism in {"dithered", "mix"}
            panel.plot(value, y, "D" if ours else "o", color="#cc3311" if ours else "#555555", ms=7)
            panel.annotate(
                f"{value:.3g}", (value, y), (8, 0), textcoords="offset points", va="center", fontsize=8
            )
        if bound is not None:
            panel.axvline(bound, color="black", ls="--", lw=1)
        shown = [value for value in [*values, bound] if value]
        panel.set(xscale="log", xlabel=f"n x variance of the {what}\n(dashed: the best found, with refusals)")
        panel.xaxis.set_major_locator(plt.LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(plt.FormatStrFormatter("%g"))
        panel.xaxis.set_minor_formatter(plt.NullFormatter())
        panel.set_xlim(min(shown) / 1.5, max(shown) * 2)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(rows)), labels)
    panels[0].invert_yaxis()
    figure.suptitle(f"{found.title}   (* takes no refusals: if everybody answers)", fontsize=10)
    save(figure, path)
