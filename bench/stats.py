"""Statistics of the benches: medians, percentiles and the interval of a ratio of medians.

Pure: the same samples and seed give the same numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


@dataclass(frozen=True)
class Interval:
    """An estimate with the two ends of its confidence interval."""

    median: float
    low: float
    high: float


def median(samples: Sequence[float]) -> float:
    """The middle sample, or the mean of the two in the middle."""
    return percentile(samples, 50)


def percentile(samples: Sequence[float], q: float) -> float:
    """The q-th percentile (0..100), interpolated linearly between the two nearest samples."""
    if len(samples) == 0:
        raise ValueError("a percentile needs at least one sample")
    return float(np.percentile(np.asarray(samples, dtype=np.float64), q))


def bootstrap_ratio(
    baselines: Sequence[Sequence[float]],
    measured: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """How many times as fast `measured` is as the best of `baselines`, all being times of paired
    trials (the i-th of each was taken in the same round): ratio of medians, percentile bootstrap.

    Rounds are resampled whole, so that drift which hits a round's trials alike cancels; the best
    baseline is chosen anew in each resample, so that its luck does not count as our slowness nor
    ours as its."""
    rng = np.random.default_rng(seed)
    ratio, resampled = _resampled_ratios(baselines, measured, resamples, rng)
    return _interval(ratio, resampled, confidence)


def bootstrap_median(
    samples: Sequence[float], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """The median of samples of one round each, with its percentile bootstrap interval."""
    if len(samples) == 0:
        raise ValueError("a median needs at least one sample")
    values = np.asarray(samples, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    return _interval(median(samples), np.median(values[picks], axis=1), confidence)


def hodges_lehmann(samples: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """The middle of samples that lie alike on both sides of it: the median of the means of all
    pairs, with the interval that Wilcoxon's signed ranks give (Hodges and Lehmann, Estimates of
    Location Based on Rank Tests, 1963). Nearly as narrow as a mean's, and a third of the samples
    may be arbitrarily wrong. Takes memory for n * n / 2 numbers."""
    if len(samples) == 0:
        raise ValueError("an estimate needs at least one sample")
    values = np.asarray(samples, dtype=np.float64)
    first, second = np.triu_indices(len(values))
    means = np.sort((values[first] + values[second]) / 2)
    n = len(values)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = z * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    outside = max(0, math.floor(n * (n + 1) / 4 - spread))
    return Interval(float(np.median(means)), float(means[outside]), float(means[-1 - outside]))


def bootstrap_median_ratio(
    comparisons: Sequence[tuple[Sequence[Sequence[float]], Sequence[float]]],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The median over several comparisons, each (baselines, measured) as bootstrap_ratio takes
    them. The comparisons are as given, not a sample of others: only their rounds are resampled."""
    if not comparisons:
        raise ValueError("bootstrap_median_ratio needs at least one comparison")
    rng = np.random.default_rng(seed)
    found = [_resampled_ratios(b, m, resamples, rng) for b, m in comparisons]
    middle = median([ratio for ratio, _ in found])
    return _interval(middle, np.median([resampled for _, resampled in found], axis=0), confidence)


def _resampled_ratios(
    baselines: Sequence[Sequence[float]],
    measured: Sequence[float],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, np.ndarray]:
    """The ratio, and the ratio of each resample."""
    times = np.asarray([*baselines, measured], dtype=np.float64)
    if times.ndim != 2 or times.shape[0] < 2 or times.shape[1] < 1:
        raise ValueError("a ratio needs baselines and as many measured trials of each")
    rounds = times.shape[1]
    ratios = np.empty(resamples)
    for first in range(0, resamples, 1000):
        picks = rng.integers(rounds, size=(min(1000, resamples - first), rounds))
        medians = np.median(times[:, picks], axis=2)
        ratios[first : first + len(picks)] = medians[:-1].min(axis=0) / medians[-1]
    medians = np.median(times, axis=1)
    return float(medians[:-1].min() / medians[-1]), ratios


def _interval(estimate: float, resampled: np.ndarray, confidence: float) -> Interval:
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Interval(estimate, float(low), float(high))
