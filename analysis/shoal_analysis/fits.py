"""Laws of scaling, fitted to measured throughputs X(n) at n ranks.

    Amdahl     strong scaling   X(n) = X1 / (s + (1 − s)/n)                s: serial share of the work
    Gustafson  weak scaling     X(n) = X1 (s + (1 − s) n)                  s: serial share of the time
    USL        both             X(n) = X1 n / (1 + a (n − 1) + b n (n − 1))   a: contention, b: coherency

Sources: G. Amdahl, AFIPS 1967; J. Gustafson, CACM 31(5), 1988; N. Gunther, Guerrilla Capacity Planning, 2007, ch. 4–5.

Each is linear in other parameters (1/X for Amdahl, n/X for USL, X for Gustafson), so there is one least-squares solution and nothing
to iterate.  Errors are taken to be relative to the throughput, as those of measured times are.  Intervals are of 95 %, by Student's
t with n − p degrees of freedom and linear propagation; they are wide with few points, as they should be.  A fit is refused with
fewer than four different numbers of ranks: two parameters or three would follow any noise.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from .trace import Array

LEAST_POINTS = 4
# Student's t, two-sided 95 %, for 1, 2, … degrees of freedom; then the expansion below is good to four digits.
_T95 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


class FitError(ValueError):
    """The points do not allow a fit; the text says why."""


def t95(freedom: int) -> float:
    """Quantile 0.975 of Student's t."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z = 1.959964
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))


@dataclasses.dataclass(frozen=True)
class Fit:
    """law         "Amdahl", "Gustafson" or "USL"
    values      {parameter: estimate}, within the range that has a meaning
    low, high   {parameter: bound of its 95 % interval}, cut to that range
    throughput  X(n) of the fitted law
    points      number of measurements"""
    law: str
    values: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    throughput: Callable[[Array], Array]
    points: int

    def speedup(self, n: Array) -> Array:
        """X(n) / X(1)."""
        return self.throughput(np.asarray(n, float)) / self.throughput(np.array([1.0]))


def _checked(ranks: Sequence[float], throughput: Sequence[float], law: str) -> tuple[Array, Array]:
    n, x = np.asarray(ranks, float), np.asarray(throughput, float)
    good = np.isfinite(n) & np.isfinite(x) & (n > 0) & (x > 0)
    n, x = n[good], x[good]
    if len(np.unique(n)) < LEAST_POINTS:
        raise FitError(f"{law} needs runs with at least {LEAST_POINTS} different numbers of ranks; there are {len(np.unique(n))}")
    return n, x


def _least_squares(a: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """Coefficients c ≥ 0 that minimise Σ (weight (a c − y))², and the covariance of those without the bound.  With at most three
    unknowns every choice of those that are 0 is tried."""
    wa, wy = a * weight[:, None], y * weight
    free, *_ = np.linalg.lstsq(wa, wy, rcond=None)
    residual = wy - wa @ free
    freedom = max(len(y) - a.shape[1], 1)
    covariance = np.linalg.pinv(wa.T @ wa) * float(residual @ residual) / freedom
    best, least = free, np.inf
    for mask in range(1, 1 << a.shape[1]):
        used = [i for i in range(a.shape[1]) if mask >> i & 1]
        part, *_ = np.linalg.lstsq(wa[:, used], wy, rcond=None)
        rest = wy - wa[:, used] @ part
        error = float(rest @ rest) + 1e-18 * len(used)
        if (part >= 0).all() and error < least:
            best, least = np.zeros(a.shape[1]), error
            best[used] = part
    return best, covariance


def _interval(free: Array, covariance: Array, gradient: Array, freedom: int) -> float:
    return t95(max(freedom, 1)) * float(np.sqrt(max(float(gradient @ covariance @ gradient), 0.0)))


def _two(law: str, ranks: Sequence[float], throughput: Sequence[float], columns: Callable[[Array], Array],
         time: bool) -> tuple[Array, Array, float, float, float, int]:
    """A law c0 + c1 f(n) for 1/X (time) or X, whose parameter is s = c0 / (c0 + c1): c, n, s and its bounds."""
    n, x = _checked(ranks, throughput, law)
    y = 1 / x if time else x
    c, covariance = _least_squares(columns(n), y, 1 / y)
    total = float(c.sum())
    s = float(c[0]) / total
    half = _interval(c, covariance, np.array([c[1], -c[0]]) / total**2, len(n) - 2)
    return c, n, s, max(s - half, 0.0), min(s + half, 1.0), len(n)


def amdahl(ranks: Sequence[float], throughput: Sequence[float]) -> Fit:
    """Strong scaling: the work of a step is the same for all n.  Raises FitError under four different n."""
    c, _, s, low, high, points = _two("Amdahl", ranks, throughput, lambda n: np.stack([np.ones_like(n), 1 / n], axis=1), True)
    return Fit("Amdahl", {"serial": s}, {"serial": low}, {"serial": high}, lambda n: np.asarray(1 / (c[0] + c[1] / n)), points)


def gustafson(ranks: Sequence[float], throughput: Sequence[float]) -> Fit:
    """Weak scaling: the work of a step grows with n.  Raises FitError under four different n."""
    c, _, s, low, high, points = _two("Gustafson", ranks, throughput, lambda n: np.stack([np.ones_like(n), n], axis=1), False)
    return Fit("Gustafson", {"serial": s}, {"serial": low}, {"serial": high}, lambda n: np.asarray(c[0] + c[1] * n), points)


def usl(ranks: Sequence[float], throughput: Sequence[float]) -> Fit:
    """The universal scalability law.  `peak` is the number of ranks beyond which throughput does not grow, infinite without coherency.
    Raises FitError under four different n."""
    n, x = _checked(ranks, throughput, "USL")
    y = n / x
    c, covariance = _least_squares(np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1), y, 1 / y)
    c0 = float(c[0])
    a, b = float(c[1]) / c0, float(c[2]) / c0
    freedom = len(n) - 3
    half_a = _interval(c, covariance, np.array([-c[1] / c0**2, 1 / c0, 0]), freedom)
    half_b = _interval(c, covariance, np.array([-c[2] / c0**2, 0, 1 / c0]), freedom)
    peak = max(float(np.sqrt(max(1 - a, 0) / b)), 1.0) if b > 0 else float("inf") if a < 1 else 1.0
    return Fit("USL", {"contention": a, "coherency": b, "peak": peak},
               {"contention": max(a - half_a, 0.0), "coherency": max(b - half_b, 0.0)},
               {"contention": a + half_a, "coherency": b + half_b},
               lambda k: np.asarray(k / (c[0] + c[1] * (k - 1) + c[2] * k * (k - 1))), len(n))
