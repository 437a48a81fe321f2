"""LanewayStrategy against Lightning's own run on the CPU: what is logged, metrics and checkpoints
are equal, bit for bit, and a run that one of the two began goes on in the other."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import lightning
import pytest
import torch
import torchmetrics
from lightning.pytorch.callbacks import (
    Callback,
    GradientAccumulationScheduler,
    LearningRateMonitor,
    ModelCheckpoint,
)
from lightning.pytorch.loggers.logger import Logger
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.integrations.lightning import LanewayStrategy
from support.eager import assert_same


@pytest.fixture
def service():
    with laneway.embedded("256MiB") as opened, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        yield opened


class Classifier(lightning.LightningModule):
    """Dropout, a scheduler, logs of every kind, and a metric of the validation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 4)
        )
        self.mean = torchmetrics.MeanMetric()

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        scores = self.net(x)
        loss = F.cross_entropy(scores, y)
        self.log("loss", loss, prog_bar=True)
        accuracy = (scores.argmax(-1) == y).float().mean()
        self.log_dict({"accuracy": accuracy, "rows": float(len(x))}, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.mean(loss)
        self.log_dict({"val_loss": loss, "val_mean": self.mean})

    def test_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("test_loss", F.cross_entropy(self.net(x), y))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Recording(Logger):
    """Keeps what is logged."""

    name, version = "recording", 0

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[int | None, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.entries.append((step, dict(metrics)))

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass


def loader(count: int, shuffle: bool = False) -> Any:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 8, generator=generator)
    y = torch.randint(0, 4, (count,), generator=generator)
    dataset = torch.utils.data.TensorDataset(x, y)
    return torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=shuffle)


def make_trainer(service: Any, folder: pathlib.Path, **options: Any) -> lightning.Trainer:
    """With the strategy if there is a service."""
    strategy = {"strategy": LanewayStrategy(service=service)} if service is not None else {}
    fixed = {"enable_progress_bar": False, "enable_model_summary": False, "logger": Recording()}
    callbacks = [*options.pop("callbacks", []), LearningRateMonitor()]
    return lightning.Trainer(
        **({"max_epochs": 2, "log_every_n_steps": 1} | fixed | options | strategy),
        accelerator="cpu",
        devices=1,
        default_root_dir=folder,
        callbacks=callbacks,
    )


def fit(
    service: Any, folder: pathlib.Path, kind: type = Classifier, resume: Any = None, **options: Any
) -> tuple[lightning.Trainer, Any]:
    torch.manual_seed(3)
    module = kind()
    trainer = make_trainer(service, folder, **options)
    trainer.fit(module, loader(22, True), loader(6), ckpt_path=resume)
    return trainer, module


def assert_same_ends(ours: tuple, theirs: tuple) -> None:
    (trainer, module), (expected, expected_module) = ours, theirs
    assert expected.logger.entries
    assert_same(expected.logger.entries, trainer.logger.entries, "log")
    assert_same(dict(expected.callback_metrics), dict(trainer.callback_metrics), "metrics")
    assert_same(dict(expected_module.state_dict()), dict(module.state_dict()), "model")
    first, second = (each.optimizers[0].state_dict() for each in (expected, trainer))
    assert_same(first, second, "optimizer")
    assert expected.global_step == trainer.global_step


def fit_both(service: Any, folder: pathlib.Path, kind: type = Classifier, **options: Any) -> tuple:
    """(ours, theirs)"""
    ends = [fit(given, folder / str(given is None), kind, **options) for given in (service, None)]
    assert_same_ends(*ends)
    return ends[0], ends[1]


def test_logs_schedules_validation_and_test(tmp_path: pathlib.Path, service: Any) -> None:
    """A short last batch, validation within the epochs, and a test after them."""
    ends = fit_both(service, tmp_path, gradient_clip_val=0.5, val_check_interval=3)
    names = {name for _, entry in ends[0][0].logger.entries for name in entry}
    assert {"loss", "accuracy_step", "accuracy_epoch", "rows_epoch", "val_loss"} <= names
    results = [trainer.test(module, loader(6), verbose=False) for trainer, module in ends]
    assert_same(results[1], results[0], "test")


@pytest.mark.parametrize("algorithm", ["norm", "value"])
def test_accumulation_and_clipping(tmp_path: pathlib.Path, service: Any, algorithm: str) -> None:
    """Six batches in groups of four: each epoch ends with a group of two."""
    (trainer, _), _ = fit_both(
        service,
        tmp_path,
        accumulate_grad_batches=4,
        gradient_clip_val=0.05,
        gradient_clip_algorithm=algorithm,
    )
    assert trainer.global_step == 4


def test_accumulation_that_begins_later(tmp_path: pathlib.Path, service: Any) -> None:
    def callbacks() -> list[Callback]:
        return [GradientAccumulationScheduler({0: 1, 1: 2})]

    ours, theirs = (fit(each, tmp_path, callbacks=callbacks()) for each in (service, None))
    assert_same_ends(ours, theirs)
    assert ours[0].global_step == 9


class Watched(Classifier):
    """Logs in the hooks that see gradients, and returns more than a loss."""

    def training_step(self, batch: Any) -> Any:
        x, y = batch
        scores = self.net(x)
        return {"loss": F.cross_entropy(scores, y), "scores": scores.detach()}

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.log("mean_score", outputs["scores"].mean())

    def on_after_backward(self) -> None:
        self.log("bias", self.net[0].bias.grad.abs().sum())

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        gradients = [p.grad for p in self.parameters()]
        self.log("norm", nn.utils.get_total_norm(gradients))
        self.log("rate", optimizer.param_groups[0]["lr"])

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        nn.utils.clip_grad_norm_(self.net[0].parameters(), 0.1)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, closure: Any) -> None:
        optimizer.step(closure=closure)
        optimizer.param_groups[0]["lr"] *= 0.9


def test_hooks_of_the_module_log_and_clip(tmp_path: pathlib.Path, service: Any) -> None:
    (trainer, _), _ = fit_both(service, tmp_path, Watched, accumulate_grad_batches=2)
    names = {name for _, entry in trainer.logger.entries for name in entry}
    assert {"bias", "rate", "mean_score", "norm"} <= names


def test_bf16(tmp_path: pathlib.Path, service: Any) -> None:
    fit_both(service, tmp_path, precision="bf16-mixed", max_steps=3)


def every_two_steps() -> list[Callback]:
    return [ModelCheckpoint(every_n_train_steps=2, save_top_k=-1, filename="{step}")]


def checkpoints(folder: pathlib.Path) -> dict[str, Any]:
    found = {path.name: path for path in folder.rglob("*.ckpt")}
    return {name: torch.load(path, weights_only=False) for name, path in found.items()}


def test_checkpoints(tmp_path: pathlib.Path, service: Any) -> None:
    for given in (service, None):
        fit(given, tmp_path / str(given is None), callbacks=every_two_steps())
    ours, theirs = (checkpoints(tmp_path / str(eager)) for eager in (False, True))
    assert sorted(theirs) == sorted(ours) and len(ours) == 6
    for name, expected in theirs.items():
        for part in ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "loops"):
            assert_same(expected[part], ours[name][part], f"{name}/{part}")


@pytest.mark.parametrize("ours_first", [True, False])
def test_each_goes_on_from_a_checkpoint_of_the_other(
    tmp_path: pathlib.Path, service: Any, ours_first: bool
) -> None:
    first, second = (service, None) if ours_first else (None, service)
    fit(first, tmp_path / "first", max_epochs=1, callbacks=every_two_steps())
    (saved,) = (tmp_path / "first").rglob("step=6.ckpt")
    ends = [fit(each, tmp_path / str(each is None), resume=saved) for each in (service, None)]
    assert_same_ends(*ends)
    assert ends[0][0].global_step == 12
    assert second is None or service.status()["jobs"][-1]["iterations"] == 6


class Reading(Callback):
    """Looks at the weights between two steps, as an average of them would."""

    def __init__(self) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        self.seen.append({name: p.detach().clone() for name, p in module.named_parameters()})


def test_a_callback_sees_the_trained_weights(tmp_path: pathlib.Path, service: Any) -> None:
    readers = [Reading(), Reading()]
    for given, reader in zip((service, None), readers):
        fit(given, tmp_path, callbacks=[reader], max_steps=2)
    assert len(readers[0].seen) == 2
    assert_same(readers[1].seen, readers[0].seen, "weights")


class Stopping(Callback):
    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 2:
            raise RuntimeError("stopped")


def test_an_interrupted_run_leaves_its_weights(tmp_path: pathlib.Path, service: Any) -> None:
    ends = []
    for given in (service, None):
        torch.manual_seed(3)
        module = Classifier()
        with pytest.raises(RuntimeError, match="stopped"):
            make_trainer(given, tmp_path, callbacks=[Stopping()]).fit(module, loader(22, True))
        ends.append(dict(module.state_dict()))
    assert_same(ends[1], ends[0], "model")
    assert {job["state"] for job in service.status()["jobs"]} == {"finished"}


def changed(**methods: Any) -> type:
    return type("Changed", (Classifier,), methods)


def by_number(self: Any, batch: Any, batch_idx: int) -> Any:
    return self.net(batch[0]).sum() * (2 if batch_idx % 2 else 1)


def by_epoch(self: Any, batch: Any) -> Any:
    return self.net(batch[0]).sum() * self.current_epoch


def by_step(self: Any, batch: Any) -> Any:
    return self.net(batch[0]).sum() * self.trainer.global_step


def with_nothing(self: Any, batch: Any) -> Any:
    return None


def from_iterator(self: Any, dataloader_iter: Any) -> Any:
    return self.net(next(dataloader_iter)[0][0]).sum()


def without_closure(self: Any, epoch: int, batch_idx: int, optimizer: Any, closure: Any) -> None:
    closure()
    optimizer.step()


class Measured(Classifier):
    def training_step(self, batch: Any) -> Any:
        loss = self.net(batch[0]).mean()
        self.mean.update(loss)
        return loss


class ByHand(Classifier):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Inside(Callback):
    def on_after_backward(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "error", "words", "options"),
    [
        (changed(training_step=by_number), "CaptureError", "uses batch_idx", {}),
        (changed(training_step=by_epoch), "CaptureError", "uses current_epoch", {}),
        (changed(training_step=by_step), "CaptureError", "uses global_step", {}),
        (changed(training_step=with_nothing), "CaptureError", "returns None", {}),
        (changed(training_step=from_iterator), "InvalidInput", "takes dataloader_iter", {}),
        (changed(optimizer_step=without_closure), "InvalidInput", "without its closure", {}),
        (Measured, "CaptureError", "MeanMetric", {}),
        (ByHand, "InvalidInput", "automatic_optimization = False", {}),
        (Classifier, "InvalidInput", "Inside has on_after_backward", {"callbacks": [Inside()]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(
    tmp_path: pathlib.Path, service: Any, kind: type, error: str, words: str, options: Any
) -> None:
    with pytest.raises(getattr(laneway, error), match=words):
        fit(service, tmp_path, kind, **options)


def test_arguments_of_the_strategy_itself_are_refused() -> None:
    with pytest.raises(laneway.InvalidInput, match="closure is set by the strategy"):
        LanewayStrategy(closure=print)
