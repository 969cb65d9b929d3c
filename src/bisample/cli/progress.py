"""The part that is done and the time left, on standard error: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bisample.files import STANDARD, FilePath, Progress

__all__ = ["progress"]


@contextmanager
def progress(label: str, *files: FilePath) -> Iterator[Progress]:
    """A bar while files are read, which is told the part that is done; none where nobody knows the size.

    >>> with progress("reading", "people.csv") as update:
    ...     update(0.5)
    """
    from tqdm import tqdm

    shape = "{desc}: {percentage:3.0f}%|{bar}| {remaining} left"
    silent = STANDARD in files or sys.stderr is None or None  # None: silent unless there is a terminal
    with tqdm(total=1, desc=label, disable=silent, leave=False, bar_format=shape, dynamic_ncols=True) as bar:

        def update(part: float) -> None:
            bar.update(part - bar.n)

        yield update
