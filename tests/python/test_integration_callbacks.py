"""Callbacks of Lightning and of transformers.Trainer, one by one and ten at once: the run is bit
for bit that of the library itself, and no step is refused."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import lightning
import pytest
import torch
import transformers
from lightning.pytorch import callbacks
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.integrations.lightning import LanewayStrategy
from laneway.integrations.transformers import LanewayTrainer
from support.eager import assert_same
from support.small_bert import classifier


@pytest.fixture
def service():
    with laneway.embedded("256MiB") as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield opened


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout())
        self.head = nn.Linear(16, 4)
        self.smoothing = 0.1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        loss = F.cross_entropy(self(x), y, label_smoothing=self.smoothing)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, lr=0.05, momentum=0.9)


class Anneals(callbacks.Callback):
    """A number that the step reads, and a dropout, change from epoch to epoch."""

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        module.smoothing *= 0.5
        module.backbone[2].p = 0.1 * (trainer.current_epoch + 1)


class Watches(callbacks.Callback):
    """Reads weights and losses around each batch."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        self.seen.append(float(outputs["loss"]))
        self.seen.append(float(module.head.weight.sum()))


LIGHTNING = {
    "EarlyStopping": lambda at: callbacks.EarlyStopping("val_loss", patience=1),
    "ModelCheckpoint": lambda at: callbacks.ModelCheckpoint(at, monitor="val_loss", save_top_k=2),
    "LearningRateMonitor": lambda at: callbacks.LearningRateMonitor(),
    "StochasticWeightAveraging": lambda at: callbacks.StochasticWeightAveraging(
        0.01, swa_epoch_start=2, annealing_epochs=1
    ),
    "GradientAccumulationScheduler": lambda at: callbacks.GradientAccumulationScheduler({1: 2}),
    "Timer": lambda at: callbacks.Timer(),
    "LambdaCallback": lambda at: callbacks.LambdaCallback(
        on_train_epoch_end=lambda trainer, module: module.head.bias.data.mul_(0.5)
    ),
    "BackboneFinetuning": lambda at: callbacks.BackboneFinetuning(
        unfreeze_backbone_at_epoch=2, backbone_initial_ratio_lr=0.1
    ),
    "ModelSummary": lambda at: callbacks.ModelSummary(2),
    "DeviceStatsMonitor": lambda at: callbacks.DeviceStatsMonitor(cpu_stats=False),
    "ModelPruning": lambda at: callbacks.ModelPruning(
        "l1_unstructured", parameter_names=["weight"], amount=0.3
    ),
    "EMAWeightAveraging": lambda at: callbacks.EMAWeightAveraging(decay=0.9),
    "Anneals": lambda at: Anneals(),
    "Watches": lambda at: Watches(),
}
# Those that do not change the weights of another one.
AT_ONCE = [
    "EarlyStopping", "ModelCheckpoint", "LearningRateMonitor", "GradientAccumulationScheduler",
    "Timer", "LambdaCallback", "ModelSummary", "DeviceStatsMonitor", "Anneals", "Watches",
]  # fmt: skip


def loader(count: int) -> Any:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 8, generator=generator)
    y = torch.randint(0, 4, (count,), generator=generator)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=5)


def fit(service: Any, folder: pathlib.Path, names: list[str]) -> tuple[Any, ...]:
    torch.manual_seed(3)
    module = Classifier()
    made = [LIGHTNING[name](folder) for name in names]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=4,
        log_every_n_steps=1,
        enable_progress_bar=False,
        default_root_dir=folder,
        callbacks=made,
        **({"strategy": LanewayStrategy(service=service)} if service is not None else {}),
    )
    trainer.fit(module, loader(20), loader(10))
    seen = [watch.seen for watch in made if isinstance(watch, Watches)]
    optimizer = trainer.optimizers[0].state_dict()["state"]
    return dict(module.state_dict()), optimizer, dict(trainer.callback_metrics), seen


@pytest.mark.parametrize("names", [*([name] for name in LIGHTNING), AT_ONCE], ids="+".join)
def test_callbacks_of_lightning(tmp_path: pathlib.Path, service: Any, names: list[str]) -> None:
    assert_same(fit(None, tmp_path / "theirs", names), fit(service, tmp_path / "ours", names))


class Follows(transformers.TrainerCallback):
    """Reads the weights at each of its moments, and changes what the step reads."""

    def __init__(self, moment: str, change: Any = None) -> None:
        self.seen: list[float] = []

        def come(args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            model = kwargs["model"]
            self.seen.append(float(sum(p.double().sum() for p in model.parameters())))
            if change is not None:
                change(model, state)

        setattr(self, moment, come)


def _dropout(model: Any, state: Any) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.05 + 0.01 * state.global_step


def _freeze(model: Any, state: Any) -> None:
    model.bert.embeddings.requires_grad_(state.global_step % 2 == 0)


def _shrink(model: Any, state: Any) -> None:
    with torch.no_grad():
        model.classifier.weight.mul_(0.9)


TRAINER = {
    "EarlyStopping": lambda: transformers.EarlyStoppingCallback(2),
    "Printer": lambda: transformers.PrinterCallback(),
    "on_step_begin": lambda: Follows("on_step_begin"),
    "on_substep_end": lambda: Follows("on_substep_end"),
    "on_step_end": lambda: Follows("on_step_end"),
    "on_epoch_begin": lambda: Follows("on_epoch_begin"),
    "on_evaluate": lambda: Follows("on_evaluate"),
    "annealed dropout": lambda: Follows("on_step_end", _dropout),
    "freezes": lambda: Follows("on_step_end", _freeze),
    "shrinks weights": lambda: Follows("on_step_end", _shrink),
}


def train(
    kind: type, folder: pathlib.Path, names: list[str], options: dict[str, Any]
) -> tuple[Any, ...]:
    model, generator = classifier(), torch.Generator()
    words = torch.randint(1, 50, (20, 8), generator=generator.manual_seed(7))
    rows = [{"input_ids": row, "labels": row.sum() % 3} for row in words]
    made = [TRAINER[name]() for name in names]
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        logging_steps=1,
        dataloader_pin_memory=False,
    )
    trainer = kind(
        model=model, args=args, train_dataset=rows, eval_dataset=rows[:6], callbacks=made, **options
    )
    trainer.train()
    seen = [getattr(watch, "seen", None) for watch in made]
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return dict(trainer.model.state_dict()), seen, losses


@pytest.mark.parametrize("names", [*([name] for name in TRAINER), list(TRAINER)], ids="+".join)
def test_callbacks_of_trainer(
    tmp_path: pathlib.Path, service: Any, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = train(transformers.Trainer, tmp_path / "theirs", names, {})
    given = {"laneway_options": {"service": service}}
    assert_same(theirs, train(LanewayTrainer, tmp_path / "ours", names, given))
