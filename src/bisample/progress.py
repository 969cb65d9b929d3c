"""The part that is done and the time left: a bar on a terminal, silence or a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["ProgressBar"]

_WIDTH = 30


class ProgressBar:
    """Shows progress on standard error, if that is a terminal.

    With `logged`, for work of minutes, a log gets a line every 15 seconds, and all get one at the end.

    >>> with ProgressBar("reading") as bar:
    ...     bar.update(0.5)
    """

    def __init__(self, label: str, *, logged: bool = False) -> None:
        self._label = label
        self._logged = logged
        self._terminal = sys.stderr.isatty()
        self._every = 0.1 if self._terminal else 15.0
        self._start = self._last = time.monotonic()

    def update(self, part: float) -> None:
        """Say that this part, from 0 to 1, is done."""
        now = time.monotonic()
        if not (self._terminal or self._logged) or part <= 0 or now - self._last < self._every:
            return
        self._last = now
        filled = round(part * _WIDTH)
        bar = "#" * filled + "." * (_WIDTH - filled)
        left = _minutes((now - self._start) * (1 - part) / part)
        if self._terminal:
            self._write(f"\r{self._label} [{bar}] {part:4.0%}, {left} left ")
        else:
            self._write(f"{self._label}: {part:4.0%}, {left} left\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._write("\r" + " " * (len(self._label) + _WIDTH + 24) + "\r")
        if self._logged and kind is None:
            self._write(f"{self._label}: done in {_minutes(time.monotonic() - self._start)}\n")


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
