"""Questions are chosen without a look at any answer, and every set of them is as likely."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from bisample.device.asking import assign_questions
from bisample.errors import ParameterError


def test_every_set_of_questions_is_as_likely():
    """4,000 people, 10 sets: a chi-squared statistic of 9 degrees beyond 58.6 has p < 1e-8."""
    asked = assign_questions(5, 2, 4000, rng=1)
    assert (asked.sum(axis=1) == 2).all()
    counts = Counter(tuple(np.flatnonzero(row).tolist()) for row in asked)
    assert set(counts) == set(combinations(range(5), 2))
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < 58.6


def test_all_none_and_many_people():
    assert assign_questions(5, 5, 7).all()
    assert assign_questions(5, 2, 0).shape == (0, 5)
    many = assign_questions(100, 3, 20_000, rng=3)  # more than are drawn at a time
    assert (many.sum(axis=1) == 3).all()
    assert abs(many.sum(axis=0) - 600).max() < 6 * np.sqrt(600)
    assert (assign_questions(5, 2, 50) != assign_questions(5, 2, 50)).any()
    assert (assign_questions(5, 2, 50, rng=1) == assign_questions(5, 2, 50, rng=1)).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, 1, 5), "questions must be an integer from 1"),
        ((3, 0, 5), "asked must be an integer from 1"),
        ((3, 4, 5), "asked must be at most the 3 questions"),
        ((3, 1, -1), "n must be an integer from 0"),
        ((3, 1, 5, -1), "rng must be"),
    ],
)
def test_what_cannot_be_asked(arguments, says):
    with pytest.raises(ParameterError, match=says):
        assign_questions(*arguments)
