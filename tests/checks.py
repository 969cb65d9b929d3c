"""What statistical tests and mutants share: populations, exact distributions, bounds, checkers.

A checker raises AssertionError with p, n and seed. It is run on the real code, where it has to pass,
and on mutants, where it has to fail: a checker that lets a mutant through is no checker.

Every probability here is written a second time, from the papers' formulas and in floats, and is not
taken from the table under test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from statistics import NormalDist

import numpy as np

from bisample.mechanism import ChoiceMechanism, NumberMechanism, registered

ALPHA = 1e-6
LOWER, UPPER = 10.0, 50.0  # not symmetric around 0: total mixes the sum with the answer rate
OPTIONS = (0, 1, 2)  # numbers, because text is read one by one

EPSILONS = (0.1, 1.0, 4.0)
RATES = (0.3, 0.7, 1.0)
MEANS = (-0.8, 0.0, 0.5)


def quantile(alpha):
    """The z with P(|Z| > z) = alpha."""
    return -NormalDist().inv_cdf(alpha / 2)


def make(kind, epsilon):
    """A mechanism of this kind, on the tests' range or options."""
    if issubclass(kind, NumberMechanism):
        return kind(epsilon, LOWER, UPPER)
    return kind(epsilon) if kind.name == "rr" else kind(epsilon, OPTIONS)


def kinds():
    """All registered mechanisms, in a fixed order."""
    return [kind for _, kind in sorted(registered().items())]


def cases(epsilons=EPSILONS, rates=RATES, means=MEANS):
    """(kind, epsilon, rate, mean) for all that a mechanism can be given: without a refusal only rate 1."""
    return [
        (kind, epsilon, rate, mean)
        for kind in kinds()
        for epsilon in epsilons
        for rate in rates
        for mean in means
        if rate == 1 or make(kind, epsilon).table.refusal
    ]


def case_id(value):
    return value.name if isinstance(value, type) else str(value)


# Populations


@dataclass(frozen=True)
class Population:
    """Groups of identical people. The last group declines if anybody does."""

    answers: tuple  # one a group; None declines
    shares: np.ndarray
    values: np.ndarray  # one row a target (scaled value, or each option, then answered), one column a group

    @property
    def answered(self):
        """The answers given, with repetitions in proportion: what variance() takes."""
        given = [(a, s) for a, s in zip(self.answers, self.shares, strict=True) if a is not None]
        return [a for a, s in given for _ in range(round(100 * s / self.rate))]

    @property
    def rate(self):
        return float(self.values[-1] @ self.shares)


def population(mechanism, rate, mean):
    """People whose answers have this mean (scaled to [-1, 1]), or proportions that go with it."""
    if isinstance(mechanism, NumberMechanism):
        spread = min(0.2, 1 - abs(mean))
        scaled = np.array([mean - spread, mean, mean + spread]) if spread else np.array([mean])
        parts = np.array([0.25, 0.5, 0.25]) if spread else np.array([1.0])
        answers = tuple((LOWER + (scaled + 1) / 2 * (UPPER - LOWER)).tolist())
        values = np.vstack([scaled, np.ones(len(scaled))])
    else:
        first = round(10 * (1 + mean) / 2, 6)  # tenths: 1, 5, 7.5
        tenths = [first, 10 - first] if len(mechanism.options) == 2 else [first, (10 - first) * 0.6]
        tenths += [10 - sum(tenths)] * (len(mechanism.options) - len(tenths))
        kept = [i for i, part in enumerate(tenths) if part > 0]
        parts = np.array(tenths)[kept] / 10
        answers = tuple(mechanism.options[i] for i in kept)
        values = np.vstack([np.eye(len(tenths))[:, kept], np.ones(len(kept))])
    if rate < 1:
        answers = (*answers, None)
        parts = np.append(parts * rate, 1 - rate)
        values = np.column_stack([values, np.zeros(len(values))])
    return Population(answers, parts, values)


# What a report should look like, from the papers


def rows_by_formula(name, epsilon, height):
    """The rows of a mechanism's table by its paper's closed form; None where no form is written here."""
    e = math.exp(epsilon)
    p = e / (e + 1)
    half = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
    kept, flipped = half * half, half * (1 - half)
    forms = {
        "bisample": np.array([[1 - p, p, p, 1 - p], [p, 1 - p, 1 - p, p], [p, 1 - p, p, 1 - p]]) / 2,
        "privkv": np.array(
            [[1 - half, kept, flipped], [1 - half, flipped, kept], [half, (1 - half) / 2, (1 - half) / 2]]
        ),
    }
    for k_rr in ("harmony", "rr", "three-state", "k-rr"):
        forms[k_rr] = (np.ones((height, height)) + (e - 1) * np.eye(height)) / (e + height - 1)
    return forms.get(name)


def rows(mechanism):
    """The distribution of codes of each row, for the epsilon that the mechanism names.

    By the paper's form where there is one, else from a table built anew: never from the table in use.
    """
    height = len(mechanism.table.rows)
    found = rows_by_formula(mechanism.name, mechanism.epsilon, height)
    return make(registered()[mechanism.name], mechanism.epsilon).table.matrix if found is None else found


def codes_of(mechanism, answer, table_rows=None):
    """The distribution of the code that a person with this answer sends."""
    matrix = rows(mechanism) if table_rows is None else table_rows
    if answer is None:
        return matrix[-1]
    if isinstance(mechanism, ChoiceMechanism):
        return matrix[mechanism.options.index(answer)]
    gaps = len(matrix) - mechanism.table.refusal - 1
    position = (answer - mechanism.lower) / (mechanism.upper - mechanism.lower) * gaps
    below = min(int(position), gaps - 1)
    return matrix[below] + (position - below) * (matrix[below + 1] - matrix[below])


def draw_tallies(mechanism, people, n, repetitions, rng):
    """Tallies of n people drawn anew each time, and how many of each group they were."""
    matrix = rows(mechanism)
    groups = rng.multinomial(n, people.shares / people.shares.sum(), size=repetitions)
    tallies = np.zeros((repetitions, matrix.shape[1]), dtype=np.int64)
    for answer, count in zip(people.answers, groups.T, strict=True):
        p = codes_of(mechanism, answer, matrix)
        tallies += rng.multinomial(count, p / p.sum())
    return tallies, groups


# Estimates of many tallies at once: a twin of estimate(), written apart


class Twin:
    """Estimates and intervals of many tallies at once, for tables that leave the estimator no choice.

    Written apart from the package, so that it is a second opinion; `agrees` compares the two.
    """

    def __init__(self, mechanism, level=0.95):
        self.mechanism = mechanism
        self.level = level
        self.z = NormalDist().inv_cdf((1 + level) / 2)
        table = mechanism.table
        self.matrix = table.matrix
        height = len(self.matrix)
        answered = np.ones(height)
        if table.refusal:
            answered[-1] = 0
        if isinstance(mechanism, NumberMechanism):
            top = np.zeros(height)
            count = height - table.refusal
            top[:count] = np.linspace(-1, 1, count)
            self.targets = np.vstack([top, answered])
            self.bounds = (-1.0, 1.0)
        else:
            self.targets = np.vstack([np.eye(height - table.refusal, height), answered])
            self.bounds = (0.0, 1.0)
        self.starts = np.cumsum((0, *table.blocks[:-1]))
        self.sizes = np.array(table.blocks)
        self.mass = np.add.reduceat(self.matrix[0], self.starts)
        self.weights = self.targets @ np.linalg.pinv(self.matrix.T)

    @staticmethod
    def fits(mechanism):
        """Whether the table leaves no choice: codes, less one a block, are as many as rows less one."""
        table = mechanism.table
        return len(table.codes) - len(table.blocks) == len(table.rows) - 1

    def solve(self, tallies):
        """Estimates of the targets and their covariance matrices."""
        counts = np.add.reduceat(tallies, self.starts, axis=1)
        q = tallies / np.repeat(counts, self.sizes, axis=1)
        values = (q * np.repeat(self.mass, self.sizes)) @ self.weights.T
        possible = self.matrix / np.repeat(self.mass, self.sizes)
        zero = (tallies == 0).any(axis=1)
        q[zero] = np.clip(q[zero], possible.min(axis=0), possible.max(axis=0))
        gq = self.weights * q[:, None, :]
        block_means = np.add.reduceat(gq, self.starts, axis=2)
        centred = self.weights - np.repeat(block_means, self.sizes, axis=2)
        scale = np.repeat(self.mass**2 / counts, self.sizes, axis=1)
        covariance = np.einsum("rtc,ruc->rtu", centred * (q * scale)[:, None, :], centred)
        return values, covariance

    def estimates(self, tallies):
        """Columns: total, answer rate, then the mean or each proportion, in the units of estimate()."""
        values, _ = self.solve(tallies)
        return columns(self.mechanism, values, tallies.sum(axis=1))

    def intervals(self, tallies):
        """(low, high) arrays by name, in the units of estimate()."""
        values, covariance = self.solve(tallies)
        found = {}
        rate, v_a = values[:, -1], covariance[:, -1, -1]
        if self.mechanism.table.refusal:
            half = self.z * np.sqrt(v_a)
            low, high = np.maximum(rate - half, 0), np.minimum(rate + half, 1)
            impossible = low > high  # then it is left as it is, to show that something is wrong
            found["answer_rate"] = (
                np.where(impossible, rate - half, low),
                np.where(impossible, rate + half, high),
            )
        for i in range(len(self.targets) - 1):
            low, high = self._fieller(values[:, i], rate, covariance[:, i, i], v_a, covariance[:, i, -1])
            name = "mean"
            if isinstance(self.mechanism, NumberMechanism):
                low, high = (LOWER + (x + 1) / 2 * (UPPER - LOWER) for x in (low, high))
            else:
                name = self.mechanism.options[i]
            found[name] = (low, high)
        if isinstance(self.mechanism, NumberMechanism):
            n = tallies.sum(axis=1)
            t = np.array([(UPPER - LOWER) / 2, (UPPER + LOWER) / 2])
            total = n * (values @ t)
            half = self.z * n * np.sqrt(np.einsum("t,rtu,u->r", t, covariance, t))
            found["total"] = (total - half, total + half)
        return found

    def _fieller(self, s, a, v_s, v_a, c):
        """The hull of {m : (s - m a)^2 <= z^2 (v_s - 2 m c + m^2 v_a)} within the bounds."""
        least, most = self.bounds
        z2 = self.z**2
        square, cross, rest = a * a - z2 * v_a, s * a - z2 * c, s * s - z2 * v_s
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(np.maximum(cross**2 - square * rest, 0))
            one, two = (cross - root) / square, (cross + root) / square
        first, last = np.minimum(one, two), np.maximum(one, two)
        inside = square > 0
        outside = ~inside & (cross**2 > square * rest)
        left, right = (first >= least) & (first <= most), (last >= least) & (last <= most)
        low = np.where(inside, np.maximum(first, least), np.where(outside & right & ~left, last, least))
        high = np.where(inside, np.minimum(last, most), np.where(outside & left & ~right, first, most))
        nothing = inside & (low > high)
        low, high = np.where(nothing, first, low), np.where(nothing, last, high)
        return np.where(a > 0, low, least), np.where(a > 0, high, most)


def columns(mechanism, targets, n):
    """From target values (one row a repetition) to total, answer rate, and mean or proportions."""
    rate = targets[:, -1:]
    if isinstance(mechanism, NumberMechanism):
        centre, half = (UPPER + LOWER) / 2, (UPPER - LOWER) / 2
        total = n * (centre * targets[:, 1] + half * targets[:, 0])
        return np.column_stack([total, rate, centre + half * targets[:, :1] / rate])
    return np.column_stack([rate, targets[:, :-1] / rate])


def column_names(mechanism):
    if isinstance(mechanism, NumberMechanism):
        return ["total", "answer_rate", "mean"]
    return ["answer_rate", *mechanism.options]


def estimated(mechanism, tally):
    """What estimate() says, in the order of `columns`."""
    e = mechanism.estimate(tally)
    if isinstance(mechanism, NumberMechanism):
        return np.array([e.total, e.answer_rate, e.mean])
    return np.array([e.answer_rate, *e.proportions.values()])


def stated_variances(mechanism, people, n, *, realised):
    """The variances of `columns` for n people, by variance()."""
    v = mechanism.variance(people.answered, answer_rate=people.rate, realised=realised)
    if isinstance(mechanism, NumberMechanism):
        return np.array([v.total * n, v.answer_rate / n, v.mean / n])
    return np.array([v.answer_rate, *v.proportions.values()]) / n


# The best linear estimator, by its formula


def best_weights(mechanism, people):
    """(g, q, mass, block): weights with W g = T of least variance for these people, and shares in blocks.

    g = D^-1 W' (W D^-1 W')^+ T with D the codes' probabilities, then each block is counted for itself.
    """
    matrix = rows(mechanism)
    table = mechanism.table
    gaps = len(matrix) - table.refusal
    answered = np.ones(len(matrix))
    if table.refusal:
        answered[-1] = 0
    if isinstance(mechanism, NumberMechanism):
        top = np.append(np.linspace(-1, 1, gaps), [0] * table.refusal)[None, :]
    else:
        top = np.eye(gaps, len(matrix))
    targets = np.vstack([top, answered])
    p = sum(s * codes_of(mechanism, a) for a, s in zip(people.answers, people.shares, strict=True))
    block = np.repeat(np.arange(len(table.blocks)), table.blocks)
    mass = np.bincount(block, weights=p)
    gram = (matrix / p) @ matrix.T
    g = (targets @ np.linalg.pinv(gram, rcond=1e-12, hermitian=True)) @ (matrix / p)
    assert np.abs(g @ matrix.T - targets).max() < 1e-5, "no weights estimate this without bias"
    return g, p / mass[block], mass, block


def linear_estimates(mechanism, people, tallies):
    """The columns of estimate() with the weights that are best for these people, whatever the tally."""
    g, _, mass, block = best_weights(mechanism, people)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    counts = np.add.reduceat(tallies, starts, axis=1)
    frequencies = tallies / counts[:, block] * mass[block]
    return columns(mechanism, frequencies @ g.T, tallies.sum(axis=1))


def enumerated_variances(mechanism, people, *, realised):
    """The variances of `columns` for one person, summed over every group and every code."""
    g, q, _, block = best_weights(mechanism, people)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    influence = g - np.add.reduceat(g * q, starts, axis=1)[:, block]
    truth = people.values @ people.shares
    rate = truth[-1]
    if isinstance(mechanism, NumberMechanism):
        centre, half = (UPPER + LOWER) / 2, (UPPER - LOWER) / 2
        lines = [[half, centre], [0, 1], [half / rate, -half * truth[0] / rate**2]]
    else:
        k = len(truth) - 1
        lines = [[0] * k + [1], *np.column_stack([np.eye(k) / rate, -truth[:k] / rate**2])]
    influence = np.array(lines) @ influence
    found = np.zeros(len(influence))
    for answer, share in zip(people.answers, people.shares, strict=True):
        p = codes_of(mechanism, answer)
        found += share * (influence**2 @ p - realised * (influence @ p) ** 2)
    return found


# Tails and bounds


def chi_square_tail(x, freedom):
    """P(X >= x) for X chi-square: the regularized upper incomplete gamma function.

    By its series where that converges, else by Lentz's continued fraction.
    """
    a, y = freedom / 2, x / 2
    if y <= 0:
        return 1.0
    front = math.exp(a * math.log(y) - y - math.lgamma(a)) if y < 700 + a else 0.0
    if y < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-16:
            k += 1
            term *= y / k
            total += term
        return 1 - front * total
    b = y + 1 - a
    c, d = 1e300, 1 / b
    h = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * h


def chi_square(observed, expected):
    """(statistic, p) of counts against what was expected."""
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return statistic, chi_square_tail(statistic, len(expected) - 1)


def chi_square_critical(alpha, freedom):
    low, high = 0.0, 10_000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if chi_square_tail(middle, freedom) > alpha else (low, middle)
    return high


def chernoff(successes, n, alpha, *, upper):
    """A bound of a binomial's p that fails with probability alpha at most, for every n and p.

    P(X >= k) <= exp(-n KL(k/n || p)) (Chernoff), solved for p by bisection. A little wider than
    Clopper and Pearson's, and proven in a line.
    """
    share = successes / n
    room = -math.log(alpha) / n

    def divergence(p):
        here = share * math.log(share / p) if share else 0.0
        return here + ((1 - share) * math.log((1 - share) / (1 - p)) if share < 1 else 0.0)

    inside, outside = (share, 1.0) if upper else (share, 0.0)
    for _ in range(200):
        middle = (inside + outside) / 2
        if 0 < middle < 1 and divergence(middle) <= room:
            inside = middle
        else:
            outside = middle
    return outside  # on the far side: rounding may only widen the bound


# Checkers. `draw(answers, rng)` is privatize, or a mutant of it.


def probes(mechanism):
    """Answers that reach every row of a small table and the rounding between anchors."""
    if isinstance(mechanism, ChoiceMechanism):
        answers = list(mechanism.options)
    else:
        answers = [
            LOWER + part * (UPPER - LOWER) for part in (0.0, 0.34375, 1.0)
        ]  # the middle of a gap of 16
    return [*answers, None] if mechanism.table.refusal else answers


def _column(answer, n):
    """n people with the same answer, as an array that privatize reads fast; NaN declines."""
    return np.full(n, np.nan if answer is None else float(answer))


def check_codes(mechanism, draw, *, n, seed, alpha=ALPHA):
    """Every answer's codes have the distribution that the mechanism's paper states for its epsilon."""
    answers = probes(mechanism)
    for i, answer in enumerate(answers):
        reports = draw(_column(answer, n), np.random.default_rng([seed, i]))
        observed = np.bincount(reports, minlength=len(mechanism.table.codes))
        statistic, p = chi_square(observed, n * codes_of(mechanism, answer))
        assert p >= alpha / len(answers), (
            f"{mechanism.name}: codes of probe {i}: chi-square {statistic:.1f}, {p=:.2g}, {n=}, {seed=}"
        )


def code_power(mechanism, other_rows, *, n, alpha=ALPHA):
    """How many standard deviations check_codes has to spare against another table; 4.8 is power 1 - 1e-6.

    The root of a non-central chi-square is normal around the root of its non-centrality.
    """
    answers = probes(mechanism)
    spare = -math.inf
    for answer in answers:
        p0, p1 = codes_of(mechanism, answer), codes_of(mechanism, answer, other_rows)
        critical = chi_square_critical(alpha / len(answers), len(p0) - 1)
        spare = max(spare, math.sqrt(n * float(((p1 - p0) ** 2 / p0).sum())) - math.sqrt(critical))
    return spare


def check_independence(mechanism, draw, *, n, seed, alpha=ALPHA):
    """Neighbouring reports are independent: pairs of codes against the product of their distributions."""
    answer = probes(mechanism)[1]
    width = len(mechanism.table.codes)
    group = np.arange(width) % 4 if width > 4 else np.arange(width)
    p = np.bincount(group, weights=codes_of(mechanism, answer))
    reports = group[draw(_column(answer, n), np.random.default_rng(seed))]
    for start in (0, 1):
        stop = start + (n - start) // 2 * 2
        pairs = reports[start:stop:2] * len(p) + reports[start + 1 : stop : 2]
        observed = np.bincount(pairs, minlength=len(p) ** 2)
        statistic, value = chi_square(observed, len(pairs) * np.outer(p, p).reshape(-1))
        assert value >= alpha / 2, (
            f"{mechanism.name}: neighbours from {start}: chi-square {statistic:.1f},"
            f" p={value:.2g}, {n=}, {seed=}"
        )


def check_refusals(mechanism, draw, *, n, seed, alpha=ALPHA):
    """A refusal among answers gets a report of its own, in its place, from the refusal's row."""
    assert mechanism.table.refusal
    answer = probes(mechanism)[0]
    refused = np.random.default_rng([seed, 1]).random(n) < 0.5
    answers = np.where(refused, np.nan, float(answer))
    reports = draw(answers, np.random.default_rng(seed))
    assert len(reports) == n, f"{mechanism.name}: {n} answers, {len(reports)} reports, {seed=}"
    for where, held in ((refused, None), (~refused, answer)):
        observed = np.bincount(reports[where], minlength=len(mechanism.table.codes))
        statistic, p = chi_square(observed, observed.sum() * codes_of(mechanism, held))
        assert p >= alpha / 2, (
            f"{mechanism.name}: {'refusals' if held is None else 'answers'}:"
            f" chi-square {statistic:.1f}, {p=:.2g}, {n=}, {seed=}"
        )


def check_bias(mechanism, draw, *, n, seed, rate=0.7, mean=0.5, alpha=ALPHA):
    """From people to estimate: each estimate lies within its stated error of these people's truth."""
    rate = rate if mechanism.table.refusal else 1.0
    people = population(mechanism, rate, mean)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, people.shares / people.shares.sum())
    order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    answers = np.array(people.answers, dtype=np.float64)[order]
    tally = mechanism.tally(draw(answers, rng))
    truth = columns(mechanism, (people.values @ counts / n)[None, :], n)[0]
    found = estimated(mechanism, tally)
    z = quantile(alpha / len(truth))
    sds = np.sqrt(stated_variances(mechanism, people, n, realised=True))
    for name, estimate, true, sd in zip(column_names(mechanism), found, truth, sds, strict=True):
        room = z * sd + 1e-9 * abs(true)
        p = math.erfc(abs(estimate - true) / max(sd, 1e-300) / math.sqrt(2)) if sd else 0.0
        assert abs(estimate - true) <= room, (
            f"{mechanism.name}: {name} is {estimate:.6g} where {true:.6g} is true,"
            f" standard error {sd:.2g}, {p=:.2g}, {n=}, {seed=}"
        )


def check_exact_epsilon(table, epsilon):
    """No two weights of a column have a ratio above e^epsilon: integers against 60 digits."""
    with localcontext() as context:
        context.prec = 60
        limit = Decimal(epsilon).exp()
        for c, column in enumerate(zip(*table.weights, strict=True)):
            ratio = Decimal(max(column)) / Decimal(min(column))
            assert ratio <= limit, f"code {c} has the ratio {ratio:.12f}, above exp({epsilon}) = {limit:.12f}"


def audited_epsilon(mechanism, draw, *, n, seed, alpha=ALPHA):
    """What an adversary proves about epsilon from reports alone; too large with probability alpha at most.

    Half of the reports chooses the two answers and the code that tell most, the other half bounds
    the ratio of their probabilities from below.
    """
    answers = probes(mechanism)
    width = len(mechanism.table.codes)
    halves = [
        [
            np.bincount(draw(_column(answer, n), np.random.default_rng([seed, half, i])), minlength=width)
            for i, answer in enumerate(answers)
        ]
        for half in range(2)
    ]
    logs = np.log(np.array(halves[0]) + 1.0)
    gaps = logs[:, None, :] - logs[None, :, :]
    high, low, code = np.unravel_index(np.argmax(gaps), gaps.shape)
    p = chernoff(int(halves[1][high][code]), n, alpha / 2, upper=False)
    q = chernoff(int(halves[1][low][code]), n, alpha / 2, upper=True)
    return math.log(p / q) if p > 0 else -math.inf


def check_audit(mechanism, draw, *, n, seed, alpha=ALPHA):
    """The adversary proves no more than was promised."""
    found = audited_epsilon(mechanism, draw, n=n, seed=seed, alpha=alpha)
    assert found <= mechanism.epsilon, (
        f"{mechanism.name}: the reports prove epsilon >= {found:.4f}, promised was {mechanism.epsilon},"
        f" p={alpha:.2g}, {n=}, {seed=}"
    )
