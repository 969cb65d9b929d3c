"""The number of questions that each person answers: the least variance, for any mechanism."""

from fractions import Fraction
from functools import partial

import pytest

from bisample import (
    BiSample,
    DitheredResponse,
    KRandomizedResponse,
    Mechanism,
    RandomizedResponse,
    ThreeState,
)
from bisample.errors import ParameterError
from bisample.planning.questions import plan_questions


@pytest.mark.parametrize("builder", [BiSample, ThreeState, DitheredResponse])
@pytest.mark.parametrize(("epsilon", "questions", "rate"), [(0.5, 4, 1.0), (4.0, 6, 0.7), (12.0, 7, 0.3)])
def test_no_other_number_of_questions_has_less_variance(builder, epsilon, questions, rate):
    values = [-0.2, 0.6]
    plan = plan_questions(builder, epsilon, questions, values=values, answer_rate=rate)
    found = {
        m: questions / m * builder(epsilon / m).variance(values, answer_rate=rate).mean
        for m in range(1, questions + 1)
    }
    assert found[plan.answered] == min(found.values())
    assert plan.variance == pytest.approx(min(found.values()))
    assert Fraction(plan.epsilon_each) * plan.answered <= Fraction(epsilon)  # exactly: never more is spent
    assert plan.epsilon_each * plan.answered == pytest.approx(epsilon)


def test_at_small_epsilon_one_question_is_answered():
    for epsilon in (0.01, 0.1, 1.0):
        assert plan_questions("bisample", epsilon, 10).answered == 1


def test_any_range_and_any_choice_can_be_planned_for():
    assert plan_questions(BiSample, 4, 10, lower=17, upper=90).questions == 10
    scaled = plan_questions("bisample", 8, 10).variance
    in_years = plan_questions("bisample", 8, 10, lower=17, upper=90).variance
    assert in_years == pytest.approx(scaled * ((90 - 17) / 2) ** 2)
    assert plan_questions("k-rr", 6, 4, options=["a", "b", "c"]).answered >= 1
    assert plan_questions(RandomizedResponse, 6, 4).answered >= 1
    own = partial(KRandomizedResponse, options=["x", "y"])
    assert plan_questions(own, 6, 4) == plan_questions("k-rr", 6, 4, options=["x", "y"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plan_questions("bisampel", 1, 3), "mechanism must be one of bisample"),
        (lambda: plan_questions(3, 1, 3), "mechanism must be one of bisample"),
        (lambda: plan_questions(BiSample(1), 1, 3), "mechanism must be one of bisample"),
        (lambda: plan_questions("bisample", 1, 0), "questions must be an integer from 1"),
        (lambda: plan_questions("bisample", 1, 2.5), "questions must be an integer from 1"),
        (lambda: plan_questions("bisample", 1, 10**9), "questions must be an integer from 1 to 1000"),
        (lambda: plan_questions("bisample", 1, 10**5000), "not an int of thousands of digits"),
        (lambda: plan_questions("bisample", 4, 10, lower=5, upper=2), "^lower must be less than upper"),
        (lambda: plan_questions("bisample", 0, 3), "epsilon must be"),
        (lambda: plan_questions("bisample", 1, 3, answer_rate=2), "answer_rate must be"),
        (lambda: plan_questions("bisample", 1, 3, values=[5]), r"lie in \[-1, 1\]"),
        (lambda: plan_questions("bisample", 1, 3, levels=4), "and no levels"),
        (lambda: plan_questions("k-rr", 1, 3), "options was not given"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(call, says):
    with pytest.raises(ParameterError, match=says):
        call()


def test_a_builder_of_ones_own_will_do():
    def own(epsilon: float) -> Mechanism:
        return ThreeState(epsilon, 0, 1)

    assert plan_questions(own, 2, 3).questions == 3
