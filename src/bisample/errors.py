"""Every error that bisample raises on purpose.

::

    BisampleError
    ├── ParameterError   a parameter is out of its range          (also a ValueError)
    ├── FormatError      JSON that is not what it should be       (also a ValueError)
    ├── AnswerError      an answer cannot be privatized           (also a ValueError)
    ├── ReportError      a report or a tally is not of the table  (also a ValueError)
    ├── FileError        a file cannot be read or written         (also an OSError)
    └── MissingExtraError  an optional dependency is not there    (also an ImportError)

A message names the parameter, the range it may have and the next step. It never contains an answer:
messages end in logs, and a log is not private.
"""

from __future__ import annotations

__all__ = [
    "AnswerError",
    "BisampleError",
    "FileError",
    "FormatError",
    "MissingExtraError",
    "ParameterError",
    "ReportError",
    "shown",
]


class BisampleError(Exception):
    """The root: `except BisampleError` catches whatever bisample raises on purpose."""


class ParameterError(BisampleError, ValueError):
    """A parameter is not of its type or out of its range."""


class FormatError(BisampleError, ValueError):
    """A text is not the JSON, or not the version of it, that it should be."""


class AnswerError(BisampleError, ValueError):
    """An answer cannot be privatized as it is. The message never says what the answer was.

    `index` is its place among the answers, from 0; None where the answers as a whole are at fault.

    >>> str(AnswerError("lies outside [0, 100]", index=3))
    'the answer at index 3 lies outside [0, 100]'
    """

    def __init__(self, problem: str, index: int | None = None) -> None:
        self.problem = problem
        self.index = index
        super().__init__(problem if index is None else f"the answer at index {index} {problem}")

    def __reduce__(self) -> tuple[type[AnswerError], tuple[str, int | None]]:
        return type(self), (self.problem, self.index)


class ReportError(BisampleError, ValueError):
    """A report or a tally does not belong to the table that should read it."""


class FileError(BisampleError, OSError):
    """A file cannot be read or written as asked."""


class MissingExtraError(BisampleError, ImportError):
    """An optional dependency is missing; the message is the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'bisample[{extra}]'")
        self._parts = what, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), self._parts  # so that it comes back from another process


def shown(value: object) -> str:
    """A parameter as a message shows it: its repr, cut to a line. For what is public, never for an answer.

    >>> shown("0.5"), shown(10**5000), shown("x" * 1000)[:4]
    ("'0.5'", 'an int of thousands of digits', "'xxx")
    """
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of more than 4,300 digits
        return f"{'an int' if isinstance(value, int) else type(value).__name__} of thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text):,} characters)"
