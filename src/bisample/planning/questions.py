"""How many of d questions each person should answer, and at what epsilon (theorem 5).

With one total epsilon for d questions, each person answers m of them, chosen at random and
independently of the answers, each at epsilon / m. Few questions at a large epsilon or many at a
small one: the variance of every estimate is (d / m) V(epsilon / m) / n, and m is chosen to make it
smallest. m = 1 gives the theorem's bound. V is the variance for people drawn from a population, because
those who are asked a question are drawn from all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bisample.catalogue import CATALOGUE, build
from bisample.errors import BisampleError, ParameterError, shown
from bisample.protocol.domain import Range
from bisample.protocol.exact import check_epsilon, whole
from bisample.protocol.mechanism import Mechanism

__all__ = ["QuestionPlan", "plan_questions"]

_MOST = 1000


@dataclass(frozen=True)
class QuestionPlan:
    """Each person answers `answered` of `questions` questions, each at `epsilon_each`."""

    questions: int
    answered: int
    epsilon: float
    epsilon_each: float
    variance: float  # n times the variance of each question's estimate, n counting everybody

    def __str__(self) -> str:
        return (
            f"each person answers {self.answered} of {self.questions} questions, chosen at random,"
            f" each at epsilon = {self.epsilon_each:g} (together {self.epsilon:g})"
        )


def plan_questions(
    mechanism: str | Callable[..., Mechanism],
    epsilon: float,
    questions: int,
    *,
    values: object = None,
    answer_rate: float = 1.0,
    **parameters: Any,
) -> QuestionPlan:
    """The number of questions to answer that gives the estimates their least variance.

    `mechanism` is a name from the catalogue or a builder, `parameters` what else it takes. `values` and
    `answer_rate` say what answers are expected (by default the quarters of the range, or every option
    alike); the choice depends little on them.

    >>> print(plan_questions("bisample", epsilon=1, questions=10))
    each person answers 1 of 10 questions, chosen at random, each at epsilon = 1 (together 1)
    >>> plan_questions("bisample", epsilon=8, questions=10, lower=17, upper=90).answered
    4
    """
    builder = _builder(mechanism)
    epsilon = check_epsilon(epsilon)
    if whole(questions, 1, "questions") > _MOST:
        raise ParameterError(f"questions must be an integer from 1 to {_MOST}, not {shown(questions)}")
    builder(epsilon=epsilon, **parameters)  # a wrong parameter is said at once
    best: QuestionPlan | None = None
    for answered in range(1, questions + 1):
        each = epsilon / answered
        if Fraction(each) * answered > Fraction(epsilon):
            each = math.nextafter(each, 0)  # rounded down: together they never spend more
        try:
            candidate = builder(epsilon=each, **parameters)
        except BisampleError:  # too small a part for the weights: no candidate
            continue
        variance = questions / answered * _variance(candidate, values, answer_rate)
        if best is None or variance < best.variance:
            best = QuestionPlan(questions, answered, epsilon, each, variance)
    assert best is not None  # the first was made above
    return best


def _builder(mechanism: object) -> Callable[..., Mechanism]:
    names = {entry.builder: name for name, entry in CATALOGUE.items()}
    if isinstance(mechanism, str) or not callable(mechanism):
        name: Any = mechanism
    elif mechanism in names:
        name = names[mechanism]
    else:
        return mechanism
    return lambda **parameters: build(name, **parameters)


def _variance(mechanism: Mechanism, values: object, answer_rate: float) -> float:
    domain = mechanism.domain
    rate = answer_rate if domain.refusal else 1.0
    if isinstance(domain, Range):
        quarters = domain.lower + (domain.upper - domain.lower) * np.array([0.25, 0.5, 0.75])
        found = mechanism.variance(quarters if values is None else values, answer_rate=rate).mean
        assert found is not None
        return found
    shares = mechanism.variance(domain.options if values is None else values, answer_rate=rate).proportions
    assert shares is not None
    return sum(shares.values()) / len(shares)
