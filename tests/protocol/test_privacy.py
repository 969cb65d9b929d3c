"""The privacy claim, exactly: every pair of rows, every code, in integers; and epsilon by two routes."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import pytest
from handmade import COIN, COIN_RATIO, FRUIT, HANDMADE, UNEVEN, UNEVEN_RATIO, rows_drawn
from hypothesis import given
from hypothesis import strategies as st

from bisample import PrivKV, Range
from bisample.catalogue import CATALOGUE, build, response_weights, share
from bisample.protocol.exact import EPSILON_MAX, EPSILON_MIN, TOTAL, exp_bounds

EPSILONS = [0.001, 0.01, 0.1, math.log(3), 1.0, 2.0, 5.0, 10.0]
SIZES = [2, 5, 20, 255]


def _kinds():
    """(mechanism, number of options or None) for all of the catalogue."""
    for name, entry in sorted(CATALOGUE.items()):
        if entry.domain == "range":
            yield pytest.param(name, None, id=name)
        else:
            for size in [2] if name == "rr" else SIZES:
                yield pytest.param(name, size, id=f"{name}-{size}")


@cache
def _make(name, size, epsilon):
    return build(name, epsilon=epsilon, **({} if size is None else {"options": range(size)}))


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


def _ln(ratio):
    return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


# --- Epsilon from the table --------------------------------------------------------------------


@every
@at_every_epsilon
def test_no_pair_of_rows_and_no_code_has_a_ratio_above_e_to_the_epsilon(name, size, epsilon):
    weights = _make(name, size, epsilon).table.weights
    bound = _exp_below(epsilon)
    for column in zip(*weights, strict=True):
        # Of a column of many, the weights that differ: all pairs of those are all pairs.
        for one, other in itertools.permutations(set(column), 2):
            assert one * bound.denominator <= other * bound.numerator


@every
@at_every_epsilon
def test_rows_sum_to_the_total_and_no_weight_is_zero(name, size, epsilon):
    for row in _make(name, size, epsilon).table.weights:
        assert sum(row) == TOTAL
        assert min(row) >= 1
        assert all(type(w) is int and w < 2**53 for w in row)


@pytest.mark.parametrize(
    ("mechanism", "ratio"),
    [(UNEVEN, UNEVEN_RATIO), (COIN, COIN_RATIO), (FRUIT, Fraction(2**47 + 3, 2**46))],
    ids=HANDMADE,
)
def test_a_table_written_by_hand_keeps_its_epsilon_for_every_pair_and_code(mechanism, ratio):
    weights = mechanism.table.weights
    found = set()
    for column in zip(*weights, strict=True):
        for one, other in itertools.permutations(column, 2):
            assert one * ratio.denominator <= other * ratio.numerator
            found.add(Fraction(one, other))
    assert ratio in found
    with localcontext() as context:
        context.prec = 60
        assert _ln(ratio) <= Decimal(mechanism.epsilon_upper)
        assert _ln(ratio) > Decimal(math.nextafter(math.nextafter(mechanism.epsilon_upper, 0), 0))


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
        from_table = _ln(table.worst_pair.ratio)
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
    for size in {"rr": [2], "k-rr": [2, 5, 20]}.get(name, [None]):
        table = _make(name, size, epsilon).table
        with localcontext() as context:
            context.prec = 60
            formula = FORMULAS[name](Decimal(epsilon).exp(), size)
            largest = max(max(row) for row in formula)
            spread = (Decimal(epsilon).exp() + len(formula)) * len(formula)
            for row, expected in zip(table.weights, formula, strict=True):
                assert abs(sum(expected) - 1) < Decimal("1e-50")
                for weight, probability in zip(row, expected, strict=True):
                    assert abs(weight - probability * TOTAL) <= 2 + 2 * spread * largest
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
            truth = _ln(table.worst_pair.ratio)
            two_below = math.nextafter(math.nextafter(table.epsilon_upper, 0), 0)
            assert Decimal(two_below) < truth <= Decimal(table.epsilon_upper)


@given(epsilon=st.floats(EPSILON_MIN, EPSILON_MAX), name=st.sampled_from(sorted(CATALOGUE)))
def test_any_epsilon_gives_a_table_that_is_proven(epsilon, name):
    size = {"rr": 2, "k-rr": 3}.get(name)
    mechanism = build(name, epsilon=epsilon, **({} if size is None else {"options": range(size)}))
    assert mechanism.table.satisfies(epsilon)
    assert 0 < mechanism.epsilon_upper <= epsilon


# --- Numbers between two anchors: a mix of rows is never less private than the rows ----------------


def _words_to_the_upper_anchor(domain, value, below):
    """How many of the 2^32 words send the value to the anchor above, found by bisection."""
    low, high = 0, 2**32  # rows are above for words < low and below for words >= high
    while low < high:
        middle = (low + high) // 2
        (row,) = rows_drawn(domain, [value], [middle])
        assert row in (below, below + 1)
        low, high = (low, middle) if row == below else (middle + 1, high)
    return low


def _distribution(mechanism, value):
    """Exact weights of the codes for one answer, in units of 2^-80."""
    weights, domain = mechanism.table.weights, mechanism.domain
    if value is None:
        return [w << 32 for w in weights[-1]]
    width = Fraction(domain.upper) - Fraction(domain.lower)
    position = (Fraction(value) - Fraction(domain.lower)) / width * domain.last
    below = max(i for i, anchor in enumerate(domain.anchors[:-1]) if anchor <= position)
    gap = domain.anchors[below + 1] - domain.anchors[below]
    words = _words_to_the_upper_anchor(domain, value, below)
    # Rounding may move the threshold by a few words, where the range is far from zero.
    ulps = max(abs(domain.lower), abs(domain.upper)) / (domain.upper - domain.lower) * domain.last
    assert abs(words - (position - domain.anchors[below]) / gap * 2**32) <= 2 + 2**32 * ulps * 2**-50
    pairs = zip(weights[below], weights[below + 1], strict=True)
    return [low * (2**32 - words) + high * words for low, high in pairs]


RANGES = [(-1.0, 1.0), (17.0, 90.0), (0.1, 0.3), (1e6, 1e6 + 1), (-1e-6, 1e9)]
NUMBERS = sorted(name for name, entry in CATALOGUE.items() if entry.domain == "range")


@pytest.mark.parametrize("name", [*NUMBERS, "uneven", "coin"])
@pytest.mark.parametrize(("lower", "upper"), RANGES)
def test_the_whole_distribution_of_any_number_stays_within_epsilon(name, lower, upper):
    if name in HANDMADE:
        made = HANDMADE[name]
        mechanism = type(made)(made.table, Range(lower, upper, made.domain.anchors))
        bound = {"uneven": UNEVEN_RATIO, "coin": COIN_RATIO}[name]
    else:
        mechanism = build(name, epsilon=1.0, lower=lower, upper=upper)
        bound = _exp_below(1.0)
    parts = (0.0, 1e-12, 0.05, 0.1, 0.25, 0.5, 1 / 3, 0.75, 0.9999999, 1.0)
    values = [min(upper, lower + (upper - lower) * part) for part in parts]
    values += [math.nextafter(lower, math.inf), math.nextafter(upper, -math.inf)]
    if mechanism.domain.refusal:
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


# --- The arithmetic of the catalogue's weights ------------------------------------------------------


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
