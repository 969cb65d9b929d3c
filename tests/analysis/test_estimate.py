"""From a tally to an estimate: the papers' closed forms, what is undefined, how it prints, as data."""

import copy
import json
import math
import pickle
import re
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import checks
import handmade
import numpy as np
import pandas as pd
import pytest
import strategies as own
from hypothesis import assume, given
from hypothesis import strategies as st

from bisample import (
    BiSample,
    ChoiceEstimate,
    DitheredResponse,
    Harmony,
    KRandomizedResponse,
    Mechanism,
    NumberEstimate,
    Options,
    ParameterError,
    PrivKV,
    RandomizedResponse,
    Range,
    ReportError,
    Table,
    ThreeState,
)
from bisample.analysis.estimate import normal_quantile
from bisample.catalogue import CATALOGUE

counts = st.integers(1, 10**6)


def _kinds():
    for name, entry in sorted(CATALOGUE.items()):
        if entry.domain == "range":
            yield pytest.param(lambda e, entry=entry: entry.builder(e, 10, 50), id=name)
        else:
            for size in [2] if name == "rr" else [2, 7]:
                yield pytest.param(
                    lambda e, entry=entry, size=size: entry.builder(e, range(size)), id=f"{name}-{size}"
                )
    yield pytest.param(checks.five_anchors, id="five anchors")
    yield pytest.param(lambda e: checks.five_anchors(e, anchors=(0, 1, 4, 9, 20)), id="uneven anchors")


every_kind = pytest.mark.parametrize("make", list(_kinds()))


def _of(mechanism, counts, **more):
    return mechanism.estimate(mechanism.tally_of(counts), **more)


def _close(found, expected, scale):
    assert abs(found - expected) <= 1e-12 * max(1, scale), (found, expected, scale)


@st.composite
def mechanisms_with_tally(draw, mechanisms=own.mechanisms, least=0):
    """A mechanism and a tally that fits it, however unlikely."""
    mechanism = draw(mechanisms)
    width = mechanism.table.width
    held = draw(st.lists(st.integers(least, 10**6), min_size=width, max_size=width))
    return mechanism, mechanism.tally_of(held)


# --- The papers' closed forms ---------------------------------------------------------------------


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=4, max_size=4))
def test_bisample_is_the_papers_closed_form(epsilon, tally):
    n0, n1 = tally[0] + tally[1], tally[2] + tally[3]
    negative, positive = tally[1] / n0, tally[3] / n1
    n = n0 + n1
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    c = 1 / (2 * p - 1)
    e = _of(BiSample(epsilon), tally)
    total = n * c * (positive - negative)  # s*
    missing = c * (1 - positive - negative)  # f_null*
    _close(e.total / n, total / n, c)
    _close(e.missing_rate, missing, c)
    _close(e.answer_rate, 1 - missing, c)
    v_plus, v_minus = positive * (1 - positive) / n1, negative * (1 - negative) / n0
    error = c * math.sqrt(v_plus + v_minus)
    _close(e.answer_rate_error, error, c)
    _close(e.missing_rate_error, error, c)
    _close(e.total_error / n, error, c)
    denominator = positive + negative + 2 * p - 2
    if denominator * c <= 1e-9:
        assume(denominator * c < -1e-9)
        assert e.mean is None
        return
    m = (positive - negative) / denominator
    scale = c * (1 + abs(m)) / (denominator * c)
    _close(e.mean, m, scale)
    _close(
        e.mean_error,
        c * math.sqrt((1 - m) ** 2 * v_plus + (1 + m) ** 2 * v_minus) / (denominator * c),
        scale * (1 + abs(m)),
    )


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=2, max_size=2))
def test_randomized_response_is_the_papers_closed_form(epsilon, tally):
    n, p = sum(tally), math.exp(epsilon) / (math.exp(epsilon) + 1)
    f = tally[1] / n
    e = _of(RandomizedResponse(epsilon), tally)
    c = 1 / (2 * p - 1)
    _close(e.proportions["true"], (p - 1 + f) / (2 * p - 1), c)
    _close(e.proportions["false"], 1 - (p - 1 + f) / (2 * p - 1), c)
    for option in ("true", "false"):
        _close(e.proportions_error[option], c * math.sqrt(f * (1 - f) / n), c)
    assert (e.answer_rate, e.answer_rate_error, e.missing_rate) == (1, 0, 0)
    assert e.answer_rate_interval == (1, 1)
    assert e.missing_rate_interval == (0, 0)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=3, max_size=12))
def test_k_randomized_response_is_its_closed_form(epsilon, tally):
    options = len(tally) - 1
    n, grown = sum(tally), math.exp(epsilon)
    f = np.array(tally) / n
    shares = (f * (grown + options) - 1) / (grown - 1)
    scale = (grown + options) / (grown - 1)
    e = _of(KRandomizedResponse(epsilon, range(options)), tally)
    _close(e.missing_rate, shares[-1], scale)
    _close(e.missing_rate_error, scale * math.sqrt(f[-1] * (1 - f[-1]) / n), scale)
    rate = 1 - shares[-1]
    assume(abs(rate) >= 1e-9)
    for i in range(options):
        if rate <= 0:
            assert e.proportions[str(i)] is None
            continue
        r = shares[i] / rate
        _close(e.proportions[str(i)], r, scale * (1 + abs(r)) / rate)
        # the variance of sum (1{i} - r 1{answered}) of the codes
        g = np.append(-r * np.ones(options), 0)
        g[i] += 1
        error = scale * math.sqrt(max(0, (g * g) @ f - (g @ f) ** 2) / n) / rate
        assert math.isclose(e.proportions_error[str(i)], error, rel_tol=1e-7, abs_tol=1e-9 * scale / rate)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=2, max_size=2), span=own.ranges())
def test_harmony_is_the_mean_of_its_reports(epsilon, tally, span):
    lower, upper = span
    n, c = sum(tally), 1 / math.tanh(epsilon / 2)
    f = tally[1] / n
    e = _of(Harmony(epsilon, lower, upper), tally)
    half = (upper - lower) / 2
    size = c * half + abs(lower) + abs(upper)
    mean = (lower + upper) / 2 + half * c * (2 * f - 1)
    error = half * c * 2 * math.sqrt(f * (1 - f) / n)
    _close(e.mean, mean, size)
    _close(e.mean_error, error, size)
    _close(e.total / n, mean, size)
    _close(e.total_error / n, error, size)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=3, max_size=3))
def test_three_state_and_privkv_are_their_closed_forms(epsilon, tally):
    n, grown = sum(tally), math.exp(epsilon)
    f = np.array(tally) / n
    e = _of(ThreeState(epsilon), tally)
    scale = (grown + 2) / (grown - 1)
    _close(e.total / n, scale * (f[1] - f[0]), scale)
    _close(e.missing_rate, (f[2] * (grown + 2) - 1) / (grown - 1), scale)
    root = math.exp(epsilon / 2)
    p = root / (root + 1)
    e = _of(PrivKV(epsilon), tally)
    c = 1 / (2 * p - 1)
    _close(e.answer_rate, (f[1] + f[2] + p - 1) * c, c)
    _close(e.total / n, (f[2] - f[1]) * c / p, c * c)
    _close(e.answer_rate_error, c * math.sqrt(f[0] * (1 - f[0]) / n), c)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("name", sorted(set(CATALOGUE) - {"dithered", "focused"}))
def test_estimates_and_errors_are_a_second_implementations(name, epsilon):
    """200 tallies of 50 to 10^9 people, any counts: the twin of checks.py, by pseudo-inverse and einsum."""
    m = checks.make(CATALOGUE[name], epsilon)
    rng = np.random.default_rng(11)
    sizes = np.repeat([50, 1_000, 10**6, 10**9], 50)
    tallies = np.array([rng.multinomial(n, rng.dirichlet(np.ones(m.table.width) * 3)) for n in sizes])
    tallies = tallies[np.add.reduceat(tallies, np.cumsum((0, *m.table.blocks[:-1])), axis=1).min(axis=1) > 0]
    twin = checks.Twin(m)
    found, errors = checks.estimated(m, [m.tally_of(tally) for tally in tallies])
    defined = np.array([value is not None for value in found[:, -1]])
    assert defined.sum() >= 80
    expected, expected_errors = twin.estimates(tallies), twin.errors(tallies)
    assert ((expected_errors > 0).all(axis=1) | (not m.domain.refusal)).all()
    rates = expected[:, checks.column_names(m).index("answer_rate")]
    assert (defined == (rates > 0)).all()
    for mine, theirs in ((found, expected), (errors, expected_errors)):
        np.testing.assert_allclose(
            mine[defined].astype(float), theirs[defined], rtol=1e-7, atol=1e-9 * np.abs(expected).max()
        )


# --- Expectations -----------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 8.0])
def test_a_tally_like_a_row_of_the_table_gives_that_row(make, epsilon):
    """2^47 reports in the proportions of a row: the expectation of people who all hold it, without noise."""
    mechanism = make(epsilon)
    domain = mechanism.domain
    tallies = [mechanism.tally_of([w // 2 for w in weights]) for weights in mechanism.table.weights]
    for i, e in enumerate(mechanism.estimates(tallies)):
        refused = domain.refusal and i == domain.height - 1
        assert math.isclose(e.missing_rate, refused, abs_tol=1e-9 / epsilon)
        if refused:
            continue
        if checks.numeric(mechanism):
            value = 10 + 40 * domain.anchors[i] / domain.anchors[-1]
            assert math.isclose(e.mean, value, abs_tol=1e-7 / epsilon)
            assert math.isclose(e.total, e.n * value, rel_tol=1e-8 / epsilon)
        else:
            shares = list(e.proportions.values())
            assert np.allclose(shares, np.eye(len(shares))[i], atol=1e-8 / epsilon)


@every_kind
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_an_estimates_error_is_the_theoretical_one(make, epsilon):
    """On a tally that is its own expectation, n times the squared errors are the variances."""
    mechanism = make(epsilon)
    domain, table = mechanism.domain, mechanism.table
    number = checks.numeric(mechanism)
    rate = 0.6 if domain.refusal else 1.0
    held = [10 + 40 * a / domain.anchors[-1] for a in domain.anchors] if number else list(domain.options)
    held = [*held, held[0]]  # not all alike
    part = np.zeros(domain.height)
    for value in held:
        part[held.index(value)] += rate / len(held)
    if domain.refusal:
        part[-1] = 1 - rate
    n = 10**14
    e = _of(mechanism, np.round(part @ table.matrix * n).astype(np.int64))
    v = mechanism.variance(held, answer_rate=rate)
    # Where a table leaves a choice, it is made at a first estimate that is good, not perfect.
    close = 1e-5 if table.width - np.linalg.matrix_rank(table.matrix) < len(table.blocks) else 3e-3
    assert math.isclose(e.n * e.answer_rate_error**2, v.answer_rate, rel_tol=close, abs_tol=1e-12)
    assert math.isclose(e.answer_rate, rate, rel_tol=1e-5)
    if number:
        assert math.isclose(e.mean, np.mean(held), rel_tol=1e-5)
        assert math.isclose(e.n * e.mean_error**2, v.mean, rel_tol=close)
        assert math.isclose(e.total_error**2 / e.n, v.total, rel_tol=close)
    else:
        for option in domain.options:
            assert math.isclose(e.n * e.proportions_error[option] ** 2, v.proportions[option], rel_tol=1e-5)


# --- Any tally --------------------------------------------------------------------------------------------


@given(case=mechanisms_with_tally(), level=st.floats(0.01, 0.999))
def test_any_tally_gives_finite_numbers_or_says_why_not(case, level):
    mechanism, tally = case
    domain = mechanism.domain
    e = mechanism.estimate(tally, level=level)
    data = json.loads(e.to_json(), parse_constant=pytest.fail)
    assert data["n"] == tally.n
    assert data["mechanism"] == mechanism.name
    assert data["epsilon"] == mechanism.epsilon_upper
    assert data["level"] == level
    assert str(e).count("\n") >= 3
    low, high = e.answer_rate_interval
    assert 0 <= low <= high <= 1
    assert e.missing_rate_interval == pytest.approx((1 - high, 1 - low))
    for name in ("answer_rate", "missing_rate"):
        assert (getattr(e, name) is None) == (name in e.undefined)
    if checks.numeric(mechanism):
        assert domain.lower <= e.mean_interval[0] <= e.mean_interval[1] <= domain.upper
        for name in ("mean", "total"):
            value, error = getattr(e, name), getattr(e, f"{name}_error")
            assert (value is None) == (error is None) == (name in e.undefined)
        least, most = e.n * min(0, domain.lower), e.n * max(0, domain.upper)
        slack = 1e-9 * (most - least)
        assert least - slack <= e.total_interval[0] <= e.total_interval[1] <= most + slack
    else:
        values = list(e.proportions.values())
        assert list(e.proportions) == list(domain.options)
        assert (None in values) == ("proportions" in e.undefined)
        if None not in values:
            assert math.isclose(sum(values), 1, abs_tol=1e-6 * max(map(abs, values)))
        assert all(0 <= low <= high <= 1 for low, high in e.proportions_interval.values())


@given(case=mechanisms_with_tally())
def test_projected_estimates_are_possible_and_possible_ones_stay(case):
    mechanism, tally = case
    raw = mechanism.estimate(tally)
    e = raw.projected()
    bounds = {"answer_rate": (0, 1), "missing_rate": (0, 1)}
    if checks.numeric(mechanism):
        domain = mechanism.domain
        bounds["mean"] = (domain.lower, domain.upper)
        ends = [domain.lower, domain.upper, *[0.0] * domain.refusal]
        bounds["total"] = (raw.n * min(ends), raw.n * max(ends))
        assert (e.mean_interval, e.mean_error) == (raw.mean_interval, raw.mean_error)
    elif None not in e.proportions.values():
        values = np.array(list(e.proportions.values()))
        assert (values >= 0).all()
        assert math.isclose(values.sum(), 1, abs_tol=1e-9)
    for name, (low, high) in bounds.items():
        value, before = getattr(e, name), getattr(raw, name)
        assert (value is None) == (before is None)
        assert value is None or low <= value <= high
        if name == "total" and None not in (e.mean, e.answer_rate, before):
            # All three are possible together, which they may not be where each is moved by itself.
            assert math.isclose(
                value, e.n * e.mean * e.answer_rate, rel_tol=1e-9, abs_tol=1e-9 * (high - low)
            )
            continue
        assert value == before or not low <= before <= high
    assert e.undefined == raw.undefined


@given(
    case=mechanisms_with_tally(own.choice_mechanisms(), least=1),
    other=st.lists(st.floats(0.001, 1), min_size=9, max_size=9),
)
def test_no_possible_proportions_are_nearer_than_the_projected(case, other):
    mechanism, tally = case
    e = mechanism.estimate(tally)
    assume(None not in e.proportions.values())
    raw = np.array(list(e.proportions.values()))
    projected = np.array(list(e.projected().proportions.values()))
    possible = np.array(other[: len(raw)]) / sum(other[: len(raw)])
    size = max(1, np.abs(raw).max())
    assert np.linalg.norm((raw - projected) / size) <= np.linalg.norm((raw - possible) / size) + 1e-9
    for corner in np.eye(len(raw)):
        assert np.linalg.norm((raw - projected) / size) <= np.linalg.norm((raw - corner) / size) + 1e-9


@every_kind
def test_many_at_once_are_what_they_are_one_by_one(make):
    """Tallies of 0 to a million reports, with empty codes and empty blocks among them."""
    mechanism = make(1.0)
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(mechanism.domain.height)) @ mechanism.table.matrix
    held = [rng.multinomial(n, shares) for n in (0, 1, 2, 5, 20, 100, 1_000, 10**6) for _ in range(3)]
    tallies = [mechanism.tally_of(c, {"group": str(i)}) for i, c in enumerate(held)]
    names = [f"q{i}" for i in range(len(tallies))]
    together = mechanism.estimates(tallies, level=0.9, questions=names)
    for tally, name, e in zip(tallies, names, together, strict=True):
        alone = mechanism.estimate(tally, level=0.9, question=name)
        assert (e.n, e.level, e.question, e.subject) == (tally.n, 0.9, name, tally.subject)
        assert e.undefined == alone.undefined
        # The search for an end of an interval stops 10^-7 of the range before the range's own end, and
        # takes that end then: on which side of it a rounding falls is chance.
        near = 2e-7 * 50 * max(1, e.n)
        for (column, value), other in zip(e.to_row().items(), alone.to_row().values(), strict=True):
            if isinstance(value, float):
                assert math.isclose(value, other, rel_tol=1e-6, abs_tol=near), column
            else:
                assert value == other, column
    assert mechanism.estimates([]) == []
    assert len(mechanism.estimates(iter(tallies))) == len(tallies)


def test_there_are_as_many_questions_as_tallies():
    m = BiSample(1.0)
    with pytest.raises(ParameterError, match="questions must be as many as tallies, 2, not 1"):
        m.estimates([m.tally([0]), m.tally([1])], questions=["age"])


# --- What is no tally ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_instead", [[300, 200, 260, 240], np.array([0, 3, 3]), b"\0\3", None, 7, {"counts": [1]}], ids=repr
)
def test_only_a_tally_is_estimated_and_the_refusal_names_both_calls(given_instead):
    m = BiSample(1.0)
    for ask in (m.estimate, lambda given: m.estimates([given])):
        with pytest.raises(ReportError) as refused:
            ask(given_instead)
        said = str(refused.value)
        assert f"not a {type(given_instead).__name__}" in said
        assert "m.estimate(m.tally(reports)) if these are reports" in said
        assert "m.estimate(m.tally_of(counts)) if these are counts" in said


@pytest.mark.parametrize("level", [0, 1, -1, 2, math.nan, math.inf, None, "0.95", True, 1j, [0.9], b"1"])
def test_a_level_is_between_0_and_1(level):
    for mechanism in (BiSample(1.0), RandomizedResponse(1.0)):
        with pytest.raises(ParameterError, match=r"level must be between 0 and 1, for example 0\.95"):
            _of(mechanism, [10] * mechanism.table.width, level=level)


def test_a_level_of_any_kind_of_number_is_a_float():
    for level in (Fraction(9, 10), Decimal("0.9"), np.float32(0.9)):
        e = _of(BiSample(1.0), [9, 8, 7, 6], level=level)
        assert json.loads(e.to_json())["level"] == pytest.approx(0.9)


def test_the_quantile_of_a_level():
    assert math.isclose(normal_quantile(0.95), 1.959963984540054, rel_tol=1e-14)
    for level in (1e-9, 0.5, 1 - 1e-12, math.nextafter(1, 0)):
        assert math.isclose(math.erfc(normal_quantile(level) / math.sqrt(2)), 1 - level, rel_tol=1e-9)


# --- What is undefined ----------------------------------------------------------------------------------


@every_kind
def test_without_reports_all_is_undefined_and_says_so(make):
    mechanism = make(1.0)
    e = mechanism.estimate(mechanism.tally([]))
    assert e.n == 0
    assert e.answer_rate is e.missing_rate is e.answer_rate_error is None
    assert e.answer_rate_interval == e.missing_rate_interval == (0, 1)
    assert set(e.undefined.values()) == {"there are no reports"}
    if checks.numeric(mechanism):
        assert e.mean is e.total is e.mean_error is e.total_error is None
        assert e.mean_interval == (10, 50)
        assert e.total_interval == (0, 0)
        assert set(e.undefined) == {"answer_rate", "missing_rate", "mean", "total"}
    else:
        assert set(e.proportions.values()) == set(e.proportions_error.values()) == {None}
        assert set(e.proportions_interval.values()) == {(0, 1)}
    assert "0 reports" in str(e)
    assert str(e).count("undefined") >= 3
    assert e.projected() == e


@pytest.mark.parametrize(("lower", "upper"), [(10, 50), (1e-6, 2e-6), (-1e20, 1e20), (1e6, 1e6 + 1)])
@pytest.mark.parametrize("tally", [[0, 0, 40, 60], [60, 40, 0, 0], [0, 0, 0, 1]])
def test_bisample_with_nobody_in_one_direction_says_how_many_would_do(tally, lower, upper):
    e = _of(BiSample(1.0, lower, upper), tally)
    assert e.mean is e.total is e.answer_rate is e.missing_rate is None
    assert set(e.undefined) == {"answer_rate", "missing_rate", "mean", "total"}
    (why,) = set(e.undefined.values())
    assert re.fullmatch(r"too few reports: some \d[\d,]* would do if half of the people answer", why)
    assert e.mean_interval == (lower, upper)
    assert e.n == sum(tally)


def test_one_direction_alone_tells_a_sum_to_which_the_other_end_adds_nothing():
    """From 0 to 8, s = 1 tells how many are at 8, and whoever is at 0 or declines adds nothing."""
    e = _of(BiSample(1.0, 0, 8), [0, 0, 40, 60])
    p = math.e / (1 + math.e)
    assert e.total == pytest.approx(100 * 8 * (0.6 - (1 - p)) / (2 * p - 1))
    assert set(e.undefined) == {"mean", "answer_rate", "missing_rate"}


@every_kind
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 10.0])
def test_as_many_reports_as_are_said_to_do_would_do(make, epsilon):
    """100 tallies of so many people, half of whom answer: all is estimated in 99 or more of them."""
    mechanism = make(epsilon)
    alone = mechanism.estimates([mechanism.tally([code]) for code in range(mechanism.table.width)])
    e = next((e for e in alone if e.undefined), None)
    if e is None:
        assert mechanism.name in {"harmony", "rr"}  # a single report tells enough
        return
    found = re.search(r"some ([\d,]+) would do", next(iter(e.undefined.values())))
    enough = int(found[1].replace(",", ""))
    rate = 0.5 if mechanism.domain.refusal else 1.0
    answered = mechanism.domain.height - mechanism.domain.refusal
    shares = np.append(np.full(answered, rate / answered), [1 - rate] * mechanism.domain.refusal)
    tallies = np.random.default_rng(3).multinomial(enough, shares @ mechanism.table.matrix, size=100)
    estimates = mechanism.estimates([mechanism.tally_of(tally) for tally in tallies])
    assert sum(not e.undefined for e in estimates) >= 99
    assert len(str(e)) < 1_000  # no list of codes


@pytest.mark.parametrize(
    "mechanism",
    [
        handmade.FRUIT,  # fewer codes than rows
        Mechanism(Table([[2**47, 2**47]] * 2), Range(0, 1, refusal=False)),
        Mechanism(Table([[2**47, 2**47]] * 3), Range(0, 1)),
        Mechanism(Table([[2**47, 2**47]] * 2), Options(["a", "b"], refusal=False)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [1, 10**6])
def test_a_table_that_does_not_tell_answers_apart_says_so_and_promises_nothing(mechanism, n):
    e = _of(mechanism, [n, 2 * n])
    what = "mean" if checks.numeric(mechanism) else "proportions"
    assert e.undefined[what] == "this table does not tell, however many reports there are"
    assert "would do" not in str(e)


@every_kind
def test_all_missing_is_a_rate_of_one_and_no_mean_worth_the_name(make):
    mechanism = make(4.0)
    if not mechanism.domain.refusal:
        assert mechanism.name in {"harmony", "rr"}
        return
    e = _of(mechanism, [w >> 26 for w in mechanism.table.weights[-1]])
    assert abs(e.missing_rate - 1) < 0.01
    assert e.missing_rate_interval[1] > 0.999
    if checks.numeric(mechanism):
        # Nearly the whole range is the honest answer, or the mean is undefined.
        assert e.mean is None or e.mean_interval[1] - e.mean_interval[0] > 30


def test_an_answer_rate_that_is_not_positive_leaves_only_the_mean_undefined():
    e = _of(BiSample(2.0, 10, 50), [950, 50, 950, 50])
    assert e.answer_rate < 0
    assert e.mean is e.mean_error is None
    assert e.mean_interval == (10, 50)
    assert set(e.undefined) == {"mean"}
    assert e.undefined["mean"].startswith("the estimated answer rate is not above 0: ")
    assert e.total is not None
    choice = _of(KRandomizedResponse(2.0, ["a", "b"]), [10, 10, 980])
    assert set(choice.undefined) == {"proportions"}
    assert choice.proportions == {"a": None, "b": None}
    assert choice.proportions_interval == {"a": (0, 1), "b": (0, 1)}
    assert choice.projected().proportions == choice.proportions


def test_a_code_that_nobody_sent_does_not_make_an_estimate_certain():
    for mechanism, tally in (
        (BiSample(1.0), [50, 0, 0, 50]),
        (Harmony(1.0), [0, 50]),
        (ThreeState(1.0), [0, 50, 0]),
        (RandomizedResponse(1.0), [0, 50]),
    ):
        e = _of(mechanism, tally)
        error = e.proportions_error["true"] if isinstance(e, ChoiceEstimate) else e.mean_error
        assert error > 0.05


# --- How it prints ------------------------------------------------------------------------------------


def test_an_estimate_prints_as_a_person_would_read_it():
    text = str(_of(BiSample(1.0, 17, 90), [300, 200, 260, 240]))
    heading, mean, total, rate, missing = text.split("\n")
    assert heading == "bisample, epsilon = 1, 1,000 reports"
    assert re.fullmatch(
        r"  mean of those who answer    62\.04 \+- 3\.41 \(95% interval 5\d\.\d\d to 6\d\.\d\d\)", mean
    )
    assert total.startswith("  sum of all answers          45,926 +- 4,425 (95% interval 3")
    assert rate.startswith("  answer rate                 74.0% +- 6.8% (95% interval 6")
    assert missing.startswith("  missing rate                26.0% +- 6.8% (95% interval 1")
    choice = str(_of(KRandomizedResponse(2.0, ["tea", "coffee"]), [550, 300, 150], level=0.9))
    assert choice.startswith(
        "k-rr, epsilon = 2, 1,000 reports\n  tea                         69.6% +- 2.2% (90%"
    )


def test_one_report_is_not_one_reports():
    assert "1 report\n" in str(_of(BiSample(1.0), [1, 0, 0, 0]))


@pytest.mark.parametrize(
    ("lower", "upper", "reports", "mean"),
    [
        (0, 1e20, 1_000, "6.169e+19 +- 4.68e+18"),
        (0, 1e20, 10**8, "6.16919e+19 +- 1.48e+16"),
        (-1e20, 1e20, 1_000, "2.338e+19 +- 9.35e+18"),
        (0, 0.00001, 1_000, "0.000006169 +- 0.000000468"),
        (0, 0.00001, 10**8, "6.16919e-06 +- 1.48e-09"),
        (0, 1, 1_000, "0.6169 +- 0.0468"),
        (0, 1e6, 1_000, "616,919 +- 46,762"),
        (1_000_000, 1_000_001, 1_000, "1,000,000.6169 +- 0.0468"),
        (-1e-6, 1e-6, 1_000, "2.338e-07 +- 9.35e-08"),
    ],
)
def test_very_large_and_very_small_ranges_print_well(lower, upper, reports, mean):
    e = _of(BiSample(1.0, lower, upper), np.array([300, 200, 260, 240]) * (reports // 1_000))
    line = str(e).split("\n")[1]
    assert f"  {mean} (" in line
    assert all(len(line) < 120 for line in str(e).split("\n"))
    # What is printed is the number, to a hundredth of the error.
    shown = [float(part.replace(",", "")) for part in re.split(r" \+- | \(", line.split("answer ")[1])[:2]]
    assert abs(shown[0] - e.mean) <= 0.01 * e.mean_error
    assert math.isclose(shown[1], e.mean_error, rel_tol=0.01)


def test_a_small_error_of_a_rate_does_not_print_as_none():
    e = _of(BiSample(1.0), np.array([300, 200, 260, 240]) * 10**5)
    assert "74.03% +- 0.02% (95% interval 73.99% to 74.07%)" in str(e)
    assert "100.0% +- 0.0% (95% interval 100.0% to 100.0%)" in str(_of(Harmony(1.0), [4, 9]))


def test_a_value_outside_of_what_is_possible_is_called_so():
    e = _of(BiSample(1.0, 0, 1), [500, 0, 0, 500])
    assert e.mean > 1
    assert "the raw estimate lies outside what is possible" in str(e).split("\n")[1]
    assert "outside" not in str(_of(BiSample(1.0, 0, 1), [300, 200, 260, 240]))
    assert "outside" not in str(e.projected())


def test_html_is_the_same_text_with_its_signs_escaped():
    m = KRandomizedResponse(1.0, ["<b>tea</b>", "coffee & milk"])
    e = m.estimate(m.tally_of([50, 60, 70], {"country": "<i>"}), question='"why"')
    html = e._repr_html_()
    assert html.startswith("<pre>&quot;why&quot;: k-rr")
    assert html.endswith("</pre>")
    assert "&lt;b&gt;tea&lt;/b&gt;" in html
    assert "coffee &amp; milk" in html
    assert "country = &lt;i&gt;" in html
    assert not re.search("<(?!/?pre>)", html)
    assert repr(e) == str(e)


def test_questions_and_subjects_are_named():
    for mechanism, held in (
        (BiSample(1.0), [30, 20, 26, 24]),
        (KRandomizedResponse(1.0, ["a", "b"]), [5, 6, 7]),
    ):
        tally = mechanism.tally_of(held, {"country": "CN", "arm": "1"})
        e = mechanism.estimate(tally, question="age")
        assert str(e).startswith(
            f"age: {mechanism.name}, epsilon = 1, country = CN, arm = 1, {sum(held)} reports"
        )
        assert "age" not in str(mechanism.estimate(tally)).split("\n")[0]
        asked = mechanism.tally_of(held, {"question": "age", "arm": "1"})
        assert mechanism.estimate(asked).question == "age"
        assert str(mechanism.estimate(asked)).startswith(f"age: {mechanism.name}, epsilon = 1, arm = 1, ")
        assert mechanism.estimate(asked, question="years").question == "years"


# --- As data ------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("empty", [False, True])
def test_an_estimate_survives_json(make, empty):
    mechanism = make(1.0)
    held = [0 if empty else 100 + c for c in range(mechanism.table.width)]
    e = mechanism.estimate(mechanism.tally_of(held, {"country": "CN"}), question="age")
    data = json.loads(e.to_json(), parse_constant=pytest.fail)
    assert json.loads(e.to_json(indent=None)) == data
    assert "\n" not in e.to_json(indent=None)
    assert data["subject"] == {"country": "CN"}
    assert data["undefined"] == dict(e.undefined)
    for name in ("n", "epsilon", "level", "question", "answer_rate", "answer_rate_error", "missing_rate"):
        assert data[name] == getattr(e, name)
    assert data["answer_rate_interval"] == list(e.answer_rate_interval)
    if isinstance(e, NumberEstimate):
        for name in ("mean", "mean_error", "total", "total_error"):
            assert data[name] == getattr(e, name)
        assert data["mean_interval"] == list(e.mean_interval)
        assert (data["lower"], data["upper"]) == (10, 50)
        assert set(data) == set(vars(e))
    else:
        assert data["proportions"] == dict(e.proportions)
        assert data["proportions_interval"] == {o: list(i) for o, i in e.proportions_interval.items()}
        assert list(data["proportions"]) == list(mechanism.domain.options)


def test_json_holds_no_number_that_json_has_not():
    from dataclasses import replace

    with pytest.raises(ValueError, match="JSON"):
        replace(_of(BiSample(1.0), [9, 8, 7, 6]), mean=math.nan).to_json()


def test_rows_make_a_dataframe():
    m = BiSample(1.0, 17, 90)
    held = {"CN": [300, 200, 260, 240], "NZ": [0, 0, 0, 0]}
    rows = [m.estimate(m.tally_of(c, {"country": name})).to_row() for name, c in held.items()]
    frame = pd.DataFrame(rows).set_index("country")
    assert frame.loc["CN", "mean"] == pytest.approx(62.035, abs=1e-3)
    assert frame.loc["CN", "mean_low"] < frame.loc["CN", "mean"] < frame.loc["CN", "mean_high"]
    assert frame.loc["CN", "undefined"] == ""
    assert frame.loc["NZ", "undefined"] == "there are no reports"  # once, not once a field
    assert math.isnan(frame.loc["NZ", "mean"])
    assert all(not isinstance(value, (dict, list, tuple)) for row in rows for value in row.values())


def test_rows_of_a_choice_have_columns_for_each_option():
    m = KRandomizedResponse(2.0, ["tea", "coffee"])
    e = _of(m, [550, 300, 150])
    row = e.to_row()
    for option in ("tea", "coffee"):
        assert row[f"proportion_{option}"] == e.proportions[option]
        assert row[f"proportion_{option}_error"] == e.proportions_error[option]
        low_and_high = (row[f"proportion_{option}_low"], row[f"proportion_{option}_high"])
        assert low_and_high == e.proportions_interval[option]


def test_a_subjects_name_never_takes_the_column_of_a_number():
    m = BiSample(1.0)
    row = m.estimate(m.tally_of([9, 8, 7, 6], {"n": "north", "mean": "x", "question": "age"})).to_row()
    assert (row["n"], row["subject_n"], row["subject_mean"], row["question"]) == (30, "north", "x", "age")
    assert isinstance(row["mean"], float)
    assert "subject_question" not in row


def test_an_estimate_cannot_be_changed():
    m = KRandomizedResponse(2.0, ["tea", "coffee"])
    e = m.estimate(m.tally_of([550, 300, 150], {"country": "CN"}))
    with pytest.raises(FrozenInstanceError):
        e.n = 7
    for mapping in (e.proportions, e.proportions_error, e.proportions_interval, e.undefined, e.subject):
        with pytest.raises(TypeError):
            mapping["tea"] = 1
    assert e.to_dict()["proportions"] is not e.proportions


@every_kind
def test_estimates_come_back_from_other_processes(make):
    m = make(1.0)
    e = m.estimate(m.tally_of(range(5, 5 + m.table.width), {"country": "CN"}))
    for again in (pickle.loads(pickle.dumps(e)), copy.deepcopy(e)):
        assert again == e
        assert type(again) is type(e)
        assert str(again) == str(e)


def test_little_data_of_many_codes_gives_finite_numbers_or_says_why_not():
    rng = np.random.default_rng(1)
    for epsilon in (0.1, 1.0, 4.0, 8.0):
        m = DitheredResponse(epsilon, lower=17, upper=90)
        width = m.table.width
        held = [np.eye(width, dtype=int)[0], np.ones(width, dtype=int), 10**9 * np.eye(width, dtype=int)[-1]]
        held += [rng.multinomial(n, np.full(width, 1 / width)) for n in (2, 5, 20, 100)]
        held += [rng.multinomial(n, m.table.matrix[row]) for n in (10, 1000, 10**6) for row in (0, 1, -2, -1)]
        for e in m.estimates([m.tally_of(c) for c in held]):
            assert (e.mean is None) == ("mean" in e.undefined)
            assert e.mean is None or math.isfinite(e.mean)
            for name in ("answer_rate", "total"):
                value, error = getattr(e, name), getattr(e, f"{name}_error")
                assert (value is None) == (name in e.undefined)
                assert value is None or (math.isfinite(value) and math.isfinite(error) and error > 0)


@pytest.mark.parametrize("tallies", [3, None, BiSample(1).tally_of([5, 6, 7, 8])])
def test_estimates_of_what_is_no_list_of_tallies_says_so(tallies):
    with pytest.raises(ReportError, match="takes a list of tallies"):
        BiSample(1).estimates(tallies)


def test_a_row_has_the_subjects_columns_once_and_nothing_else():
    m = KRandomizedResponse(1, ["a", "b"])
    row = m.estimate(m.tally_of([30, 40, 50], {"country": "CN"}), question="q").to_row()
    rates = [
        f"{name}{part}"
        for name in ("answer_rate", "missing_rate")
        for part in ("", "_error", "_low", "_high")
    ]
    options = [f"proportion_{o}{part}" for o in "ab" for part in ("", "_error", "_low", "_high")]
    said = ["mechanism", "epsilon", "n", "level", "question", "undefined", "warnings"]
    assert sorted(row) == sorted(["country", *said, *rates, *options])


def test_several_reasons_and_warnings_are_told_apart_in_a_row():
    m = BiSample(1)
    row = m.estimate(m.tally_of([0, 0, 500, 500])).to_row()
    assert "coin" in row["warnings"]
    assert row["undefined"].count("; ") == 0  # one reason, though four fields have it
    none = m.estimate(m.tally_of([900, 0, 900, 0])).to_row()
    assert "not above 0" in none["undefined"]


def test_a_projected_sum_without_a_mean_is_one_that_is_possible():
    m = BiSample(1, 5, 10)
    raw = m.estimate(m.tally_of([900, 0, 900, 0]))
    assert raw.mean is None
    assert raw.total < 0
    assert raw.projected().total == 0  # people who decline add nothing, though no answer is below 5
