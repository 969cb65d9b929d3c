"""The dithered response: unbiased everywhere, as efficient as it says, sound on little data, and fast."""

import math
import statistics
import time

import numpy as np
import pytest

from bisample import BiSample, DitheredResponse, Mechanism, ParameterError, ThreeState, mix
from bisample.compare import POPULATIONS, best_mean_variance, best_rate_variance, compare, recommend
from bisample.estimate import number_targets
from bisample.mechanisms import dithered_levels, from_description
from bisample.solve import solve

EPSILONS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
RATES = (0.02, 0.3, 0.7, 0.95, 1.0)
DATA = ("uniform", "two-point", "gauss", "exp")
# The mathematics' own table for A = 0.7 and values N(0.5, 0.1): n * variance of mean and missing rate.
EFFICIENT = {
    0.1: (1278, 193),
    0.5: (44.5, 6.76),
    1.0: (9.45, 1.43),
    2.0: (1.61, 0.324),
    3.0: (0.488, 0.092),
    4.0: (0.183, 0.037),
    6.0: (0.039, 0.007),
}


def row_shares(mechanism, values, rate):
    """The shares of the table's rows when a share `rate` of people answers with these values."""
    return mechanism.row_shares(values, rate)


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sum_rate_and_mean_are_unbiased(epsilon, data):
    """n = 100,000, 150 tallies a case, |z| < 5.8: alpha is 1e-6 over all 480 tests of this function.

    Power: a bias of 0.7 standard errors of one estimate is found with a probability above 0.99.
    """
    mechanism = DitheredResponse(epsilon)
    targets = number_targets(mechanism.table)
    n, repeats = 100_000, 150
    rng = np.random.default_rng([3, round(10 * epsilon), DATA.index(data)])
    for rate in RATES:
        shares = row_shares(mechanism, POPULATIONS[data], rate)
        tallies = rng.multinomial(n, shares @ mechanism.table.matrix, size=repeats)
        found = np.array([solve(mechanism.table, tally, targets).values for tally in tallies])
        truth = targets @ shares
        error = found.std(axis=0, ddof=1) / math.sqrt(repeats)
        z = (found.mean(axis=0) - truth) / np.maximum(error, 1e-12)
        if rate == 1:
            assert abs(found[:, 1].mean() - 1) < 6 * error[1]
        assert np.all(np.abs(z) < 5.8), (epsilon, data, rate, z)
        if rate > 10 * found[:, 1].std():  # the ratio's own bias is below a hundredth of its error here
            means = found[:, 0] / found[:, 1]
            z = (means.mean() - truth[0] / truth[1]) / (means.std(ddof=1) / math.sqrt(repeats))
            assert abs(z) < 5.8, (epsilon, data, rate, z)


@pytest.mark.parametrize("epsilon", EFFICIENT)
def test_its_variance_is_that_of_the_efficient_estimator(epsilon):
    v = DitheredResponse(epsilon).variance(POPULATIONS["gauss"], answer_rate=0.7, realised=True)
    mean, rate = EFFICIENT[epsilon]
    digits = 0.02 if epsilon < 6 else 0.08  # the table shows one digit there
    assert v.mean == pytest.approx(mean, rel=digits)
    assert v.answer_rate == pytest.approx(rate, rel=digits)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["gauss", "exp"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_estimator_reaches_that_variance_on_tallies(epsilon, data):
    """R = 2,500 tallies of n = 100,000: a variance is known to 2.8 %, and 10 % is 3.5 sd.

    Over the 12 comparisons alpha is 0.006, with fixed seeds.
    """
    mechanism = DitheredResponse(epsilon)
    shares = row_shares(mechanism, POPULATIONS[data], 0.7)
    n, repeats = 100_000, 2_500
    rng = np.random.default_rng([5, round(10 * epsilon)])
    tallies = rng.multinomial(n, shares @ mechanism.table.matrix, size=repeats)
    found = [mechanism.estimate(tally) for tally in tallies]
    expected = mechanism.variance(POPULATIONS[data], answer_rate=0.7)
    assert n * np.var([e.mean for e in found]) == pytest.approx(expected.mean, rel=0.1)
    assert n * np.var([e.answer_rate for e in found]) == pytest.approx(expected.answer_rate, rel=0.1)
    assert np.mean([e.mean_error**2 for e in found]) * n == pytest.approx(expected.mean, rel=0.05)


@pytest.mark.parametrize("data", ["gauss", "exp", "uniform", "two-point"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sixteen_steps_lose_at_most_three_percent(epsilon, data):
    """Against 128 steps, whose table is built here in floats: a byte could not hold its codes."""
    k = dithered_levels(epsilon)
    values = POPULATIONS[data]

    def variance(steps):
        anchors = steps * (k - 1) + 1
        true, other = math.exp(epsilon) / (math.exp(epsilon) + k), 1 / (math.exp(epsilon) + k)
        matrix = np.full((anchors + 1, steps * (k + 1)), other / steps)
        for u in range(steps):
            level = np.minimum((np.arange(anchors) + u) // steps, k - 1)
            matrix[np.arange(anchors), u * (k + 1) + level] = true / steps
            matrix[anchors, u * (k + 1) + k] = true / steps
        position = (values + 1) / 2 * (anchors - 1)
        below = np.minimum(position.astype(int), anchors - 2)
        shares = np.bincount(below, 1 - (position - below), anchors + 1)
        shares += np.bincount(below + 1, position - below, anchors + 1)
        shares *= 0.7 / len(values)
        shares[-1] = 0.3
        p = shares @ matrix
        target = np.append((np.linspace(-1, 1, anchors) - values.mean()) / 0.7, 0)
        information = (matrix / p) @ matrix.T
        weights = np.linalg.lstsq(information, target, rcond=1e-10)[0]
        return target @ weights - values.var() / 0.7

    assert variance(16) <= 1.03 * variance(128)
    stated = DitheredResponse(epsilon).variance(values, answer_rate=0.7, realised=True).mean
    assert variance(16) == pytest.approx(stated, rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_little_data_gives_finite_numbers_or_says_why_not(epsilon):
    mechanism = DitheredResponse(epsilon, lower=17, upper=90)
    width = len(mechanism.table.codes)
    rng = np.random.default_rng(1)
    tallies = [np.eye(width, dtype=int)[0], np.ones(width, dtype=int), 10**9 * np.eye(width, dtype=int)[-1]]
    tallies += [rng.multinomial(n, np.full(width, 1 / width)) for n in (2, 5, 20, 100)]
    for rate, value in ((0.02, 17.0), (1.0, 17.0), (1.0, 90.0), (0.5, 90.0)):
        shares = row_shares(mechanism, [value], rate)
        tallies += [rng.multinomial(n, shares @ mechanism.table.matrix) for n in (10, 1000, 10**6)]
    for tally in tallies:
        e = mechanism.estimate(tally)
        assert e.mean is None or math.isfinite(e.mean)
        assert (e.mean is None) == ("mean" in e.undefined)
        assert e.mean_interval[0] <= e.mean_interval[1]
        for name in ("answer_rate", "total"):
            value, error = getattr(e, name), getattr(e, f"{name}_error")
            assert (value is None) == (name in e.undefined)
            if value is not None:
                assert math.isfinite(value)
                assert math.isfinite(error)
                assert error > 0


def test_an_estimate_takes_at_most_20_milliseconds():
    mechanism = DitheredResponse(8.0)
    shares = row_shares(mechanism, POPULATIONS["gauss"], 0.7)
    tallies = np.random.default_rng(1).multinomial(100_000, shares @ mechanism.table.matrix, size=15)
    times = []
    for tally in tallies:
        start = time.perf_counter()
        mechanism.estimate(tally)
        times.append(time.perf_counter() - start)
    assert statistics.median(times) <= 0.020


def test_levels_and_steps_are_in_the_description_and_the_certificate():
    claim = DitheredResponse(2.0).certificate()
    assert (claim["levels"], claim["steps"]) == (3, 16)
    assert claim["holds"]


def test_without_a_dither_it_is_k_ary_randomized_response_of_the_rounded_value():
    assert DitheredResponse(1.0, levels=2, steps=1).table.weights == ThreeState(1.0).table.weights


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"levels": 1}, "levels must be an integer from 2"),
        ({"levels": 2.5}, "levels must be an integer from 2"),
        ({"steps": 0}, "steps must be an integer from 1"),
        ({"steps": [4]}, "steps must be an integer from 1"),
        ({"steps": np.timedelta64(4, "D")}, "steps must be an integer from 1"),
        ({"levels": 20}, "steps of at most 12"),
    ],
)
def test_wrong_parameters_say_what_is_possible(parameters, says):
    with pytest.raises(ParameterError, match=says):
        DitheredResponse(1.0, **parameters)


def test_parameters_mean_the_same_whatever_was_built_before():
    assert DitheredResponse(1.0, levels=np.int64(3)) == DitheredResponse(1.0, levels=3)
    with pytest.raises(ParameterError, match="levels"):
        DitheredResponse(1.0, levels=3.0)  # equal to 3, which was built: no cache may let it through


def test_too_large_an_epsilon_for_16_steps_says_how_many_fit():
    with pytest.raises(ParameterError, match="steps of at most 9"):
        DitheredResponse(10.0)
    assert len(DitheredResponse(10.0, steps=9).table.codes) <= 256


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.1, 1.0, 4.0])
def test_a_mix_is_private_and_between_its_parts(epsilon, share):
    m = mix(BiSample, DitheredResponse, share)(epsilon)
    assert m.table.satisfies(epsilon)
    assert epsilon - m.epsilon_upper <= epsilon * (1e-9 if epsilon >= 0.01 else 1e-6)
    assert m.table.weights[0][0] + m.table.weights[0][1] == pytest.approx(share * 2**47, rel=1e-9)
    rates = [
        x.variance([0.2], answer_rate=0.7).answer_rate
        for x in (DitheredResponse(epsilon), m, BiSample(epsilon))
    ]
    assert rates == sorted(rates)
    assert from_description(m.describe()) == m


def test_a_mix_estimates_both_parts_together():
    m = mix(BiSample, DitheredResponse, 0.5)(1.0, lower=0, upper=10)
    values = np.where(np.arange(200_000) % 4 == 0, np.nan, 7.0)
    e = m.estimate(m.tally(m.privatize(values, rng=3)))
    assert abs(e.mean - 7) < 4 * e.mean_error
    assert abs(e.answer_rate - 0.75) < 4 * e.answer_rate_error


def test_mixing_lowers_the_worst_case_at_small_epsilon():
    def worst(mechanism):
        means = [mechanism.variance([m], answer_rate=0.7, realised=True).mean for m in (-1, -0.5, 0, 0.5, 1)]
        return max(means)

    mixed = worst(mix(BiSample, DitheredResponse, 0.45)(0.1))
    assert mixed < 0.96 * worst(DitheredResponse(0.1))
    assert worst(DitheredResponse(0.1)) < worst(BiSample(0.1))


@pytest.mark.parametrize("share", [0, 1, -1, "half", None, math.nan, [0.5]])
def test_a_mix_needs_a_share_between_0_and_1(share):
    with pytest.raises(ParameterError, match="share must be between 0 and 1"):
        mix(BiSample, DitheredResponse, share)(1.0)


def test_a_mix_needs_a_share_that_can_be_counted():
    with pytest.raises(ParameterError, match="parts of 1/10000"):
        mix(BiSample, DitheredResponse, 1e-5)(1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0, 8.0, 12.0, 17.5, 20.0])
def test_a_recommendation_is_the_least_variance_and_can_be_built(epsilon):
    for objective in ("mean", "missing", "worst"):
        advice = recommend(epsilon, objective)
        assert advice.variance <= 1.01 * min(advice.runners_up.values())
        assert set(advice.runners_up) >= {"bisample", "three-state", "privkv", "dithered"}
        mechanism = advice.build(17, 90)
        assert isinstance(mechanism, Mechanism)
        assert mechanism.epsilon == epsilon
        assert mechanism.name in str(advice)


def test_small_epsilon_recommends_bisample_and_large_the_dithered_response():
    assert recommend(0.1).description["mechanism"] == "bisample"
    assert recommend(4.0).description["mechanism"] == "dithered"
    assert recommend(20.0).description["mechanism"] == "dithered"
    assert recommend(4.0, "missing").description["mechanism"] == "three-state"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((1, "speed"), "objective"), ((1, "mean", 0), "answer_rate"), ((-1,), "epsilon")],
)
def test_a_recommendation_refuses_nonsense(arguments, says):
    with pytest.raises(ParameterError, match=says):
        recommend(*arguments)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_nothing_in_the_comparison_beats_the_bounds(epsilon):
    found = compare(epsilon)
    for row in found.rows:
        if row.missing_rate is not None:
            assert row.mean >= 0.999 * best_mean_variance(epsilon)
            assert row.missing_rate >= 0.999 * best_rate_variance(epsilon)


def test_the_bound_is_not_shown_for_a_population_it_was_not_computed_for():
    assert compare(2.0, answer_rate=0.5).best_mean is None
    assert best_mean_variance(19) is None
