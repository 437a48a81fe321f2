"""The benches' statistics, against figures that are known or simulated apart from them."""

import os
import random

import numpy as np
import pytest

from bench import stats
from bench.harness import Calibration, calibration_loop, interleaved, paired_trials


@pytest.fixture
def rng():
    seed = int(os.environ.get("LANEWAY_SEED", random.SystemRandom().randrange(2**32)))
    print(f"LANEWAY_SEED={seed}")
    return np.random.default_rng(seed)


def paired_times(rng, rounds, ratio, noise, drift):
    """Times of a baseline and of something `ratio` times as fast, with noise of their own and
    drift in common."""
    common = np.exp(rng.normal(0, drift, rounds))
    baseline = ratio * common * np.exp(rng.normal(0, noise, rounds))
    return baseline, common * np.exp(rng.normal(0, noise, rounds))


def test_median_and_percentiles_of_known_samples():
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([4, 1, 2, 3]) == 2.5
    assert stats.percentile(range(101), 99) == 99
    assert stats.percentile([7], 99) == 7
    with pytest.raises(ValueError, match="at least one"):
        stats.median([])


def test_a_constant_ratio_has_an_interval_of_no_width():
    ratio = stats.bootstrap_ratio([[6.0] * 9], [2.0] * 9)
    assert (ratio.low, ratio.median, ratio.high) == (3, 3, 3)


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says(rng):
    """200 simulated benches of known ratio: a 95 % interval must hold it in nearly that many."""
    held = 0
    for _ in range(200):
        baseline, measured = paired_times(rng, 30, ratio=1.5, noise=0.05, drift=0.1)
        found = stats.bootstrap_ratio([baseline], measured, resamples=1000)
        held += found.low <= 1.5 <= found.high
    assert 0.88 <= held / 200 <= 1.0


def test_pairing_takes_common_drift_out(rng):
    """Drift that hits both trials of a round alike widens an interval only when the rounds are
    mixed up."""
    baseline, measured = paired_times(rng, 60, ratio=1.2, noise=0.01, drift=0.3)
    paired = stats.bootstrap_ratio([baseline], measured)
    mixed = stats.bootstrap_ratio([rng.permutation(baseline)], measured)
    assert (paired.high - paired.low) * 3 < mixed.high - mixed.low


def test_the_best_baseline_counts():
    """A slower second baseline changes nothing; a faster one lowers the ratio."""
    measured = [1.0] * 5
    assert stats.bootstrap_ratio([[2.0] * 5, [3.0] * 5], measured).median == 2
    assert stats.bootstrap_ratio([[2.0] * 5, [1.5] * 5], measured).median == 1.5


def test_the_same_samples_give_the_same_interval(rng):
    baseline, measured = paired_times(rng, 20, ratio=2, noise=0.1, drift=0.1)
    first = stats.bootstrap_ratio([baseline], measured, seed=3)
    assert stats.bootstrap_ratio([baseline], measured, seed=3) == first


def test_unpaired_samples_are_refused():
    with pytest.raises(ValueError):
        stats.bootstrap_ratio([[1.0, 2.0]], [1.0])
    with pytest.raises(ValueError, match="needs baselines"):
        stats.bootstrap_ratio([], [1.0])


def test_rounds_run_forwards_and_backwards():
    assert list(interleaved(["a", "b", "c"], 3)) == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_paired_trials_calls_every_variant_once_a_round_in_that_order():
    calls = []

    def variant(name):
        calls.append(name)
        return float(len(calls))

    samples = paired_trials({n: lambda n=n: variant(n) for n in "ab"}, 4)
    assert calls == list("abbaabba")
    assert samples == {"a": [1, 4, 5, 8], "b": [2, 3, 6, 7]}


def test_the_calibration_loop_does_fixed_work():
    """The same result each time: the loop cannot be skipped or depend on anything."""
    assert calibration_loop(3) == calibration_loop(3) != calibration_loop(4)
    calibration = Calibration()
    calibration.sample()
    assert len(calibration.samples_ms) == 1 and calibration.samples_ms[0] > 0


def test_the_median_over_comparisons_holds_the_true_one(rng):
    """Of ratios 1, 1.5 and 4 the middle one; each comparison has drift of its own."""
    compared = []
    for ratio in (4.0, 1.0, 1.5):
        baseline, measured = paired_times(rng, 30, ratio, noise=0.02, drift=0.1)
        compared.append(([baseline, baseline * 2], measured))
    found = stats.bootstrap_median_ratio(compared, confidence=0.999)
    assert 1 < found.low <= 1.5 <= found.high < 4
    with pytest.raises(ValueError, match="at least one"):
        stats.bootstrap_median_ratio([])


def test_the_interval_of_a_median_holds_it_and_shrinks_with_samples():
    few = stats.bootstrap_median([1.0, 2.0, 3.0])
    many = stats.bootstrap_median([1.0, 2.0, 3.0] * 30)
    assert few.median == many.median == 2
    assert few.low <= many.low <= 2 <= many.high <= few.high
    with pytest.raises(ValueError, match="at least one"):
        stats.bootstrap_median([])


def test_hodges_lehmann_is_the_median_of_the_means_of_pairs():
    """1, 2, 4: the means are 1, 1.5, 2, 2.5, 3 and 4; too few samples for a narrower interval."""
    assert stats.hodges_lehmann([4.0, 1.0, 2.0]) == stats.Interval(2.25, 1.0, 4.0)
    assert stats.hodges_lehmann([7.0]) == stats.Interval(7.0, 7.0, 7.0)
    with pytest.raises(ValueError, match="at least one"):
        stats.hodges_lehmann([])


def test_hodges_lehmann_covers_as_often_as_it_says_and_bears_wild_samples():
    """Of 400 samples of 40 draws about 3, one in twenty or so has an interval without 3; a fifth of
    the draws being far too large moves the estimate by less than their spread."""
    rng = np.random.default_rng(1)
    found = [stats.hodges_lehmann(rng.normal(3.0, 1.0, 40)) for _ in range(400)]
    misses = sum(not one.low <= 3.0 <= one.high for one in found)
    assert 8 <= misses <= 36
    draws = rng.normal(3.0, 1.0, 100)
    draws[:20] += 1000.0
    assert abs(stats.hodges_lehmann(draws).median - 3.0) < 1.0
