"""The general estimator: linear functionals of who holds what, from any table, for many tallies at once.

Unknown are the shares pi of the rows; seen are the frequencies f of the codes, E f = W'pi. A
functional T.pi is estimated by g.f with W g = T, which makes it unbiased whatever pi is. Where many
such g exist the one of least variance is taken, g = t - N z with W t = T, W N = 0 and z by least
squares weighted with the codes' probabilities p = W'pi. Written this way (and not with 1/p), a code
that nobody sent is no special case.

A public coin's blocks have known probabilities, so that each block is counted for itself, as the
paper's f_POS and f_NEG are; for BiSample the general estimator is then the paper's closed form.

Nothing here checks counts: they are integers from 0, one for each code, when they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from bisample.protocol.table import Table

__all__ = ["Blocks", "Floats", "Ints", "Solution", "blocks_of", "fit", "solve", "system", "variances"]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# Singular values of W below this part of the largest are zero by the table's structure. Real ones
# are of the order of epsilon or larger, and epsilon is at least 1e-6.
_RANK_TOLERANCE = 1e-11
# A cruder first estimate costs next to nothing: the variance is flat at its minimum. After 100 steps it
# is within 0.2 % of the least, at every epsilon and population tried.
_EM_STEPS = 100
_EM_TOLERANCE = 1e-5
_CHUNK = 1 << 19  # numbers in the largest array of a step: 4 MB


@dataclass(frozen=True)
class Solution:
    """Estimates of T functionals from each of R tallies, with their covariance.

    Where `known[r, i]` is False no estimate exists, and `values` and `covariance` are nan there.
    """

    n: Ints  # (R,): reports
    values: Floats  # (R, T)
    covariance: Floats  # (R, T, T)
    known: Bools  # (R, T)
    blocks: Ints  # (R, blocks): reports in each block of the coin


@dataclass(frozen=True)
class Blocks:
    """The blocks of a table's public coin."""

    of_code: Ints  # the block of each code
    starts: Ints  # the first code of each block
    mass: Floats  # the probability of each block, which no answer has a part in

    def sums(self, numbers: Any) -> Any:
        """Sums over the codes of each block, along the last axis."""
        return np.add.reduceat(numbers, self.starts, axis=-1)


@lru_cache(maxsize=64)
def blocks_of(table: Table) -> Blocks:
    """The blocks of a table.

    >>> from bisample import BiSample
    >>> blocks_of(BiSample(epsilon=1).table).mass
    array([0.5, 0.5])
    """
    sizes = np.array(table.blocks, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    mass = np.add.reduceat(table.matrix[0], starts)
    return Blocks(np.repeat(np.arange(len(sizes)), sizes), starts, mass)


@dataclass(frozen=True)
class System:
    """What depends on the table and on which blocks are empty, but not on the counts."""

    codes: Ints  # the codes of the blocks that are not empty
    blocks: Blocks  # of these codes alone; masses given that the report is in one of them
    matrix: Floats  # W given that the report is in one of these blocks
    particular: Floats  # t, a row a target: W t = T
    free: Floats  # N, a column a direction: W N = 0; no columns where blocks leave no choice
    known: Bools

    def least_variance(self, probabilities: Floats) -> Floats:
        """(R, T, C): g = t - N z with the z that minimises the variance of g.f at such probabilities (R, C).

        >>> from bisample import DitheredResponse
        >>> table = DitheredResponse(epsilon=1).table
        >>> s = system(table, (), np.ones((1, 18)))
        >>> g = s.least_variance(np.full((1, 48), 1 / 48))
        >>> bool(np.allclose(g, 1))  # everybody is counted without an error
        True
        """
        if not self.free.shape[1]:
            return self.particular[None]
        root = np.sqrt(probabilities)[:, :, None]
        # Least squares by QR: the normal equations would square the condition, which is up to e^epsilon.
        q, r = np.linalg.qr(root * self.free)
        z = np.linalg.solve(r, q.transpose(0, 2, 1) @ (root * self.particular.T))
        best: Floats = self.particular - z.transpose(0, 2, 1) @ self.free.T
        return best

    def scored(self, fitted: Floats, frequencies: Floats) -> Floats:
        """The codes' probabilities after one step of Fisher scoring from the fit: for the covariance.

        The fit stops early, which costs the weights nothing but would show in the errors stated. The
        step is the least-squares projection of the frequencies onto what the table can produce; a cell
        keeps at least half of its fitted value, because few reports can throw the projection below 0.

        >>> from bisample import DitheredResponse
        >>> table = DitheredResponse(epsilon=1).table
        >>> s, flat = system(table, (), np.ones((1, 18))), np.full((1, 48), 1 / 48)
        >>> bool(np.allclose(s.scored(flat, flat), flat))
        True
        """
        root = np.sqrt(fitted)
        q = np.linalg.qr(root[:, :, None] * self.free)[0]
        step = (q @ (q.transpose(0, 2, 1) @ (frequencies / root)[:, :, None]))[:, :, 0]
        scored: Floats = np.maximum(frequencies - root * step, fitted / 2)
        return scored


def system(table: Table, empty: tuple[int, ...], targets: Floats) -> System:
    """The equations W g = T on the blocks that are not empty; those asked for last are remembered.

    >>> from bisample import BiSample
    >>> system(BiSample(epsilon=1).table, (0,), np.array([[1.0, 1.0, 0.0]])).known
    array([False])
    """
    wanted = np.ascontiguousarray(targets, dtype=np.float64)
    return _system(table, empty, wanted.tobytes(), len(wanted))


@lru_cache(maxsize=64)
def _system(table: Table, empty: tuple[int, ...], targets: bytes, count: int) -> System:
    wanted = np.frombuffer(targets).reshape(count, -1)
    blocks = blocks_of(table)
    codes = np.flatnonzero(~np.isin(blocks.of_code, empty))
    matrix = table.matrix[:, codes]
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    left, singular, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int((singular > singular[0] * _RANK_TOLERANCE).sum())
    particular = ((wanted @ left[:, :rank]) / singular[:rank]) @ right[:rank]
    missed = np.abs(particular @ matrix.T - wanted).max(axis=1)
    known = missed <= 1e-6 * np.abs(wanted).max(axis=1)
    kept = np.unique(blocks.of_code[codes], return_inverse=True)[1]
    starts = np.flatnonzero(np.diff(kept, prepend=-1))
    free = right[rank:].T
    if free.shape[1] < len(starts):
        # Only the differences between blocks are left free, and counting each block for itself has
        # used them up.
        free = free[:, :0]
    return System(
        codes, Blocks(kept, starts, np.add.reduceat(matrix[0], starts)), matrix, particular, free, known
    )


def solve(table: Table, counts: Ints, targets: Floats) -> Solution:
    """Estimate targets (T x rows) @ shares from each of R tallies: `counts` is R x codes.

    >>> from bisample import RandomizedResponse
    >>> table = RandomizedResponse(epsilon=1).table
    >>> result = solve(table, np.array([[60, 40], [0, 0]]), np.array([[0.0, 1.0]]))
    >>> result.values.round(6).tolist(), result.n.tolist()
    ([[0.283605], [nan]], [100, 0])
    """
    wanted, tallies = len(targets), len(counts)
    in_block = blocks_of(table).sums(counts)
    values = np.full((tallies, wanted), np.nan)
    covariance = np.full((tallies, wanted, wanted), np.nan)
    known = np.zeros((tallies, wanted), dtype=bool)
    # Tallies with the same empty blocks have the same equations.
    patterns, which = np.unique(in_block == 0, axis=0, return_inverse=True)
    step = max(1, _CHUNK // (max(wanted, table.matrix.shape[0]) * table.matrix.shape[1]))
    for i, pattern in enumerate(patterns):
        if pattern.all():
            continue
        equations = system(table, tuple(int(u) for u in np.flatnonzero(pattern)), targets)
        group = np.flatnonzero(which.ravel() == i)
        for first in range(0, len(group), step):
            part = group[first : first + step]
            values[part], covariance[part] = _solve_group(equations, counts[part][:, equations.codes])
        known[group] = equations.known
    both = known[:, :, None] & known[:, None, :]
    values, covariance = np.where(known, values, np.nan), np.where(both, covariance, np.nan)
    return Solution(counts.sum(axis=1), values, covariance, known, in_block)


def variances(table: Table, shares: Floats, targets: Floats) -> Floats:
    """n times the covariance of the estimates of `targets`, for respondents drawn with these row shares.

    >>> from bisample import RandomizedResponse
    >>> table = RandomizedResponse(epsilon=1).table
    >>> v = variances(table, np.array([0.5, 0.5]), np.array([[0.0, 1.0]]))
    >>> round(float(v[0, 0]), 4)  # (1/4) / (2p - 1)^2
    1.1707
    """
    equations = system(table, (), targets)
    probabilities = (shares @ table.matrix)[None]
    blocks = equations.blocks
    within = probabilities / blocks.mass[blocks.of_code]
    weights = equations.least_variance(probabilities)
    found: Floats = _block_covariance(blocks, weights, within, blocks.mass[None])[0]
    return found


def fit(matrix: Floats, frequencies: Floats) -> tuple[Floats, Floats]:
    """Shares of the rows that fit frequencies (R x codes), and the codes' probabilities under them.

    Expectation maximization from equal shares, each tally until it stands still. All probabilities are
    positive, because every weight of a table is; so no weight is built on an empty cell.

    >>> shares, fitted = fit(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.5, 0.5]]))
    >>> shares.tolist(), fitted.tolist()
    ([[0.5, 0.5]], [[0.5, 0.5]])
    """
    shares = np.full((len(frequencies), len(matrix)), 1 / len(matrix))
    fitted = shares @ matrix
    moving, some, f, p = np.arange(len(shares)), shares, frequencies, fitted
    for _ in range(_EM_STEPS):
        some = some * ((f / p) @ matrix.T)
        before, p = p, some @ matrix
        still = np.abs(p - before).max(axis=1) <= _EM_TOLERANCE * p.max(axis=1)
        if still.any():
            shares[moving[still]], fitted[moving[still]] = some[still], p[still]
            moving, some, f, p = moving[~still], some[~still], f[~still], p[~still]
            if not len(moving):
                break
    shares[moving], fitted[moving] = some, p
    return shares, fitted


def _solve_group(equations: System, counts: Ints) -> tuple[Floats, Floats]:
    """Values and covariances from tallies with reports in every block of the equations."""
    blocks = equations.blocks
    in_block = blocks.sums(counts)
    within = counts / in_block[:, blocks.of_code]
    frequencies = within * blocks.mass[blocks.of_code]
    weights = equations.particular[None]
    if equations.free.shape[1]:
        fitted = fit(equations.matrix, frequencies)[1]
        weights = equations.least_variance(fitted)
        scored = equations.scored(fitted, frequencies)
        within = scored / blocks.sums(scored)[:, blocks.of_code]
    else:
        # A code nobody sent would make its block look free of noise: use the nearest shares that the
        # table can produce at all.
        possible = equations.matrix / blocks.mass[blocks.of_code]
        nearest = np.clip(within, possible.min(axis=0), possible.max(axis=0))
        within = np.where((counts == 0).any(axis=1, keepdims=True), nearest, within)
    values = (weights @ frequencies[:, :, None])[:, :, 0]
    return values, _block_covariance(blocks, weights, within, blocks.mass**2 / in_block)


def _block_covariance(blocks: Blocks, weights: Floats, within: Floats, scale: Floats) -> Floats:
    """(R, T, T): the sum over blocks of scale * weights (diag q - q q') weights', q the shares within it."""
    means = blocks.sums(weights * within[:, None, :])
    # Around the block's mean: without it, two large numbers would be subtracted at small epsilon.
    centred = weights - means[:, :, blocks.of_code]
    spread = within * scale[:, blocks.of_code]
    covariance: Floats = (centred * spread[:, None, :]) @ centred.transpose(0, 2, 1)
    return covariance
