"""How many of d questions each person should answer, and at what epsilon (theorem 5).

With one total epsilon for d questions, each person answers m of them, chosen at random and
independently of the answers, each at epsilon / m. Few questions at a large epsilon or many at a
small one: the variance of every estimate is (d / m) V(epsilon / m) / n, and m is chosen to make it
smallest. m = 1 gives the theorem's bound. V is the variance for people drawn from a population, because
those who are asked a question are drawn from all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import BisampleError, ParameterError
from .exact import check_epsilon, whole
from .mechanism import NumberMechanism
from .randomness import generator

__all__ = ["QuestionPlan", "assign_questions", "plan_questions"]


@dataclass(frozen=True)
class QuestionPlan:
    """Each person answers `answered` of `questions` questions, each at `epsilon_each`."""

    questions: int
    answered: int
    epsilon: float
    epsilon_each: float
    variance: float  # n times the variance of each question's mean, n counting everybody

    def __str__(self) -> str:
        return (
            f"each person answers {self.answered} of {self.questions} questions, chosen at random,"
            f" each at epsilon = {self.epsilon_each:g} (together {self.epsilon:g})"
        )


def plan_questions(
    mechanism: type[NumberMechanism],
    epsilon: float,
    questions: int,
    *,
    values: object = (-0.5, 0.0, 0.5),
    answer_rate: float = 1.0,
    **options: Any,
) -> QuestionPlan:
    """The number of questions to answer that gives the means their least variance.

    `values` (scaled to [-1, 1]) and `answer_rate` say what answers are expected; the choice depends
    little on them.

    >>> from bisample import BiSample
    >>> print(plan_questions(BiSample, epsilon=1, questions=10))
    each person answers 1 of 10 questions, chosen at random, each at epsilon = 1 (together 1)
    >>> plan_questions(BiSample, epsilon=8, questions=10).answered
    4
    """
    epsilon = check_epsilon(epsilon)
    questions = whole(questions, 1, "questions")
    best: QuestionPlan | None = None
    for answered in range(1, questions + 1):
        each = epsilon / answered
        try:
            candidate_mechanism = mechanism(each, **options)
        except BisampleError:  # too small for the weights, or too many codes: not a candidate
            continue
        rate = answer_rate if candidate_mechanism.table.refusal else 1.0
        variance = candidate_mechanism.variance(values, answer_rate=rate).mean
        assert variance is not None
        candidate = QuestionPlan(questions, answered, epsilon, each, questions / answered * variance)
        if best is None or candidate.variance < best.variance:
            best = candidate
    if best is None:
        raise ParameterError(f"{mechanism.name} has no table at any part of epsilon = {epsilon:g}")
    return best


def assign_questions(
    plan: QuestionPlan, n: int, rng: np.random.Generator | int | None = None
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which questions each of n people answers: a boolean matrix, people x questions.

    Drawn independently of any answer, so that asking itself reveals nothing; it may be public.

    >>> from bisample import BiSample
    >>> asked = assign_questions(plan_questions(BiSample, 1, questions=4), n=3, rng=1)
    >>> asked.sum(axis=1)
    array([1, 1, 1])
    """
    draw = np.random.default_rng() if rng is None else generator(rng)
    order = np.argsort(draw.random((whole(n, 0, "n"), plan.questions)), axis=1)
    chosen: np.ndarray[Any, np.dtype[np.bool_]] = order < plan.answered
    return chosen
