"""From a tally to an estimate: the papers' closed forms, what is undefined, JSON, variances, plans."""

import json
import math

import numpy as np
import pytest
import strategies as own
from hypothesis import assume, given
from hypothesis import strategies as st
from manyanchors import FiveAnchors

from bisample import (
    BiSample,
    Harmony,
    KRandomizedResponse,
    NumberMechanism,
    ParameterError,
    PrivKV,
    RandomizedResponse,
    Table,
    ThreeState,
)
from bisample.estimate import estimate_number, normal_quantile, number_targets
from bisample.exact import TOTAL, response_weights, share
from bisample.mechanism import registered
from bisample.plan import assign_questions, plan_questions
from bisample.solve import solve, variances

counts = st.integers(1, 10**6)


def _kinds():
    for name, kind in sorted(registered().items()):
        if issubclass(kind, NumberMechanism):
            yield pytest.param(lambda e, kind=kind: kind(e, 10, 50), id=name)
        else:
            for size in [2] if name == "rr" else [2, 7]:
                yield pytest.param(lambda e, kind=kind, size=size: kind(e, range(size)), id=f"{name}-{size}")
    yield pytest.param(lambda e: FiveAnchors(e, 10, 50), id="five anchors")


every_kind = pytest.mark.parametrize("make", list(_kinds()))


def _close(found, expected, scale):
    assert abs(found - expected) <= 1e-12 * max(1, scale), (found, expected, scale)


# --- The papers' closed forms ---------------------------------------------------------------------


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=4, max_size=4))
def test_bisample_is_the_papers_closed_form(epsilon, tally):
    n0, n1 = tally[0] + tally[1], tally[2] + tally[3]
    negative, positive = tally[1] / n0, tally[3] / n1
    n = n0 + n1
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    c = 1 / (2 * p - 1)
    mechanism = BiSample(epsilon)
    e = mechanism.estimate(tally)
    total = n * c * (positive - negative)  # s*
    missing = c * (1 - positive - negative)  # f_null*
    _close(e.total / n, total / n, c)
    _close(e.missing_rate, missing, c)
    _close(e.answer_rate, 1 - missing, c)
    v_plus, v_minus = positive * (1 - positive) / n1, negative * (1 - negative) / n0
    error = c * math.sqrt(v_plus + v_minus)
    _close(e.answer_rate_error, error, c)
    _close(e.total_error / n, error, c)
    denominator = positive + negative + 2 * p - 2
    if denominator * c <= 1e-9:
        assume(denominator * c < -1e-9)
        assert e.mean is None
        assert e.mean_interval == (-1, 1)
        return
    m = (positive - negative) / denominator
    scale = c * (1 + abs(m)) / (denominator * c)
    _close(e.mean, m, scale)
    _close(
        e.mean_error,
        c * math.sqrt((1 - m) ** 2 * v_plus + (1 + m) ** 2 * v_minus) / (denominator * c),
        scale * (1 + abs(m)),
    )
    _assert_fieller(e, c, positive - negative, denominator, v_plus, v_minus)


def _assert_fieller(e, c, difference, denominator, v_plus, v_minus):
    """{m : (S - mA)^2 <= z^2 (V_S - 2mC + m^2 V_A)} in [-1, 1], checked point by point."""
    z = normal_quantile(0.95)
    s, a = c * difference, c * denominator
    v, both = c * c * (v_plus + v_minus), c * c * (v_plus - v_minus)

    def margin(m):
        inside = z * z * (v - 2 * m * both + m * m * v) - (s - m * a) ** 2
        return inside / (z * z * v + s * s + a * a)

    low, high = e.mean_interval
    for m in np.linspace(-1, 1, 41):
        if margin(m) > 1e-9:
            assert low - 1e-6 <= m <= high + 1e-6
    if low > -1 + 1e-6:
        assert abs(margin(low)) < 1e-6
    if high < 1 - 1e-6:
        assert abs(margin(high)) < 1e-6


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=2, max_size=2))
def test_randomized_response_is_the_papers_closed_form(epsilon, tally):
    n, p = sum(tally), math.exp(epsilon) / (math.exp(epsilon) + 1)
    f = tally[1] / n
    e = RandomizedResponse(epsilon).estimate(tally)
    c = 1 / (2 * p - 1)
    _close(e.proportions[True], (p - 1 + f) / (2 * p - 1), c)
    _close(e.proportions[False], 1 - (p - 1 + f) / (2 * p - 1), c)
    for option in (True, False):
        _close(e.proportions_error[option], c * math.sqrt(f * (1 - f) / n), c)
    assert (e.answer_rate, e.answer_rate_error, e.missing_rate) == (1, 0, 0)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=3, max_size=12))
def test_k_randomized_response_is_its_closed_form(epsilon, tally):
    options = len(tally) - 1
    n, grown = sum(tally), math.exp(epsilon)
    f = np.array(tally) / n
    shares = (f * (grown + options) - 1) / (grown - 1)
    scale = (grown + options) / (grown - 1)
    e = KRandomizedResponse(epsilon, range(options)).estimate(tally)
    _close(e.missing_rate, shares[-1], scale)
    _close(e.missing_rate_error, scale * math.sqrt(f[-1] * (1 - f[-1]) / n), scale)
    rate = 1 - shares[-1]
    if abs(rate) < 1e-9:
        return
    for i in range(options):
        if rate <= 0:
            assert e.proportions[i] is None
            continue
        r = shares[i] / rate
        _close(e.proportions[i], r, scale * (1 + abs(r)) / rate)
        # the variance of sum (1{i} - r 1{answered}) of the codes
        g = np.append(-r * np.ones(options), 0)
        g[i] += 1
        error = scale * math.sqrt(max(0, (g * g) @ f - (g @ f) ** 2) / n) / rate
        assert math.isclose(e.proportions_error[i], error, rel_tol=1e-7, abs_tol=1e-9 * scale / rate)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=2, max_size=2), span=own.ranges())
def test_harmony_is_the_mean_of_its_reports(epsilon, tally, span):
    lower, upper = span
    n, c = sum(tally), 1 / math.tanh(epsilon / 2)
    f = tally[1] / n
    e = Harmony(epsilon, lower, upper).estimate(tally)
    half = (upper - lower) / 2
    size = c * half + abs(lower) + abs(upper)
    _close(e.mean, (lower + upper) / 2 + half * c * (2 * f - 1), size)
    _close(e.mean_error, half * c * 2 * math.sqrt(f * (1 - f) / n), size)
    _close(e.total / n, e.mean, size)


@given(epsilon=own.epsilons, tally=st.lists(counts, min_size=3, max_size=3))
def test_three_state_and_privkv_are_their_closed_forms(epsilon, tally):
    n, grown = sum(tally), math.exp(epsilon)
    f = np.array(tally) / n
    e = ThreeState(epsilon).estimate(tally)
    scale = (grown + 2) / (grown - 1)
    _close(e.total / n, scale * (f[1] - f[0]), scale)
    _close(e.missing_rate, (f[2] * (grown + 2) - 1) / (grown - 1), scale)
    root = math.exp(epsilon / 2)
    p = root / (root + 1)
    e = PrivKV(epsilon).estimate(tally)
    c = 1 / (2 * p - 1)
    _close(e.answer_rate, (f[1] + f[2] + p - 1) * c, c)
    _close(e.total / n, (f[2] - f[1]) * c / p, c * c)
    _close(e.answer_rate_error, c * math.sqrt(f[0] * (1 - f[0]) / n), c)


# --- The general estimator --------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, 8.0])
def test_a_tally_like_a_row_of_the_table_gives_that_row(make, epsilon):
    """A row sums to 2^48 reports: the expectation of people who all hold it, without any noise."""
    mechanism = make(epsilon)
    table = mechanism.table
    for i, weights in enumerate(table.weights):
        e = mechanism.estimate([w // 2 for w in weights])
        refused = table.refusal and i == len(table.rows) - 1
        assert math.isclose(e.missing_rate, refused, abs_tol=1e-9 / epsilon)
        if refused:
            continue
        if table.anchors:
            assert math.isclose(e.mean, 30 + 20 * table.anchors[i], abs_tol=1e-7 / epsilon)
            assert math.isclose(e.total, e.n * e.mean, rel_tol=1e-8 / epsilon)
        else:
            shares = list(e.proportions.values())
            assert np.allclose(shares, np.eye(len(shares))[i], atol=1e-8 / epsilon)


def _dithered(epsilon, steps, levels):
    """G_k: a public threshold u in `steps` steps, then (levels + 1)-ary randomized response of the level."""
    masses = share(TOTAL, steps)
    assert len(set(masses)) == 1
    truth, others = response_weights(masses[0], epsilon, levels + 1)
    anchors = steps * (levels - 1) + 1
    rows = []
    for i in range(anchors + 1):
        row = []
        for u in range(steps):
            j = levels if i == anchors else min((i + u) // steps, levels - 1)
            row += [*others[:j], truth, *others[j:]]
        rows.append(row)
    return Table(
        rows,
        rows=[str(i) for i in range(anchors + 1)],
        anchors=np.linspace(-1, 1, anchors),
        refusal=True,
        blocks=[levels + 1] * steps,
    )


@pytest.mark.parametrize(("steps", "levels"), [(2, 2), (4, 2), (8, 3), (16, 4)])
def test_with_more_codes_than_rows_the_estimate_is_still_unbiased(steps, levels):
    table = _dithered(2.0, steps, levels)
    targets = number_targets(table)
    for i, weights in enumerate(table.weights):
        solution = solve(table, [w // 2 for w in weights], targets)
        assert solution.known.all()
        expected = [table.anchors[i], 1] if i < len(table.anchors) else [0, 0]
        assert np.allclose(solution.values, expected, atol=1e-8)


@given(tally=st.lists(st.integers(0, 50), min_size=12, max_size=12))
def test_with_more_codes_than_rows_any_tally_gives_finite_numbers_or_says_why(tally):
    table = _dithered(1.0, 4, 2)
    e = estimate_number(table, tally, lower=-1, upper=1, level=0.95, mechanism="dithered", epsilon=1.0)
    json.dumps(e.to_dict(), allow_nan=False)
    assert (e.mean is None) == ("mean" in e.undefined)
    assert (e.total is None) == ("total" in e.undefined)


def test_least_variance_is_no_more_than_that_of_any_other_unbiased_weights():
    table = _dithered(1.0, 4, 2)
    rng = np.random.default_rng(1)
    targets = number_targets(table)
    matrix = table.matrix
    shares = rng.dirichlet(np.ones(len(table.rows)))
    best = np.diag(variances(table, shares, targets))
    sizes = np.array(table.blocks)
    block = np.repeat(np.arange(len(sizes)), sizes)
    q = shares @ matrix

    def variance(g):
        total = 0.0
        for u in range(len(sizes)):
            inside = block == u
            mass = q[inside].sum()
            part = q[inside] / mass
            total += mass * (g[inside] ** 2 @ part - (g[inside] @ part) ** 2)
        return total

    _, singular, right = np.linalg.svd(matrix)
    free = right[int((singular > 1e-9).sum()) :]
    assert len(free) > 0
    for t, target in enumerate(targets):
        base = np.linalg.pinv(matrix) @ target
        for _ in range(50):
            other = base + rng.normal(size=len(free)) @ free * rng.choice([0, 0.1, 1, 10])
            assert np.allclose(matrix @ other, target)
            assert variance(other) >= best[t] * (1 - 1e-9)


def test_the_dithered_response_reaches_its_published_variance():
    """V of mean and missing rate at A = 0.7, v ~ N(0.5, 0.1), in many steps."""
    for epsilon, levels, mean, rate in ((1.0, 2, 9.45, 1.43), (3.0, 3, 0.488, 0.092)):
        table = _dithered(epsilon, 32, levels)
        anchors = np.array(table.anchors)
        density = np.exp(-0.5 * ((anchors - 0.5) / 0.1) ** 2)
        shares = np.append(0.7 * density / density.sum(), 0.3)
        v = variances(table, shares, number_targets(table))
        m = 0.5
        ratio = np.array([1, -m]) / 0.7
        assert math.isclose(ratio @ v @ ratio - 0.01 / 0.7, mean, rel_tol=0.02)
        assert math.isclose(v[1, 1] - 0.21, rate, rel_tol=0.03)


def test_a_table_that_tells_nobody_apart_says_so():
    half = TOTAL // 2
    table = Table([[half, half], [half, half]], rows=("-1", "1"), anchors=(-1, 1))
    e = estimate_number(table, [3, 4], lower=-1, upper=1, level=0.95, mechanism="x", epsilon=1.0)
    assert e.mean is None
    assert "apart" in e.undefined["mean"]


# --- Tallies add up -------------------------------------------------------------------------------------


@given(data=st.data(), mechanism=own.mechanisms)
def test_tallies_of_parts_add_up_in_any_order(data, mechanism):
    width = len(mechanism.table.codes)
    codes = data.draw(st.lists(st.integers(0, width - 1), max_size=60))
    cut = data.draw(st.integers(0, len(codes)))
    whole = mechanism.tally(codes)
    assert (mechanism.tally(codes[:cut]) + mechanism.tally(codes[cut:])).tolist() == whole.tolist()
    shuffled = data.draw(st.permutations(codes))
    assert mechanism.tally(np.array(shuffled, dtype=np.uint8)).tolist() == whole.tolist()
    assert whole.dtype == np.int64
    assert whole.sum() == len(codes)
    assert whole.tolist() == [codes.count(c) for c in range(width)]


def test_many_reports_are_counted_in_blocks():
    mechanism = KRandomizedResponse(1.0, range(255))
    codes = np.random.default_rng(1).integers(0, 256, 300_001)
    expected = np.bincount(codes, minlength=256).tolist()
    for dtype in (np.uint8, np.uint16, np.int64):
        assert mechanism.tally(codes.astype(dtype)).tolist() == expected


# --- Any tally --------------------------------------------------------------------------------------------


@given(case=own.mechanisms_with_tally(), level=st.floats(0.01, 0.999))
def test_any_tally_gives_finite_numbers_or_says_why_not(case, level):
    mechanism, tally = case
    e = mechanism.estimate(tally, level=level)
    data = json.loads(e.to_json(), parse_constant=pytest.fail)
    json.dumps(e.to_dict(), allow_nan=False)
    assert data["n"] == tally.sum()
    assert data["mechanism"] == mechanism.name
    assert data["epsilon"] == mechanism.epsilon
    assert data["level"] == level
    assert str(e).count("\n") >= 3
    low, high = e.answer_rate_interval
    assert low <= high
    assert math.isclose(e.missing_rate_interval[0], 1 - high, abs_tol=1e-9)
    for name in ("answer_rate", "missing_rate"):
        assert (getattr(e, name) is None) == (name in e.undefined)
    if isinstance(mechanism, NumberMechanism):
        slack = 1e-9 * max(1, abs(mechanism.lower), abs(mechanism.upper))
        assert mechanism.lower - slack <= e.mean_interval[0] <= e.mean_interval[1] or e.mean is not None
        assert (e.mean is None) == ("mean" in e.undefined)
        assert (e.total is None) == ("total" in e.undefined)
        assert e.total is None or e.total_interval[0] <= e.total <= e.total_interval[1]
    else:
        values = list(e.proportions.values())
        assert list(e.proportions) == list(mechanism.options)
        if values[0] is not None:
            assert math.isclose(sum(values), 1, abs_tol=1e-6 * max(map(abs, values)))


@given(case=own.mechanisms_with_tally())
def test_projected_estimates_are_possible(case):
    mechanism, tally = case
    raw = mechanism.estimate(tally)
    e = raw.projected()
    for name in ("answer_rate", "missing_rate"):
        value, before = getattr(e, name), getattr(raw, name)
        assert value is None or 0 <= value <= 1
        assert value == before or not 0 <= before <= 1
    if isinstance(mechanism, NumberMechanism):
        assert e.mean is None or mechanism.lower <= e.mean <= mechanism.upper
        assert e.mean_interval == raw.mean_interval
    elif None not in e.proportions.values():
        values = np.array(list(e.proportions.values()))
        assert (values >= 0).all()
        assert math.isclose(values.sum(), 1, abs_tol=1e-9)


@given(
    case=own.mechanisms_with_tally(own.choice_mechanisms(), least=1),
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


# --- What is undefined ----------------------------------------------------------------------------------


@every_kind
def test_without_reports_all_is_undefined_and_says_so(make):
    mechanism = make(1.0)
    e = mechanism.estimate([0] * len(mechanism.table.codes))
    assert e.n == 0
    assert e.answer_rate is e.missing_rate is e.answer_rate_error is None
    assert e.answer_rate_interval == e.missing_rate_interval == (0, 1)
    assert set(e.undefined.values()) == {"there are no reports"}
    if isinstance(mechanism, NumberMechanism):
        assert e.mean is e.total is e.mean_error is e.total_interval is None
        assert e.mean_interval == (10, 50)
        assert set(e.undefined) == {"answer_rate", "missing_rate", "mean", "total"}
    else:
        assert set(e.proportions.values()) == {None}
    assert "undefined" in str(e)
    assert e.projected().undefined == e.undefined


@pytest.mark.parametrize("tally", [[0, 0, 40, 60], [60, 40, 0, 0], [0, 0, 0, 1]])
def test_bisample_with_nobody_in_one_direction_is_undefined(tally):
    e = BiSample(1.0, 10, 50).estimate(tally)
    assert e.mean is e.total is e.answer_rate is e.missing_rate is None
    assert set(e.undefined) == {"answer_rate", "missing_rate", "mean", "total"}
    empty = "s=0 b=0, s=0 b=1" if tally[0] == 0 else "s=1 b=0, s=1 b=1"
    assert all(empty in why for why in e.undefined.values())
    assert e.mean_interval == (10, 50)
    assert e.n == sum(tally)


@every_kind
def test_all_missing_is_a_rate_of_one_and_no_mean_worth_the_name(make):
    mechanism = make(4.0)
    if not mechanism.table.refusal:
        return
    e = mechanism.estimate([w >> 26 for w in mechanism.table.weights[-1]])
    assert e.missing_rate_interval[0] < 1 <= e.missing_rate_interval[1]
    assert abs(e.missing_rate - 1) < 0.01
    if isinstance(mechanism, NumberMechanism):
        # The whole range is the honest answer, or the mean is undefined.
        assert e.mean is None or e.mean_interval == (10, 50)


def test_an_answer_rate_that_is_not_positive_leaves_only_the_mean_undefined():
    e = BiSample(2.0, 10, 50).estimate([950, 50, 950, 50])
    assert e.answer_rate < 0
    assert e.mean is e.mean_error is None
    assert e.mean_interval == (10, 50)
    assert set(e.undefined) == {"mean"}
    assert "not positive" in e.undefined["mean"]
    assert e.total is not None
    choice = KRandomizedResponse(2.0, ["a", "b"]).estimate([10, 10, 980])
    assert set(choice.undefined) == {"proportions"}
    assert choice.proportions == {"a": None, "b": None}
    assert choice.proportions_interval == {"a": (0, 1), "b": (0, 1)}


def test_a_code_that_nobody_sent_does_not_make_an_estimate_certain():
    for mechanism, tally in (
        (BiSample(1.0), [50, 0, 0, 50]),
        (Harmony(1.0), [0, 50]),
        (ThreeState(1.0), [0, 50, 0]),
        (RandomizedResponse(1.0), [0, 50]),
    ):
        e = mechanism.estimate(tally)
        error = e.proportions_error[True] if isinstance(mechanism, RandomizedResponse) else e.mean_error
        assert error > 0.05


# --- As data and as text ---------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("empty", [False, True])
def test_an_estimate_survives_json(make, empty):
    mechanism = make(1.0)
    width = len(mechanism.table.codes)
    e = mechanism.estimate([0 if empty else 100 + c for c in range(width)])
    data = json.loads(e.to_json())
    plain = json.loads(json.dumps(e.to_dict(), allow_nan=False))
    assert data == plain
    for name in ("n", "epsilon", "answer_rate", "level", "question"):
        assert data[name] == getattr(e, name)
    if isinstance(mechanism, NumberMechanism):
        assert data["mean_interval"] == list(e.mean_interval)
        assert (data["lower"], data["upper"]) == (10, 50)
    else:
        assert list(data["proportions"]) == [str(o) for o in mechanism.options]


def test_an_estimate_prints_as_a_person_would_read_it():
    e = BiSample(1.0, 17, 90).estimate([300, 200, 260, 240])
    text = str(e)
    assert "bisample, epsilon = 1, 1,000 reports" in text
    assert "mean of those who answer" in text
    assert "95% interval" in text
    assert "question" not in text


@pytest.mark.parametrize("level", [0, 1, -1, 2, math.nan, math.inf, None, "0.95", True, 1j, [0.9], b"1"])
def test_a_level_is_between_0_and_1(level):
    for mechanism in (BiSample(1.0), RandomizedResponse(1.0)):
        with pytest.raises(ParameterError, match="level must be between 0 and 1"):
            mechanism.estimate([10] * len(mechanism.table.codes), level=level)


def test_any_level_between_0_and_1_will_do_and_more_is_wider():
    levels = [1e-9, 0.5, 0.9, 0.95, 0.99, 1 - 1e-12, math.nextafter(1, 0)]
    estimates = [BiSample(1.0).estimate([300, 200, 260, 240], level=level) for level in levels]
    widths = [e.total_interval[1] - e.total_interval[0] for e in estimates]
    assert widths == sorted(widths)
    assert math.isfinite(widths[-1])
    assert math.isclose(normal_quantile(0.95), 1.959963984540054, rel_tol=1e-14)


# --- Variance ----------------------------------------------------------------------------------------------

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
    assert v.answer_rate == 0


@every_kind
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_an_estimates_error_is_the_theoretical_one(make, epsilon):
    """On a tally that is its own expectation, n times the squared errors are the variances."""
    mechanism = make(epsilon)
    table = mechanism.table
    height = len(table.rows) - table.refusal
    rate = 0.6 if table.refusal else 1.0
    held = [10 + 40 * i / (height - 1) for i in range(height)] if table.anchors else list(mechanism.options)
    held = [*held, held[0]]  # not all alike
    part = np.zeros(len(table.rows))
    for value in held:
        part[held.index(value)] += rate / len(held)
    if table.refusal:
        part[-1] = 1 - rate
    n = 10**14
    tally = np.round(part @ table.matrix * n).astype(np.int64)
    e, v = mechanism.estimate(tally), mechanism.variance(held, answer_rate=rate)
    # Where a table leaves a choice, it is made at a first estimate that is good, not perfect.
    close = 1e-5 if len(table.codes) - np.linalg.matrix_rank(table.matrix) < len(table.blocks) else 3e-3
    assert math.isclose(e.n * e.answer_rate_error**2, v.answer_rate, rel_tol=close, abs_tol=1e-12)
    assert math.isclose(e.answer_rate, rate, rel_tol=1e-5)
    if table.anchors:
        assert math.isclose(e.mean, np.mean(held), rel_tol=1e-5)
        assert math.isclose(e.n * e.mean_error**2, v.mean, rel_tol=close)
        assert math.isclose(e.total_error**2 / e.n, v.total, rel_tol=close)
    else:
        for option in mechanism.options:
            assert math.isclose(e.n * e.proportions_error[option] ** 2, v.proportions[option], rel_tol=1e-5)


def test_variance_counts_missing_entries_unless_a_rate_is_given():
    mechanism = BiSample(1.0)
    assert mechanism.variance([0.5, None, None, 0.1]) == mechanism.variance([0.5, 0.1], answer_rate=0.5)
    choice = KRandomizedResponse(1.0, ["a", "b"])
    assert choice.variance(["a", None]) == choice.variance(["a"], answer_rate=0.5)


@given(mechanism=own.number_mechanisms(), part=st.floats(0, 1), rate=own.rates)
def test_realised_variance_is_the_smaller_and_none_is_negative(mechanism, part, rate):
    value = min(mechanism.upper, mechanism.lower + part * (mechanism.upper - mechanism.lower))
    rate = rate if mechanism.table.refusal else 1.0
    held = [value, mechanism.lower]
    population = mechanism.variance(held, answer_rate=rate)
    realised = mechanism.variance(held, answer_rate=rate, realised=True)
    for name in ("mean", "total", "answer_rate"):
        whole, given_people = getattr(population, name), getattr(realised, name)
        assert -1e-6 * whole <= given_people <= whole * (1 + 1e-9)


# --- Plans --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BiSample, ThreeState, PrivKV, Harmony])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 10.0, 20.0])
@pytest.mark.parametrize("questions", [1, 2, 7, 20])
def test_the_plan_is_the_best_of_all_plans(kind, epsilon, questions):
    rate = 0.7
    plan = plan_questions(kind, epsilon, questions, values=[-0.2, 0.6], answer_rate=rate)
    every = {}
    for m in range(1, questions + 1):
        mechanism = kind(epsilon / m)
        v = mechanism.variance([-0.2, 0.6], answer_rate=rate if mechanism.table.refusal else 1.0)
        every[m] = questions / m * v.mean
    assert plan.answered == min(every, key=every.get)
    assert math.isclose(plan.variance, min(every.values()))
    assert plan.epsilon_each * plan.answered <= epsilon * (1 + 1e-12)
    assert (plan.questions, plan.epsilon) == (questions, epsilon)


def test_one_question_for_each_is_theorem_5s_bound():
    for epsilon in (0.1, 0.5, 1.0):
        assert plan_questions(BiSample, epsilon, 10).answered == 1


def test_everybody_is_asked_as_many_questions_as_planned():
    plan = plan_questions(ThreeState, 12.0, 5)
    asked = assign_questions(plan, 4000, rng=1)
    assert asked.shape == (4000, 5)
    assert plan.answered > 1
    assert (asked.sum(axis=1) == plan.answered).all()
    expected = 4000 * plan.answered / 5
    assert (abs(asked.sum(axis=0) - expected) < 6 * math.sqrt(expected)).all()
    assert assign_questions(plan, 0).shape == (0, 5)


def test_an_estimate_carries_the_name_of_its_question():
    for mechanism, counts in (
        (BiSample(1.0), [30, 20, 26, 24]),
        (KRandomizedResponse(1.0, ["a", "b"]), [5, 6, 7]),
    ):
        e = mechanism.estimate(counts, question="age")
        assert e.to_dict()["question"] == "age"
        assert str(e).startswith("age: ")
