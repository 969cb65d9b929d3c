"""Which of a survey's questions a device asks itself: drawn at random, and without a look at any answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from bisample.errors import ParameterError
from bisample.protocol.exact import whole

from .randomness import Rng, resolve

__all__ = ["assign_questions"]

_NUMBERS = 1 << 19  # drawn at a time


def assign_questions(
    questions: int, asked: int, n: int, rng: Rng = None
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which questions each of n people is asked: a boolean matrix, people x questions, `asked` true a row.

    Every set is as likely as every other. No answer has a part in it: it reveals nothing, and may be public.

    >>> assign_questions(questions=4, asked=1, n=3, rng=1).sum(axis=1)
    array([1, 1, 1])
    """
    questions, asked, n = whole(questions, 1, "questions"), whole(asked, 1, "asked"), whole(n, 0, "n")
    if asked > questions:
        raise ParameterError(f"asked must be at most the {questions} questions there are, not {asked}")
    source = resolve(rng)
    chosen = np.empty((n, questions), dtype=np.bool_)
    people = max(1, _NUMBERS // questions)
    for block, start in enumerate(range(0, n, people)):
        words = np.empty((len(chosen[start : start + people]), questions), dtype="<u8")
        source.stream(block).fill(words.data.cast("B"))
        # Of 64 bits each: that two are equal, and the first question preferred, never happens.
        chosen[start : start + people] = np.argsort(np.argsort(words, axis=1), axis=1) < asked
    return chosen
