"""Pictures for the command line. matplotlib is imported only when one is drawn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bisample.errors import FileError, MissingExtraError
from bisample.files import STANDARD, bytes_of

if TYPE_CHECKING:
    from bisample.planning.compare import Compared, Comparison

__all__ = ["draw_comparison", "pyplot", "save"]


def pyplot() -> Any:
    """matplotlib.pyplot without a screen, or an error with the command that installs it.

    >>> pyplot().get_backend().lower()
    'agg'
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("a picture", "plot") from None
    return plt


def save(figure: Any, path: str) -> None:
    """Write a figure of pyplot's to a file, or as PNG to standard output, and let go of it.

    >>> save(pyplot().figure(), "figure.doc")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bisample.errors.FileError: the picture figure.doc cannot be written: ...
    """
    try:
        if path == STANDARD:
            figure.savefig(bytes_of(sys.stdout, "standard output"), dpi=150, format="png")
        else:
            figure.savefig(path, dpi=150)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as problem:  # no such folder; a format that matplotlib does not know
        raise FileError(f"the picture {path} cannot be written: {problem}") from None
    finally:
        pyplot().close(figure)


def draw_comparison(found: Comparison, path: str) -> None:
    """n * variance of mean and missing rate, a point a mechanism, and the bounds as lines.

    >>> import os, tempfile
    >>> from bisample.planning.compare import compare
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_comparison(compare(epsilon=2), f"{folder}/compared.svg")
    ...     os.listdir(folder)
    ['compared.svg']
    """
    plt = pyplot()
    rows = found.rows
    labels = [_label(row) for row in rows]
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
            # Ours is a diamond in red, the others circles in grey: told apart in print as well.
            ours = row.mechanism == "dithered"
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


def _label(row: Compared) -> str:
    """The mechanism, with its levels where there are several of it."""
    if row.missing_rate is None:
        return f"{row.mechanism}*"
    return f"{row.mechanism} {row.note.partition(',')[0]}".rstrip()
