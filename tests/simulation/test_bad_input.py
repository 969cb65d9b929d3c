"""What simulations refuse is an error of bisample's own, with the answer's place and never the answer."""

from __future__ import annotations

import math
import traceback

import numpy as np
import pytest

from bisample.device.randomness import Secure
from bisample.errors import AnswerError, BisampleError, ParameterError
from bisample.simulation.piecewise import Hybrid, Piecewise
from bisample.simulation.preferences import fake_random, fake_top, preferences, prepare_values
from bisample.simulation.privkvm import PrivKVM
from bisample.simulation.scaling import scaled

KINDS = [Piecewise, Hybrid, PrivKVM]
SECRET = 31337  # in every shape, and its digits nowhere else
TEXT = str(SECRET)


def refused(call, kind=BisampleError):
    """The error of a call that must be refused: of this kind, helpful, and without the secret anywhere."""
    with pytest.raises(kind) as caught:
        call()
    shown = "".join(traceback.format_exception(caught.value))
    assert len(str(caught.value)) > 20
    for foreign in (TEXT, "setting an array element", "could not convert", "inhomogeneous", "RuntimeWarning"):
        assert foreign not in shown
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, "1", None, True, 1e3])
def test_epsilon_is_a_number_in_its_range(kind, epsilon):
    assert "epsilon must be a number from 1e-06 to 20" in str(refused(lambda: kind(epsilon), ParameterError))


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        *((1, 1), (2, 1), (math.nan, 1), (0, math.inf), ("0", 1), (0, None), (True, 2), ([0], 1)),
        *((0, 10**400), (0, 1e308), (1e9, 1e9 + 1e-7), (0, 1e-300)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_is_two_finite_numbers_the_lower_first(kind, lower, upper):
    error = str(refused(lambda: kind(1.0, lower, upper), ParameterError))
    assert "lower" in error or "upper" in error


@pytest.mark.parametrize(("rounds", "virtual"), [(0, 0), (1.5, 0), (True, 0), (1, -1), (1, "2")])
def test_rounds_are_whole_numbers(rounds, virtual):
    refused(lambda: PrivKVM(1.0, rounds=rounds, virtual=virtual), ParameterError)


BAD_ANSWERS = {
    "too large": [0.5, float(SECRET)],
    "too small": (-float(SECRET), 0.5),
    "an integer": SECRET,
    "huge": [10**400 + SECRET],
    "infinite": [0.5, math.inf],
    "single precision": np.float32(SECRET),
    "text": TEXT,
    "bytes": TEXT.encode(),
    "text in a list": [0.5, TEXT],
    "an array of text": np.array([TEXT]),
    "two dimensions": np.array([[SECRET, SECRET]], dtype=float),
    "ragged": [[SECRET], [0.5, SECRET]],
    "a set": {SECRET},
    "a dict": {TEXT: 0.5},
    "complex": complex(SECRET, 1),
    "dates": np.array([SECRET], dtype="M8[D]"),
    "a duration": np.timedelta64(SECRET, "D"),
    "an object": np.array([float(SECRET)], dtype=object),
    "beside a mask": np.ma.array([float(SECRET), 0.5], mask=[False, True]),
}


@pytest.mark.parametrize("answers", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_an_answer_that_cannot_be_taken_is_refused_and_not_shown(answers):
    for mechanism in (Piecewise(1.0), Hybrid(1.0)):
        refused(lambda m=mechanism: m.privatize(answers, rng=1), AnswerError)
        refused(lambda m=mechanism: m.variance(answers), AnswerError)
    refused(lambda: PrivKVM(1.0).simulate(answers, rng=1), AnswerError)


@pytest.mark.parametrize(
    "answers",
    [TEXT, [TEXT], {SECRET: 1}, [[SECRET]], np.array([TEXT]), complex(SECRET)],
    ids=lambda answers: type(answers).__name__,
)
def test_preferences_and_fakes_do_not_show_them_either(answers):
    for call in (
        lambda: prepare_values(answers, 1.0, 2.0),
        lambda: prepare_values([0.5], 1.0, answers),
        lambda: fake_top(answers),
        lambda: fake_random(answers, rng=1),
    ):
        refused(call, AnswerError)


@pytest.mark.parametrize(
    ("answers", "index", "problem"),
    [([0.5, 0.5, SECRET], 2, "lies outside"), ([0.5, -SECRET, SECRET], 1, "lies outside"),
     ([0.5, 0.1, 0.2, TEXT], 3, "no number")],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_says_where_the_answer_stands(kind, answers, index, problem):
    m = kind(1.0)
    draw = m.simulate if kind is PrivKVM else m.privatize
    error = refused(lambda: draw(answers, rng=1), AnswerError)
    assert error.index == index
    assert f"index {index} " in str(error)
    assert problem in error.problem


@pytest.mark.parametrize("kind", [Piecewise, Hybrid])
def test_who_declines_has_no_report(kind):
    for answers, index in (([None], 0), ([0.5, math.nan, None], 1), (np.ma.array([0.5, 1], mask=[0, 1]), 1)):
        error = refused(lambda a=answers: kind(1.0).privatize(a, rng=1), AnswerError)
        assert error.index == index
        assert "no report for a refusal" in error.problem


@pytest.mark.parametrize("rng", [None, "x", -1, 1.5, True, [1], Secure, Secure(), np.random.Generator])
def test_simulations_want_a_seed_or_a_generator(rng):
    for call in (
        lambda: Piecewise(1.0).privatize([0.5], rng=rng),
        lambda: Hybrid(1.0).privatize([0.5], rng=rng),
        lambda: PrivKVM(1.0).simulate([0.5], rng=rng),
        lambda: preferences(3, rng=rng),
        lambda: fake_random([0.5], rng=rng),
    ):
        refused(call, ParameterError)


def test_what_is_scaled_is_a_copy():
    values = np.array([0.0, 10.0, math.nan])
    scaled(values, PrivKVM(1.0, 0, 10).mechanism.domain)
    assert values[:2].tolist() == [0.0, 10.0]
