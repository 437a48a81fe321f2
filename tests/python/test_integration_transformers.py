"""LanewayTrainer against transformers.Trainer: what is logged, metrics, predictions and checkpoints
are equal, bit for bit, and a run that one of the two began goes on in the other."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import torch
from transformers import (
    BatchEncoding,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

import laneway
from laneway.integrations.transformers import LanewayTrainer
from laneway.jobs.mirrors.mirrored_model import ModelMirror
from support.eager import assert_same
from support.small_bert import classifier

_OF_TIME = ("runtime", "per_second", "model_preparation_time")


def language_model() -> torch.nn.Module:
    """Takes num_items_in_batch for its loss."""
    set_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    )


def rows(count: int, labels: str = "class") -> list[dict[str, torch.Tensor]]:
    """Labels "tokens" are those of a language model, and each row has another number of them."""
    made, generator = [], torch.Generator().manual_seed(7)
    for number in range(count):
        ids = torch.randint(1, 50, (8,), generator=generator)
        row = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if labels == "class":
            row["labels"] = ids.sum() % 3
        else:
            row["labels"] = torch.where(torch.arange(8) < 3 + number % 5, ids, -100)
        made.append(row)
    return made


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def trainer(
    kind: type[Trainer],
    folder: pathlib.Path,
    model: torch.nn.Module,
    service: Any,
    *,
    labels: str = "class",
    arguments: dict[str, Any] | None = None,
    **options: Any,
) -> Trainer:
    given = {
        "output_dir": str(folder),
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "per_device_train_batch_size": 4,
        "num_train_epochs": 1,
        "logging_steps": 1,
        "save_strategy": "no",
        "learning_rate": 1e-3,
        "dataloader_pin_memory": False,
    }
    arguments = TrainingArguments(**(given | (arguments or {})))
    if issubclass(kind, LanewayTrainer):
        options["laneway_options"] = {"service": service}
    return kind(
        model=model,
        args=arguments,
        train_dataset=rows(22, labels),
        eval_dataset=rows(6, labels),
        **options,
    )


def logged(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if not any(w in k for w in _OF_TIME)} for e in history]


def assert_same_end(ours: Trainer, theirs: Trainer) -> None:
    assert_same(logged(theirs.state.log_history), logged(ours.state.log_history), "log")
    assert_same(dict(theirs.model.state_dict()), dict(ours.model.state_dict()), "model")
    assert_same(
        theirs.optimizer.state_dict()["state"], ours.optimizer.state_dict()["state"], "optimizer"
    )


def assert_same_checkpoint(ours: pathlib.Path, theirs: pathlib.Path) -> None:
    names = sorted(path.name for path in theirs.iterdir())
    assert names == sorted(path.name for path in ours.iterdir())
    assert "model.safetensors" in names
    for name in ("model.safetensors",):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        first, second = (torch.load(at / name, weights_only=False) for at in (theirs, ours))
        if name == "rng_state.pth":
            first, second = first["cpu"], second["cpu"]
        assert_same(first, second, name)
    states = [json.loads((at / "trainer_state.json").read_text()) for at in (theirs, ours)]
    assert_same(*(logged(state["log_history"]) for state in states), "log")


def run_both(
    folder: pathlib.Path, service: Any, make: Any = classifier, **options: Any
) -> tuple[Trainer, Trainer]:
    """The same training both ways; (ours, theirs)."""
    done = []
    for kind in (LanewayTrainer, Trainer):
        made = trainer(kind, folder / kind.__name__, make(), service, **options)
        made.train()
        done.append(made)
    assert_same_end(*done)
    return done[0], done[1]


def test_a_run_with_dropout_clipping_and_a_schedule(tmp_path: pathlib.Path, service: Any) -> None:
    """The gradients are longer than what they are clipped to, and the norm is logged."""
    arguments = {"max_grad_norm": 0.1, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    ours, theirs = run_both(tmp_path, service, arguments=arguments)
    norms = [entry["grad_norm"] for entry in ours.state.log_history if "grad_norm" in entry]
    assert len(norms) == 6 and min(norms) > 0.1
    for name in ("evaluate", "predict"):
        given = [] if name == "evaluate" else [rows(6)]
        first, second = (getattr(each, name)(*given) for each in (theirs, ours))
        if name == "predict":
            assert_same(*(torch.from_numpy(each.predictions) for each in (first, second)))
            first, second = first.metrics, second.metrics
        assert_same(logged([first]), logged([second]), name)


@pytest.mark.parametrize("kind", ["class", "tokens"])
def test_accumulation_with_a_short_last_group(
    tmp_path: pathlib.Path, service: Any, kind: str
) -> None:
    """Six batches in groups of four; the last batch is short. A language model divides by the
    number of labels, which differs from group to group."""
    make = classifier if kind == "class" else language_model
    arguments = {"gradient_accumulation_steps": 4, "num_train_epochs": 2}
    ours, _ = run_both(tmp_path, service, make, labels=kind, arguments=arguments)
    assert ours.state.global_step == 4


def test_without_clipping_the_norm_is_still_logged(tmp_path: pathlib.Path, service: Any) -> None:
    ours, _ = run_both(tmp_path, service, arguments={"max_grad_norm": 0.0, "max_steps": 2})
    assert ours.state.log_history[0]["grad_norm"] > 0


def test_bf16_and_label_smoothing(tmp_path: pathlib.Path, service: Any) -> None:
    arguments = {"bf16": True, "label_smoothing_factor": 0.1, "max_steps": 3}
    run_both(tmp_path, service, arguments=arguments)


def test_compute_loss_func(tmp_path: pathlib.Path, service: Any) -> None:
    def loss_of(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor:
        summed = torch.nn.functional.cross_entropy(outputs["logits"], labels, reduction="sum")
        return summed / num_items_in_batch

    arguments = {"gradient_accumulation_steps": 2, "max_steps": 3}
    run_both(tmp_path, service, arguments=arguments, compute_loss_func=loss_of)


def test_batches_of_a_tokenizer(tmp_path: pathlib.Path, service: Any) -> None:
    """Collators for texts give a BatchEncoding, whose entries are attributes too."""

    def collate(given: list[Any]) -> BatchEncoding:
        return BatchEncoding(default_data_collator(given))

    class ByAttribute:
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            assert inputs.labels is inputs["labels"]
            return super().compute_loss(model, inputs, *args, **kwargs)

    ends = []
    for base in (LanewayTrainer, Trainer):
        kind = type("Tokenized", (ByAttribute, base), {})
        folder = tmp_path / base.__name__
        made = trainer(kind, folder, classifier(), service, data_collator=collate)
        made.train()
        ends.append(made)
    assert_same_end(*ends)


class Focused:
    """A subclass's own loss."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="none")
        loss = ((1 - torch.exp(-loss)) ** 2 * loss).mean()
        return (loss, outputs) if return_outputs else loss


def test_a_subclass_that_overrides_compute_loss(tmp_path: pathlib.Path, service: Any) -> None:
    ends = []
    for base in (LanewayTrainer, Trainer):
        kind = type("Focusing", (Focused, base), {})
        made = trainer(kind, tmp_path / base.__name__, classifier(), service)
        made.train()
        ends.append(made)
    assert_same_end(*ends)


def test_checkpoints_metrics_and_the_best_model(tmp_path: pathlib.Path, service: Any) -> None:
    """Evaluated and saved within the training, and the best model loaded at the end."""
    arguments = {
        "eval_strategy": "steps",
        "save_strategy": "steps",
        "eval_steps": 2,
        "save_steps": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": "loss",
        "learning_rate": 0.05,
    }
    ours, theirs = run_both(tmp_path, service, arguments=arguments, compute_metrics=accuracy)
    assert sum("eval_accuracy" in entry for entry in ours.state.log_history) == 3
    names = [pathlib.Path(each.state.best_model_checkpoint).name for each in (ours, theirs)]
    assert names[0] == names[1]
    for step in (2, 4, 6):
        folders = (tmp_path / each / f"checkpoint-{step}" for each in ("LanewayTrainer", "Trainer"))
        assert_same_checkpoint(*folders)


@pytest.mark.parametrize("first", [LanewayTrainer, Trainer])
def test_each_goes_on_from_a_checkpoint_of_the_other(
    tmp_path: pathlib.Path, service: Any, first: type[Trainer]
) -> None:
    """The run that was stopped in the middle of an epoch ends as one that was not."""
    second = Trainer if first is LanewayTrainer else LanewayTrainer
    arguments = {"save_strategy": "steps", "save_steps": 2}
    whole = trainer(Trainer, tmp_path / "whole", classifier(), service, arguments=arguments)
    whole.train()
    trainer(first, tmp_path / "parts", classifier(), service, arguments=arguments).train()
    resumed = trainer(second, tmp_path / "rest", classifier(), service, arguments=arguments)
    resumed.train(resume_from_checkpoint=str(tmp_path / "parts" / "checkpoint-2"))
    assert_same(dict(whole.model.state_dict()), dict(resumed.model.state_dict()), "model")
    folders = (tmp_path / "rest" / "checkpoint-6", tmp_path / "whole" / "checkpoint-6")
    assert_same_checkpoint(*folders)


def test_a_second_train_goes_on_with_the_optimizer(tmp_path: pathlib.Path, service: Any) -> None:
    ends = []
    for kind in (LanewayTrainer, Trainer):
        made = trainer(kind, tmp_path / kind.__name__, classifier(), service)
        made.train()
        made.train()
        ends.append(made)
    assert_same_end(*ends)


class Reading(TrainerCallback):
    """Looks at the weights between two steps, as an average of them would."""

    def __init__(self) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.seen.append({name: p.detach().clone() for name, p in model.named_parameters()})


def test_a_callback_sees_the_trained_weights(tmp_path: pathlib.Path, service: Any) -> None:
    readers = [Reading(), Reading()]
    for kind, reader in zip((LanewayTrainer, Trainer), readers):
        made = trainer(kind, tmp_path, classifier(), service, arguments={"max_steps": 2})
        made.add_callback(reader)
        made.train()
    assert len(readers[0].seen) == 2
    assert_same(readers[1].seen, readers[0].seen, "weights")


def test_the_weights_are_copied_once(
    tmp_path: pathlib.Path, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trainer counts the model's parameters for every batch, which is no read of them."""
    copies, refresh = [], ModelMirror.refresh

    def counting(self: ModelMirror, job: Any) -> None:
        copies.extend([1] if self.stale else [])
        refresh(self, job)

    monkeypatch.setattr(ModelMirror, "refresh", counting)
    trainer(LanewayTrainer, tmp_path, classifier(), service).train()
    assert len(copies) == 1


class Stopping(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


def test_an_interrupted_run_leaves_its_weights(tmp_path: pathlib.Path, service: Any) -> None:
    ends = []
    for kind in (LanewayTrainer, Trainer):
        made = trainer(kind, tmp_path / kind.__name__, classifier(), service)
        made.add_callback(Stopping())
        with pytest.raises(KeyboardInterrupt):
            made.train()
        ends.append(dict(made.model.state_dict()))
    assert_same(ends[1], ends[0], "model")
    assert {job["state"] for job in service.status()["jobs"]} == {"finished"}


class BeforeTheOptimizer(TrainerCallback):
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        pass


def test_what_is_refused(tmp_path: pathlib.Path, service: Any) -> None:
    made = trainer(LanewayTrainer, tmp_path, classifier(), service)
    made.add_callback(BeforeTheOptimizer())
    with pytest.raises(laneway.InvalidInput, match="BeforeTheOptimizer has on_pre_optimizer_step"):
        made.train()
    made = trainer(
        LanewayTrainer, tmp_path, classifier(), service, arguments={"torch_compile": True}
    )
    with pytest.raises(laneway.InvalidInput, match="torch_compile=True"):
        made.train()
    with pytest.raises(laneway.InvalidInput, match="closure is set by LanewayTrainer"):
        LanewayTrainer(classifier(), laneway_options={"closure": print})
