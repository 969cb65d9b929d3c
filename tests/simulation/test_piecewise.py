"""Piecewise and Hybrid are unbiased, vary as variance() says, and their intervals cover.

Seeds are fixed; each docstring says how often correct code would fail at other seeds.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from bisample.errors import AnswerError, ParameterError, ReportError
from bisample.simulation.piecewise import HYBRID_EPSILON, Hybrid, Piecewise

LOWER, UPPER = 17.0, 90.0
CENTRE, HALF = (UPPER + LOWER) / 2, (UPPER - LOWER) / 2
KINDS = [Piecewise, Hybrid]

every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [-0.8, 0.0, 0.5])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@every_kind
def test_reports_are_unbiased_and_vary_as_stated(kind, epsilon, mean):
    """400,000 reports. alpha = 1e-6 for all 36 biases: 5.8 standard errors.

    A bias of 2 % of a report's standard deviation is caught with power 0.99. Variances are measured to 0.3 %
    (the reports' kurtosis is below 5), so that their 3 % are ten standard errors.
    """
    m = kind(epsilon, LOWER, UPPER)
    n, rng = 400_000, np.random.default_rng(601)
    values = CENTRE + HALF * np.array([mean - 0.2, mean + 0.2])
    decoded = [CENTRE + HALF * m.privatize(np.full(n // 2, v), rng=rng) for v in values]
    for value, reports in zip(values, decoded, strict=True):
        assert abs(reports.mean() - value) < 5.8 * reports.std() / math.sqrt(n // 2)
    everybody = np.concatenate(decoded)
    assert np.mean([part.var() for part in decoded]) == pytest.approx(
        m.variance(values, realised=True).mean, rel=0.03
    )
    assert everybody.var() == pytest.approx(m.variance(values).mean, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@every_kind
def test_intervals_cover(kind, epsilon):
    """10,000 samples of 1,000 people: 94 to 96 %, which is 4.6 standard errors of the share, alpha = 2e-5."""
    m = kind(epsilon, LOWER, UPPER)
    rng = np.random.default_rng(707)
    n, repetitions = 1_000, 10_000
    hits = total_hits = 0
    for _ in range(repetitions // 100):
        values = rng.uniform(LOWER, UPPER, size=100 * n)
        for reports in m.privatize(values, rng=rng).reshape(100, n):
            e = m.estimate(reports)
            hits += e.mean_interval[0] <= CENTRE <= e.mean_interval[1]
            total_hits += e.total_interval[0] <= n * CENTRE <= e.total_interval[1]
    assert 0.94 <= hits / repetitions <= 0.96
    assert total_hits == hits


@pytest.mark.parametrize("epsilon", [0.3, HYBRID_EPSILON - 1e-9])
def test_hybrid_is_harmony_up_to_its_epsilon(epsilon):
    reports = Hybrid(epsilon).privatize([0.2] * 1000, rng=1)
    assert set(np.abs(reports).round(9)) == {round(1 / math.tanh(epsilon / 2), 9)}
    assert len(set(Hybrid(HYBRID_EPSILON + 1e-6).privatize([0.2] * 1000, rng=1))) > 100


@every_kind
def test_an_estimate_is_the_reports_mean_and_says_that_it_is_simulated(kind):
    e = kind(2.0, LOWER, UPPER).estimate([0.5, -0.5, 3.0, 1.0])
    assert (e.mechanism, e.n, dict(e.subject)) == (kind.name, 4, {"simulated": "with a seed"})
    assert e.mean == pytest.approx(CENTRE + HALF * 1.0)
    assert e.mean_error == pytest.approx(HALF * math.sqrt(6.5 / 3) / 2)
    assert e.total == pytest.approx(4 * e.mean)
    assert (e.answer_rate, e.missing_rate) == (1.0, 0.0)
    assert f"{kind.name}, epsilon = 2, simulated = with a seed, 4 reports" in str(e)


@pytest.mark.parametrize("reports", [[], [0.5]])
def test_fewer_than_two_reports_leave_the_mean_undefined(reports):
    e = Piecewise(1.0, LOWER, UPPER).estimate(reports)
    assert e.mean is e.mean_error is e.total is None
    assert e.mean_interval == (LOWER, UPPER)
    assert set(e.undefined) == {"mean", "total"}


@pytest.mark.parametrize(
    "reports",
    [
        *(["1"], [[1], [2, 3]], None, 3.0, [math.nan], [math.inf], [1j], [[1.0]], {}),
        np.ma.array([0.1, 0.2, 300.0], mask=[0, 0, 1]),
    ],
    ids=str,
)
@every_kind
def test_reports_are_finite_numbers(kind, reports):
    with pytest.raises(ReportError, match="finite numbers in one dimension"):
        kind(1.0).estimate(reports)


@every_kind
def test_answers_in_single_precision_reach_the_ends(kind):
    m = kind(1.0, 0.1, 0.3)
    reports = m.privatize(np.array([0.1, 0.3], dtype=np.float32), rng=1)
    assert np.isfinite(reports).all()
    with pytest.raises(AnswerError):
        m.privatize(np.array([0.1, 0.3001], dtype=np.float32), rng=1)


@every_kind
def test_without_a_seed_it_says_that_it_protects_nobody(kind):
    with pytest.raises(ParameterError, match="simulations only"):
        kind(1.0).privatize([0.5], rng=None)


@every_kind
def test_what_is_made_is_frozen_and_equal_to_its_like(kind):
    m = kind(1, 0, 10)
    assert m == kind(1.0, 0.0, 10.0)
    assert repr(m) == f"{kind.__name__}(epsilon=1.0, lower=0.0, upper=10.0)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 2.0
    with pytest.raises(ParameterError, match="at least one value"):
        m.variance([])
