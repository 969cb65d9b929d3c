"""A progress bar on the terminal; silent where nobody looks."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["ProgressBar"]

_WIDTH = 30


class ProgressBar:
    """Shows the part that is done and the time left, on standard error, if that is a terminal.

    >>> with ProgressBar("reading") as bar:
    ...     bar.update(0.5)
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._shown = sys.stderr.isatty()
        self._start = self._last = time.monotonic()

    def update(self, part: float) -> None:
        """Say that this part, from 0 to 1, is done."""
        now = time.monotonic()
        if not self._shown or now - self._last < 0.1:
            return
        self._last = now
        filled = round(part * _WIDTH)
        left = (now - self._start) * (1 - part) / part if part > 0 else 0
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r{self._label} [{bar}] {part:4.0%}, {left:.0f} s left ")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * (len(self._label) + _WIDTH + 24) + "\r")
