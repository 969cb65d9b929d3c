"""The privacy claim, exactly: every pair of rows, every code, in integers; and epsilon by two routes."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manyanchors import FiveAnchors

from bisample import BiSample, NumberMechanism, ParameterError, PrivKV, Table
from bisample.answers import read_numbers
from bisample.exact import (
    EPSILON_MAX,
    EPSILON_MIN,
    TOTAL,
    exp_bounds,
    log_above,
    response_weights,
    share,
)
from bisample.mechanism import registered
from bisample.randomness import Replay

EPSILONS = [0.001, 0.01, 0.1, math.log(3), 1.0, 2.0, 5.0, 10.0]
SIZES = [2, 5, 20, 255]


def _kinds():
    """(mechanism, number of options or None) for all that is registered."""
    for name, kind in sorted(registered().items()):
        if issubclass(kind, NumberMechanism):
            yield pytest.param(name, None, id=name)
        else:
            for size in [2] if name == "rr" else SIZES:
                yield pytest.param(name, size, id=f"{name}-{size}")


@cache
def _make(name, size, epsilon):
    kind = registered()[name]
    if name == "dithered":  # 16 steps are more codes than a byte has at epsilon = 10
        return kind.fitting(epsilon)
    if name == "mix" and epsilon > 8:
        return kind(epsilon, first="three-state", second="privkv")
    return kind(epsilon) if size is None else kind(epsilon, options=range(size))


every = pytest.mark.parametrize(("name", "size"), list(_kinds()))
at_every_epsilon = pytest.mark.parametrize("epsilon", EPSILONS)


def _exp_below(x):
    """A fraction that is proven to be at most e^x, for x > 0: the series without its tail."""
    x = Fraction(x)
    total = term = Fraction(1)
    for k in range(1, 90):
        term = term * x / k
        total += term
    # Fewer digits, downwards: products with weights stay short.
    return Fraction(math.floor(total * 2**220), 2**220)


# --- Epsilon from the table --------------------------------------------------------------------


@every
@at_every_epsilon
def test_no_pair_of_rows_and_no_code_has_a_ratio_above_e_to_the_epsilon(name, size, epsilon):
    weights = _make(name, size, epsilon).table.weights
    bound = _exp_below(epsilon)
    for column in zip(*weights, strict=True):
        pairs = itertools.permutations(column, 2) if len(column) <= 21 else [(max(column), min(column))]
        for one, other in pairs:
            assert one * bound.denominator <= other * bound.numerator


@every
@at_every_epsilon
def test_rows_sum_to_the_total_and_no_weight_is_zero(name, size, epsilon):
    for row in _make(name, size, epsilon).table.weights:
        assert sum(row) == TOTAL
        assert min(row) >= 1
        assert all(type(w) is int and w < 2**53 for w in row)


@every
@at_every_epsilon
def test_the_worst_pair_is_the_worst_and_is_where_it_says(name, size, epsilon):
    table = _make(name, size, epsilon).table
    worst = table.worst_pair
    assert worst.ratio == Fraction(
        table.weights[worst.row][worst.code], table.weights[worst.other_row][worst.code]
    )
    assert worst.ratio == max(
        Fraction(max(column), min(column)) for column in zip(*table.weights, strict=True)
    )


# --- Epsilon from the papers' formulas, with 60 digits -------------------------------------------


def _bisample(e, _size):
    p, q = e / (e + 1) / 2, 1 / (e + 1) / 2
    return [[q, p, p, q], [p, q, q, p], [p, q, p, q]]


def _response(e, k):
    return [[(e if i == j else 1) / (e + k - 1) for j in range(k)] for i in range(k)]


def _privkv(e, _size):
    z = e.sqrt()
    p = z / (z + 1)
    fake = (1 - p) / 2
    return [[1 - p, p * p, p * (1 - p)], [1 - p, p * (1 - p), p * p], [p, fake, fake]]


FORMULAS = {
    "bisample": _bisample,
    "three-state": lambda e, _: _response(e, 3),
    "harmony": lambda e, _: _response(e, 2),
    "privkv": _privkv,
    "rr": lambda e, _: _response(e, 2),
    "k-rr": lambda e, size: _response(e, size + 1),
}


def _closed_epsilon(name, epsilon):
    """What the mechanism's paper proves. PrivKV's is less than what it claims."""
    if name != "privkv":
        return Decimal(epsilon)
    z = (Decimal(epsilon) / 2).exp()
    return (2 * z / (z + 1)).ln() + Decimal(epsilon) / 2


@every
@at_every_epsilon
def test_table_and_closed_form_give_the_same_epsilon_and_rounding_only_lowers_it(name, size, epsilon):
    table = _make(name, size, epsilon).table
    with localcontext() as context:
        context.prec = 60
        ratio = table.worst_pair.ratio
        from_table = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        closed = _closed_epsilon(name, epsilon)
        tolerance = Decimal("1e-6") if epsilon < 0.01 else Decimal("1e-9")
        # PrivKV's formula bounds a product of two roundings: each by itself is towards privacy.
        assert from_table <= Decimal(epsilon)
        assert abs(closed - from_table) <= tolerance * Decimal(epsilon)
        if name != "privkv":
            assert from_table <= closed
        assert from_table <= Decimal(table.epsilon_upper) <= Decimal(epsilon)


@pytest.mark.parametrize("name", FORMULAS)
@at_every_epsilon
def test_weights_are_the_papers_probabilities(name, epsilon):
    for size in [2] if name == "rr" else [2, 5, 20]:
        kind = registered()[name]
        table = _make(name, None if issubclass(kind, NumberMechanism) else size, epsilon).table
        with localcontext() as context:
            context.prec = 60
            formula = FORMULAS[name](Decimal(epsilon).exp(), size)
            largest = max(max(row) for row in formula)
            spread = (Decimal(epsilon).exp() + len(formula)) * len(formula)
            for row, expected in zip(table.weights, formula, strict=True):
                assert abs(sum(expected) - 1) < Decimal("1e-50")
                for weight, probability in zip(row, expected, strict=True):
                    assert abs(weight - probability * TOTAL) <= 2 + 2 * spread * largest
        with localcontext() as context:
            context.prec = 60
            worst = max(max(column) / min(column) for column in zip(*formula, strict=True))
            assert abs(worst.ln() - _closed_epsilon(name, epsilon)) < Decimal("1e-50")


@at_every_epsilon
def test_privkv_spends_less_than_it_claims(epsilon):
    assert PrivKV(epsilon).epsilon_upper < epsilon


@every
def test_epsilon_upper_is_proven_and_next_to_the_truth(name, size):
    for epsilon in EPSILONS:
        table = _make(name, size, epsilon).table
        with localcontext() as context:
            context.prec = 60
            ratio = table.worst_pair.ratio
            truth = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
            two_below = math.nextafter(math.nextafter(table.epsilon_upper, 0), 0)
            assert Decimal(two_below) < truth <= Decimal(table.epsilon_upper)


@every
@at_every_epsilon
def test_the_certificate_says_what_can_be_checked_by_hand(name, size, epsilon):
    mechanism = _make(name, size, epsilon)
    claim = mechanism.certificate()
    assert claim["holds"] is True
    assert claim["epsilon"] == epsilon
    assert claim["mechanism"] == name
    numerator, denominator = map(int, claim["worst"]["ratio"].split("/"))
    high, low = claim["worst"]["weights"]
    assert Fraction(high, low) == Fraction(numerator, denominator)
    rows = claim["rows"]
    first, second = (rows.index(label) for label in claim["worst"]["rows"])
    code = claim["worst"]["code"]
    assert [claim["weights"][first][code], claim["weights"][second][code]] == [high, low]


def test_a_table_above_its_epsilon_is_not_released():
    class Loose(NumberMechanism):
        @staticmethod
        def build(epsilon):
            return BiSample.build(epsilon * (1 + 1e-9))

    Loose.name = "loose"
    with pytest.raises(ParameterError, match="above"):
        Loose(1.0)
    assert "loose" not in registered()


def _convergents(x):
    """The continued fraction of x cut off step by step: fractions below and above x by turns."""
    rest, numerators, denominators = x, [0, 1], [1, 0]
    while True:
        whole = math.floor(rest)
        numerators.append(whole * numerators[-1] + numerators[-2])
        denominators.append(whole * denominators[-1] + denominators[-2])
        yield Fraction(numerators[-1], denominators[-1])
        rest = 1 / (rest - whole)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0])
def test_satisfies_is_exact_where_a_float_is_not(epsilon):
    """The best fractions of 48 bits around e^epsilon are the same float: one of them holds, one does not."""
    low, high = exp_bounds(Fraction(epsilon))
    tried = set()
    for ratio in _convergents(low):
        truth, other = ratio.numerator, ratio.denominator
        if truth + other >= TOTAL:
            break
        if not math.isclose(float(ratio), math.exp(epsilon), rel_tol=3e-16):
            continue
        assert not low < ratio < high
        rest = TOTAL - truth - other  # a third code takes it, alike in both rows
        table = Table([[truth, other, rest], [other, truth, rest]], rows=("a", "b"))
        assert table.satisfies(epsilon) is (ratio <= low)
        assert table.certificate(epsilon)["holds"] is (ratio <= low)
        tried.add(ratio <= low)
    assert tried == {True, False}


# --- Numbers between two anchors ----------------------------------------------------------------


def _words_to_the_upper_anchor(mechanism, value, lower_row):
    """How many of the 2^32 anchor words send the value to the anchor above, found by bisection."""

    def row(word):
        source = Replay(word.to_bytes(4, "little", signed=True))
        return int(next(mechanism._rows(read_numbers(value), source, clip=False))[0])

    low, high = -(2**31), 2**31  # rows are above for words < low and below for words >= high
    if row(low) == lower_row:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if row(middle) == lower_row:
            high = middle
        else:
            assert row(middle) == lower_row + 1
            low = middle
    return low + 1 + 2**31


def _distribution(mechanism, value):
    """Exact weights of the codes for one answer, in units of 2^-80."""
    weights = mechanism.table.weights
    if value is None:
        return [w << 32 for w in weights[-1]]
    gaps = len(mechanism.table.anchors) - 1
    position = (Fraction(value) - Fraction(mechanism.lower)) / (
        Fraction(mechanism.upper) - Fraction(mechanism.lower)
    )
    below = min(math.floor(position * gaps), gaps - 1)
    words = _words_to_the_upper_anchor(mechanism, value, below)
    # Rounding may move the threshold by a few of 2^32 words, where the range is far from zero.
    ulps = max(abs(mechanism.lower), abs(mechanism.upper)) / (mechanism.upper - mechanism.lower) * gaps
    assert abs(words - (position * gaps - below) * 2**32) <= 1 + 2**32 * ulps * 2**-50
    pairs = zip(weights[below], weights[below + 1], strict=True)
    return [low * (2**32 - words) + high * words for low, high in pairs]


RANGES = [(-1.0, 1.0), (17.0, 90.0), (0.1, 0.3), (1e6, 1e6 + 1), (-1e-7, 1e9)]
NUMBER_KINDS = sorted(n for n, kind in registered().items() if issubclass(kind, NumberMechanism))


@pytest.mark.parametrize("name", [*NUMBER_KINDS, "five anchors"])
@pytest.mark.parametrize(("lower", "upper"), RANGES)
def test_the_whole_distribution_of_any_number_stays_within_epsilon(name, lower, upper):
    kind = FiveAnchors if name == "five anchors" else registered()[name]
    mechanism = kind(1.0, lower, upper)
    bound = _exp_below(1.0)
    parts = (0.0, 1e-12, 0.1, 0.25, 0.5, 1 / 3, 0.75, 0.9999999, 1.0)
    values = [min(upper, lower + (upper - lower) * part) for part in parts]
    values += [math.nextafter(lower, math.inf), math.nextafter(upper, -math.inf)]
    if mechanism.table.refusal:
        values.append(None)
    distributions = [_distribution(mechanism, value) for value in values]
    rows = [[w << 32 for w in row] for row in mechanism.table.weights]
    for distribution in distributions:
        assert sum(distribution) == TOTAL << 32
        for code, weight in enumerate(distribution):
            assert min(row[code] for row in rows) <= weight <= max(row[code] for row in rows)
    for one, other in itertools.permutations(distributions, 2):
        for a, b in zip(one, other, strict=True):
            assert a * bound.denominator <= b * bound.numerator


@pytest.mark.parametrize("name", [*NUMBER_KINDS, "five anchors"])
@pytest.mark.parametrize(("lower", "upper"), RANGES)
def test_both_ends_reach_their_anchors_for_every_word(name, lower, upper):
    kind = FiveAnchors if name == "five anchors" else registered()[name]
    mechanism = kind(1.0, lower, upper)
    last = len(mechanism.table.anchors) - 1
    words = np.array([-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 2, 2**31 - 1], dtype="<i4")
    for value, row in ((lower, 0), (upper, last)):
        column = read_numbers(np.full(len(words), value))
        rows = next(mechanism._rows(column, Replay(words.tobytes()), clip=False))
        assert rows.tolist() == [row] * len(words)


@given(
    lower=st.floats(-1e12, 1e12),
    width=st.floats(1e-3, 1e12),
    part=st.floats(0, 1),
    word=st.integers(-(2**31), 2**31 - 1),
    five=st.booleans(),
)
def test_a_number_goes_to_one_of_its_two_anchors_whatever_the_word(lower, width, part, word, five):
    upper = lower + width
    if not 1e-9 * max(abs(lower), abs(upper)) < upper - lower:
        return
    mechanism = (FiveAnchors if five else BiSample)(1.0, lower, upper)
    value = min(max(lower + (upper - lower) * part, lower), upper)
    source = Replay(word.to_bytes(4, "little", signed=True))
    row = int(next(mechanism._rows(read_numbers(value), source, clip=False))[0])
    gaps = len(mechanism.table.anchors) - 1
    position = (Fraction(value) - Fraction(lower)) / (Fraction(upper) - Fraction(lower)) * gaps
    # An anchor itself may be reached from both sides: double precision puts it a hair beside.
    hair = Fraction(gaps) * 2**-20
    assert position - 1 - hair < row < position + 1 + hair
    assert 0 <= row <= gaps


# --- The arithmetic under it ---------------------------------------------------------------------


@given(st.fractions(0, 40))
def test_exp_bounds_enclose_the_exponential(x):
    low, high = exp_bounds(x)
    with localcontext() as context:
        context.prec = 110
        truth = (Decimal(x.numerator) / Decimal(x.denominator)).exp()
        slack = truth * Decimal(10) ** -100
        assert Decimal(low.numerator) / Decimal(low.denominator) <= truth + slack
        assert Decimal(high.numerator) / Decimal(high.denominator) >= truth - slack
    assert low < high or x == 0
    assert (high - low) / low < Fraction(1, 2**200)


def test_exp_bounds_refuses_what_it_is_not_made_for():
    with pytest.raises(ParameterError):
        exp_bounds(Fraction(-1))


@given(high=st.integers(1, TOTAL), low=st.integers(1, TOTAL))
def test_log_above_is_above_and_the_float_below_it_is_not(high, low):
    ratio = Fraction(max(high, low), min(high, low))
    x = log_above(ratio)
    with localcontext() as context:
        context.prec = 100
        truth = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
        assert Decimal(x) >= truth
        assert x == 0 or Decimal(math.nextafter(x, 0)) < truth


def test_log_above_of_one_is_zero_and_below_one_is_refused():
    assert log_above(Fraction(1)) == 0.0
    with pytest.raises(ParameterError):
        log_above(Fraction(1, 2))


@given(
    epsilon=st.one_of(st.floats(EPSILON_MIN, EPSILON_MAX), st.floats(EPSILON_MIN, 0.01)),
    k=st.integers(2, 256),
    total=st.sampled_from([TOTAL, TOTAL // 2]),
)
def test_response_weights_are_private_and_lose_little(epsilon, k, total):
    truth, others = response_weights(total, epsilon, k)
    assert truth + sum(others) == total
    assert len(others) == k - 1
    assert others == sorted(others, reverse=True)
    assert others[0] - others[-1] <= 1
    assert 1 <= others[-1] <= others[0] < truth
    bound = _exp_below(epsilon) if epsilon < 12 else exp_bounds(Fraction(epsilon))[0]
    assert all(truth * bound.denominator <= other * bound.numerator for other in {*others})
    loss = epsilon - math.log1p(float(Fraction(truth - others[-1], others[-1])))
    assert loss <= 4 * (math.exp(epsilon) + k) / total + 1e-15 * max(1, epsilon)


@given(total=st.integers(0, TOTAL), parts=st.integers(1, 300))
def test_share_splits_evenly(total, parts):
    split = share(total, parts)
    assert sum(split) == total
    assert len(split) == parts
    assert max(split) - min(split) <= 1
    assert split == sorted(split, reverse=True)


@given(epsilon=st.floats(EPSILON_MIN, EPSILON_MAX), name=st.sampled_from(sorted(registered())))
def test_any_epsilon_gives_a_table_that_is_proven(epsilon, name):
    number = issubclass(registered()[name], NumberMechanism)
    mechanism = _make(name, None if number else 2 if name == "rr" else 3, epsilon)
    assert mechanism.table.satisfies(epsilon)
    assert 0 < mechanism.epsilon_upper <= epsilon


def test_an_epsilon_beyond_all_weights_is_answered_at_once():
    """No ratio of 48-bit weights is above 2**48, and e**1e9 has half a billion digits."""
    assert BiSample(1.0).table.satisfies(1e9)
