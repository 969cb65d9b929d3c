"""The least variance of the mean that an epsilon-private channel was found to have, by convex optimisation.

Writes src/bisample/planning/best_channel.json, which `bisample compare` reads. Needs cvxpy and its solver
Clarabel, which nothing else does: `pip install cvxpy clarabel`.

The functional is the mean among those who answer, linearised at the population, T = (v - m) / A and 0
for a refusal, and the channel knows that population: no mechanism that must serve all does. A
channel that cannot be improved mixes columns z in {1, e^eps}^rows (Kairouz et al., 2016): its weights are
W = theta_z z with sum theta_z z = 1, and its estimator g has W g = T. Its variance, the sum of
(pi.z) r_z^2 / theta_z with r_z = theta_z g_z, is convex in (theta, r). Columns that raise an interval of
values, with or without the refusal, start it; columns that would lower the cost are added until none is
found.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import cvxpy
import numpy as np

OUT = Path(__file__).resolve().parent.parent / "src" / "bisample" / "planning" / "best_channel.json"
ANSWER_RATE, MEAN, SD = 0.7, 0.5, 0.1
POINTS = 41  # the values on a grid over [-1, 1]
EPSILONS = (
    0.1, 0.125, 0.16, 0.2, 0.25, 0.32, 0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0,
    5.5, 6.0, 7.0, 8.0,
)  # fmt: skip
Array = np.ndarray[Any, np.dtype[np.float64]]


def population() -> tuple[Array, Array]:
    """The shares of the grid's values and of the refusal, and the functional T on them."""
    values = np.linspace(-1, 1, POINTS)
    normal = NormalDist(MEAN, SD)
    sample = np.array([normal.inv_cdf((i + 0.5) / 20_000) for i in range(20_000)]).clip(-1, 1)
    position = (sample + 1) / 2 * (POINTS - 1)
    below = np.minimum(position.astype(int), POINTS - 2)
    above = position - below
    shares = np.bincount(below, 1 - above, POINTS) + np.bincount(below + 1, above, POINTS)
    shares = shares / shares.sum()
    mean = shares @ values
    return (
        np.append(ANSWER_RATE * shares, 1 - ANSWER_RATE),
        np.append((values - mean) / ANSWER_RATE, 0.0),
    )


def first_columns(e: float) -> Array:
    """Columns that are high on an interval of values, or outside it, with the refusal high or low."""
    columns = []
    for start in range(POINTS):
        for stop in range(start + 1, POINTS + 1):
            for refusal in (False, True):
                high = np.zeros(POINTS + 1, dtype=bool)
                high[start:stop] = True
                high[-1] = refusal
                columns += [high, ~high]
    unique = np.unique(np.array(columns), axis=0)
    return np.where(unique, e, 1.0)


def solve(columns: Array, shares: Array, target: Array) -> tuple[float, Array, Array]:
    """The best mix of these columns: its second moment, and the prices of the two constraints."""
    theta, r, cost = (cvxpy.Variable(len(columns)) for _ in range(3))
    probability = columns @ shares
    stochastic = columns.T @ theta == 1
    unbiased = columns.T @ r == target
    scaled = cvxpy.multiply(np.sqrt(probability), r)
    cones = cvxpy.SOC(cost + theta, cvxpy.vstack([2 * scaled, cost - theta]), axis=0)
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cost)), [stochastic, unbiased, cones, theta >= 0])
    problem.solve(solver=cvxpy.CLARABEL)
    return float(problem.value), -stochastic.dual_value, -unbiased.dual_value


def better_columns(e: float, shares: Array, row_price: Array, price: Array) -> Array:
    """Columns that would lower the cost: those with (h.z)^2 / (4 pi.z) + mu.z > 0.

    The first term is the maximum over s of s h.z - s^2 pi.z, which for each s is best element by element.
    """
    found = []
    reach = 4 * np.abs(price).max() / shares[shares > 0].min()
    for s in np.concatenate([sign * np.geomspace(1e-4, reach, 400) for sign in (-1, 1)]):
        z = np.where(s * price - s * s * shares + row_price > 0, e, 1.0)
        if (price @ z) ** 2 / (4 * shares @ z) + row_price @ z > 1e-6 * abs(row_price).max():
            found.append(z)
    return np.unique(np.array(found), axis=0) if found else np.empty((0, len(shares)))


def best_variance(epsilon: float) -> float:
    """n times the variance around the respondents' own mean."""
    shares, target = population()
    e = math.exp(epsilon)
    columns = first_columns(e)
    moment = math.inf
    for _ in range(6):
        before = moment
        moment, row_price, price = solve(columns, shares, target)
        if before - moment < 1e-4 * moment:
            break
        new = better_columns(e, shares, row_price, price)
        if not len(new):
            break
        columns = np.unique(np.vstack([columns, new]), axis=0)
    return moment - float(shares @ target**2)


def main() -> None:
    """Compute and write all points."""
    found = []
    for epsilon in EPSILONS:
        found.append([epsilon, float(f"{best_variance(epsilon):.4g}")])
        print(*found[-1], flush=True)
    data = {
        "what": "least n * variance of the mean found for an epsilon-private channel",
        "made_by": "tools/make_best_channel.py",
        "population": "gauss",
        "answer_rate": ANSWER_RATE,
        "values": f"normal, mean {MEAN}, sd {SD}, on a grid of {POINTS} values over [-1, 1]",
        "points": found,
    }
    OUT.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
