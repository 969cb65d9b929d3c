"""What estimates will cost: the papers' formulas, uneven anchors, and what is refused."""

import math

import checks
import handmade
import numpy as np
import pandas as pd
import pytest
import strategies as own
from hypothesis import given
from hypothesis import strategies as st

from bisample import (
    BiSample,
    Harmony,
    KRandomizedResponse,
    Options,
    ParameterError,
    PrivKV,
    RandomizedResponse,
    Range,
    ThreeState,
)
from bisample.analysis.variance import row_shares, targets

# n times the variance of mean and missing rate; A = 0.7, v ~ N(0.5, 0.1), around the realised data.
TABLE = {
    0.1: ("1021 / 400", "1279 / 193", "6470 / 400"),
    0.5: ("41.5 / 16.3", "45.4 / 6.76", "224 / 15.9"),
    1: ("11.0 / 4.26", "10.4 / 1.43", "48.7 / 3.92"),
    2: ("3.41 / 1.30", "2.68 / 0.252", "10.3 / 0.921"),
    3: ("2.13 / 0.798", "1.53 / 0.074", "4.36 / 0.370"),
    4: ("1.76 / 0.654", "1.22 / 0.025", "2.57 / 0.181"),
    6: ("1.59 / 0.588", "1.08 / 0.003", "1.49 / 0.055"),
}


def _is_printed_as(value, text):
    """Equal to a unit in the last printed digit: two of the printed values are rounded the other way."""
    unit = 10.0 ** -len(text.partition(".")[2])
    if value >= 1000:
        unit = 10.0 ** (len(text) - 3)
    return abs(value - float(text)) < unit


@pytest.mark.parametrize("epsilon", TABLE)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_variances_are_the_published_ones(epsilon, column):
    mechanism = [BiSample, ThreeState, PrivKV][column](epsilon)
    v = mechanism.variance([0.4, 0.6], answer_rate=0.7, realised=True)
    mean, rate = TABLE[epsilon][column].split(" / ")
    assert _is_printed_as(v.mean, mean), (v.mean, mean)
    assert _is_printed_as(v.answer_rate, rate), (v.answer_rate, rate)


@given(epsilon=own.epsilons, rate=own.rates, m=st.floats(-1, 1))
def test_bisamples_variance_is_the_papers(epsilon, rate, m):
    """V with P+- = (2p-1) A (1 +- m) / 2 + 1 - p; less what drawing the people adds, if they are given."""
    c = 1 / math.tanh(epsilon / 2)
    p = (1 / c + 1) / 2
    plus = rate * (1 + m) / (2 * c) + 1 - p
    minus = rate * (1 - m) / (2 * c) + 1 - p
    a, b = plus * (1 - plus), minus * (1 - minus)
    v_rate = 2 * c * c * (a + b)
    v_mean = 2 * c * c / rate**2 * ((1 - m) ** 2 * a + (1 + m) ** 2 * b)
    v = BiSample(epsilon).variance([m], answer_rate=rate)
    assert math.isclose(v.answer_rate, v_rate, rel_tol=1e-10)
    assert math.isclose(v.mean, v_mean, rel_tol=1e-9)
    realised = BiSample(epsilon).variance([m], answer_rate=rate, realised=True)
    assert math.isclose(realised.answer_rate, v_rate - rate * (1 - rate), rel_tol=1e-9)
    assert math.isclose(realised.mean, v_mean, rel_tol=1e-9)  # one value: no spread


@given(epsilon=own.epsilons, m=st.floats(-1, 1))
def test_harmonys_variance_is_the_papers(epsilon, m):
    c = 1 / math.tanh(epsilon / 2)
    v = Harmony(epsilon).variance([m], realised=True)
    assert math.isclose(v.mean, c * c - m * m, rel_tol=1e-10)
    assert math.isclose(v.total, c * c - m * m, rel_tol=1e-10)
    assert v.answer_rate == 0


@given(epsilon=own.epsilons, share=st.integers(0, 20))
def test_randomized_responses_variance_is_warners(epsilon, share):
    """f (1 - f) / (2p - 1)^2, f the probability of a "yes"; around the respondents p (1 - p) / (2p - 1)^2."""
    p = 1 / (1 + math.exp(-epsilon))
    f = p * share / 20 + (1 - p) * (1 - share / 20)
    held = [True] * share + [False] * (20 - share)
    v = RandomizedResponse(epsilon).variance(held)
    assert math.isclose(v.proportions["true"], f * (1 - f) / (2 * p - 1) ** 2, rel_tol=1e-9)
    realised = RandomizedResponse(epsilon).variance(held, realised=True)
    for option in ("true", "false"):
        assert math.isclose(realised.proportions[option], p * (1 - p) / (2 * p - 1) ** 2, rel_tol=1e-7)


@given(mechanism=own.number_mechanisms(), part=st.floats(0, 1), rate=own.rates)
def test_realised_variance_is_the_smaller_and_none_is_negative(mechanism, part, rate):
    lower, upper = mechanism.domain.lower, mechanism.domain.upper
    held = [min(upper, lower + part * (upper - lower)), lower]
    rate = rate if mechanism.domain.refusal else 1.0
    population = mechanism.variance(held, answer_rate=rate)
    realised = mechanism.variance(held, answer_rate=rate, realised=True)
    for name in ("mean", "total", "answer_rate"):
        whole, given_people = getattr(population, name), getattr(realised, name)
        assert -1e-6 * whole <= given_people <= whole * (1 + 1e-9)


@pytest.mark.parametrize("realised", [False, True])
@pytest.mark.parametrize("mechanism", [handmade.UNEVEN, handmade.COIN], ids=["uneven", "coin"])
def test_variance_is_what_enumeration_gives_with_any_table(mechanism, realised):
    """Uneven anchors, a coin with unequal chances: weights by their formula, summed over people and codes.

    (The mechanisms of the catalogue are enumerated in test_statistics.)
    """
    domain, table = mechanism.domain, mechanism.table
    span = domain.upper - domain.lower
    values = [min(domain.upper, domain.lower + part * span) for part in (0.0, 0.03, 0.31, 0.5, 0.77, 1.0)]
    rate = 0.6
    # A person's codes: the two rows around the value, each in proportion.
    anchors = [domain.lower + span * a / domain.last for a in domain.anchors]
    codes = [[np.interp(v, anchors, column[:-1]) for column in table.matrix.T] for v in values]
    codes = np.array([*codes, table.matrix[-1]])
    shares = np.append(np.full(len(values), rate / len(values)), 1 - rate)
    p = shares @ codes
    block = np.repeat(np.arange(len(table.blocks)), table.blocks)
    wanted = np.array([np.append(anchors, 0), np.append(np.ones(len(anchors)), 0)])
    g = wanted @ np.linalg.pinv((table.matrix / p) @ table.matrix.T, hermitian=True) @ (table.matrix / p)
    np.testing.assert_allclose(g @ table.matrix.T, wanted, atol=1e-6)
    g -= (np.stack([np.bincount(block, weights=row * p) for row in g]) / np.bincount(block, weights=p))[
        :, block
    ]
    mean = np.mean(values)
    for name, line in (("total", g[0]), ("answer_rate", g[1]), ("mean", (g[0] - mean * g[1]) / rate)):
        summed = shares @ (codes @ line**2 - realised * (codes @ line) ** 2)
        found = mechanism.variance(values, answer_rate=rate, realised=realised)
        assert getattr(found, name) == pytest.approx(summed, rel=1e-6), name


# --- Row shares ---------------------------------------------------------------------------------------


def test_a_number_counts_for_the_two_anchors_around_it_in_proportion():
    uneven = Range(0, 20, (0, 1, 4, 20))
    assert row_shares(uneven, [0, 1, 4, 20]).tolist() == [0.25, 0.25, 0.25, 0.25, 0]
    assert row_shares(uneven, [0.25]).tolist() == [0.75, 0.25, 0, 0, 0]
    assert row_shares(uneven, [3]).tolist() == pytest.approx([0, 1 / 3, 2 / 3, 0, 0])
    assert row_shares(uneven, [16, None], 0.5).tolist() == [0, 0, 0.125, 0.375, 0.5]
    assert row_shares(uneven, [16, None]).tolist() == [0, 0, 0.125, 0.375, 0.5]


@given(span=own.ranges(), parts=st.lists(st.floats(0, 1), min_size=1, max_size=20), data=st.data())
def test_row_shares_keep_everybody_and_their_mean(span, parts, data):
    gaps = data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=6))
    domain = Range(*span, tuple(np.cumsum([0, *gaps]).tolist()), refusal=False)
    values = [min(domain.upper, domain.lower + part * (domain.upper - domain.lower)) for part in parts]
    shares = row_shares(domain, values)
    assert (shares >= 0).all()
    assert math.isclose(shares.sum(), 1, rel_tol=1e-12)
    room = 1e-9 * (domain.upper - domain.lower + abs(domain.lower))
    assert abs(shares @ domain.values - np.mean(values)) <= room  # noqa: PD011 - no dataframe


def test_options_count_for_their_rows():
    assert row_shares(Options(["a", "2", "true"]), ["a", 2.0, True, True]).tolist() == [0.25, 0.25, 0.5, 0]
    assert row_shares(Options(["a", "b"]), ["a", None, math.nan, "a"]).tolist() == [0.5, 0, 0.5]
    assert row_shares(Options(["a", "b"]), "b", 0.5).tolist() == [0, 0.5, 0.5]
    assert targets(Options(["a", "b"], refusal=False)).tolist() == [[1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize(
    "values",
    [
        [30, None, 60, None],
        [30.0, math.nan, 60, math.nan],
        np.array([30, np.nan, 60, np.nan], dtype=np.float32),
        np.ma.array([30, 99, 60, 10**6], mask=[0, 1, 0, 1]),
        pd.Series([30, None, 60, None]),
        lambda: (v for v in (30, None, 60, None)),
    ],
    ids=lambda values: type(values).__name__,
)
def test_missing_entries_count_unless_a_rate_is_given(values):
    values = values() if callable(values) else values  # an iterator can be read once
    m = BiSample(1.0, 17, 90)
    if not hasattr(values, "__len__"):
        values = list(values)
    assert m.variance(values) == m.variance([30, 60], answer_rate=0.5)
    assert m.variance(values, answer_rate=0.9) == m.variance([30, 60], answer_rate=0.9)
    choice = KRandomizedResponse(1.0, ["a", "b"])
    assert choice.variance(["a", None]) == choice.variance(["a"], answer_rate=0.5)


# --- What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    ["30", ["30"], [30, "40"], [None, "40"], b"30", [object()], {"a": 1}, [[30], [40, 50]], [1j], [10**400]],
    ids=range(10),
)
def test_values_are_numbers(values):
    with pytest.raises(ParameterError, match="values must be numbers, None where somebody does not answer"):
        BiSample(1.0, 17, 90).variance(values)


@pytest.mark.parametrize("values", [np.array(["2031-01-01"], dtype="M8[D]"), np.array([30], dtype="m8[D]")])
def test_days_are_no_numbers(values):
    with pytest.raises(ParameterError, match="values must be numbers"):
        BiSample(1.0, 17, 90).variance(values)


@pytest.mark.parametrize("values", [[16.9], [30, 91], [math.inf], [-math.inf, 30]], ids=repr)
def test_values_lie_in_the_range(values):
    with pytest.raises(ParameterError, match=r"values must lie in \[17, 90\]"):
        BiSample(1.0, 17, 90).variance(values)


@pytest.mark.parametrize("values", [[], [None], None, math.nan, np.array([])], ids=repr)
def test_somebody_must_hold_something(values):
    for m in (BiSample(1.0), KRandomizedResponse(1.0, ["a", "b"])):
        with pytest.raises(ParameterError, match="at least one value is needed that somebody holds"):
            m.variance(values)


@pytest.mark.parametrize("value", ["c", "A", 1, True, b"a", math.inf, object, ("a",)], ids=repr)
def test_values_are_among_the_options(value):
    for values in ([value], ["a", None, value]):
        with pytest.raises(ParameterError, match="is not among the options a, b"):
            KRandomizedResponse(1.0, ["a", "b"]).variance(values)


@pytest.mark.parametrize("rate", [0, -0.5, 1.0001, math.nan, math.inf, "0.5", True, [0.5]], ids=repr)
def test_an_answer_rate_is_above_0_and_up_to_1(rate):
    for m, held in ((BiSample(1.0), 0.5), (KRandomizedResponse(1.0, ["a", "b"]), "a")):
        with pytest.raises(ParameterError, match="answer_rate must be above 0 and up to 1"):
            m.variance([held], answer_rate=rate)


def test_without_a_code_for_a_refusal_everybody_answers():
    for m, held in ((Harmony(1.0), 0.5), (RandomizedResponse(1.0), True)):
        for ask in (
            lambda m=m, held=held: m.variance([held, None]),
            lambda m=m, held=held: m.variance([held], answer_rate=0.9),
        ):
            with pytest.raises(ParameterError, match="no code for a refusal: its answer rate is 1"):
                ask()
        assert m.variance([held], answer_rate=1.0) == m.variance([held])


def test_a_table_that_does_not_tell_answers_apart_has_no_variance():
    with pytest.raises(ParameterError, match="does not tell answers apart: no number of reports would do"):
        handmade.FRUIT.variance(["apple"])
    assert checks.numeric(handmade.COIN)
    assert handmade.COIN.variance([0.1]).mean > 0
