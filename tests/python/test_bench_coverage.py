"""The coverage bench: what it makes of workers that fail or differ; and the
families' batches. The networks themselves are rows of SUPPORT.md."""

import pytest
import torch

from bench import coverage, models
from bench.harness import Options
from bench.worker import WorkerFailed


class FakeWorker:
    """Stands for a process: trials take what `us` says, state is `bits`."""

    def __init__(self, us, bits="same", refusal=None):
        self.us, self.bits, self.refusal = us, bits, refusal
        self.about = {"notes": [], "setup_s": 1.0}

    def make(self):
        if self.refusal:
            raise WorkerFailed(self.refusal)

    def trial(self, iterations):
        return {"times_ns": [self.us * 1000] * iterations, "minor_faults": 0}

    def digests(self):
        return {"model.a": "same", "model.b": self.bits}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def rows_of(monkeypatch, ours):
    """Rows of a run over as many networks as there are workers in `ours`, by case and metric."""
    names = models.FAMILIES[: len(ours)]

    def worker(name, variant, options):
        slow = {"eager": 400, "eager_keep": 300}
        return FakeWorker(slow[variant]) if variant in slow else ours[names.index(name)]

    monkeypatch.setattr(coverage, "_worker", worker)
    report = coverage.run(Options(trials=4, quick=True, only=names))
    return names, {(row["case"], row["metric"]): row for row in report.rows}


def test_a_network_that_is_refused_counts_against_both_shares(monkeypatch):
    refused = FakeWorker(0, refusal="CaptureError: no such operator")
    names, rows = rows_of(monkeypatch, [FakeWorker(100), refused])
    assert rows[names[1], "captured"]["value"] == 0
    assert rows[names[1], "captured"]["note"] == "CaptureError: no such operator"
    assert rows["all", "captured_share"]["value"] == 0.5
    assert rows["all", "state_equal_share"]["value"] == 0.5
    assert rows["all", "speed_over_eager_median"]["value"] == pytest.approx(3)


def test_other_bits_are_named(monkeypatch):
    names, rows = rows_of(monkeypatch, [FakeWorker(100, bits="other")])
    assert rows[names[0], "state_equal"]["value"] == 0
    assert rows[names[0], "state_equal"]["note"] == "1 of 2 tensors differ, the first is model.b"
    assert rows["all", "captured_share"]["value"] == 1
    assert rows["all", "state_equal_share"]["holds"] is False


def test_without_an_eager_there_is_nothing_to_compare(monkeypatch):
    monkeypatch.setattr(coverage, "_worker", lambda *_: FakeWorker(0, refusal="no torchvision"))
    with pytest.raises(WorkerFailed, match="eager did not run: no torchvision"):
        coverage.run(Options(only=models.FAMILIES[:1]))


@pytest.mark.parametrize("name", ["squeezenet1_0", "googlenet", "hf_bert", "hf_llama"])
def test_a_seed_fixes_weights_and_batches_of_a_family(name):
    first, second = models.make(name, seed=7), models.make(name, seed=7)
    for a, b in zip(first.model.state_dict().values(), second.model.state_dict().values()):
        assert torch.equal(a, b)
    torch.randn(3)  # batches do not depend on what else is drawn
    tensors = [torch.utils._pytree.tree_leaves(work.batch(2)) for work in (first, second)]
    assert all(map(torch.equal, *tensors))
    inputs, named = models.arguments(first.batch(2))
    loss = first.loss_of()(*inputs, **named)
    assert loss.numel() == 1 and loss.requires_grad and torch.isfinite(loss)
