"""Shows that the code blocks of docs/porting.md do what the page says: each section's block "after"
leaves the losses, weights, optimizer and random state of its block "before"."""

from __future__ import annotations

import decimal
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laneway
from support.eager import assert_same

PAGE = Path(__file__).resolve().parents[2] / "docs" / "porting.md"
DATA = TensorDataset(torch.linspace(-1, 1, 64 * 8).reshape(64, 8), torch.arange(64) % 3)


def sections() -> dict[str, list[str]]:
    """The code blocks below each heading."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return {
        title: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for title, text in zip(parts[1::2], parts[2::2])
    }


@pytest.fixture
def service(monkeypatch):
    """The service of steps that are given none."""
    with laneway.embedded("256MiB") as opened:
        for module in ("step", "inference_job"):
            monkeypatch.setattr(f"laneway.jobs.{module}.default_service", lambda: opened)
        yield opened


def evaluate(model: nn.Module) -> float:
    model.eval()
    with torch.no_grad():
        correct = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(DATA, 16))
    model.train()
    return correct


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    start = int(torch.randint(0, 56, ()))
    return DATA[start : start + 8]


def names(seed: int = 1) -> dict[str, Any]:
    """What a script has defined before its loop."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(8, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(16, 3),
        nn.LogSoftmax(1),
    )
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
    return {
        "laneway": laneway,
        "torch": torch,
        "nn": nn,
        "F": F,
        "os": os,
        "itertools": itertools,
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7),
        "loader": DataLoader(DATA, 8, shuffle=True),
        "losses": [],
        "test": evaluate,
        "get_batch": batch,
        "rate": lambda number: 0.1 * (number + 1),
        "x": DATA[:8][0],
    }


def run(code: str, known: dict[str, Any]) -> dict[str, Any]:
    exec(compile(code, str(PAGE), "exec"), known)
    return known


def left(known: dict[str, Any]) -> list[Any]:
    """All that a script leaves."""
    state = known["optimizer"].state_dict()
    return [known["losses"], dict(known["model"].state_dict()), state, torch.get_rng_state()]


@pytest.mark.parametrize("title", ["One model, one optimizer", "Micro-batches, clipping, autocast"])
def test_after_equals_before(service, title):
    before, after = sections()[title]
    assert "laneway" not in before and "@laneway.step" in after
    expected = left(run(before, names()))
    known = run(after, names())
    assert_same(expected, left(known))
    known["train"].close()


def test_a_step_of_the_page_is_found_to_differ(service):
    (block,) = sections()["When in doubt"]
    known = names() | {"decimal": decimal}
    known["model"].eval()
    train = run(block, known)["train"]
    y = torch.zeros(8, 3)
    with decimal.localcontext() as context:
        train(known["x"], y)
        context.prec *= 2
        with pytest.raises(
            laneway.VerificationError, match=r"iteration 2 of this step.* the result"
        ):
            train(known["x"], y)


def test_inferences_of_the_page_are_eagers(service):
    known = run(sections()["One model, one optimizer"][1], names())
    twin = names()["model"]
    known["train"].sync_to(twin)
    known["losses"].clear()
    random = torch.get_rng_state()
    for block in sections()["Evaluation"]:
        run(block, known)
    after = torch.get_rng_state()
    torch.set_rng_state(random)
    with torch.no_grad():
        expected = [twin.eval()(known["x"]).sum().item(), twin.train()(known["x"]).sum().item()]
    assert_same([expected, after], [known["losses"], torch.get_rng_state()])
    assert_same(dict(twin.state_dict()), known["train"].state_dict()["model"])
    known["train"].close()


def resumable(path: Path, seed: int) -> dict[str, Any]:
    known = names(seed) | {"path": str(path)}
    known["loader"] = DataLoader(DATA, 8, shuffle=True, generator=torch.Generator())
    model, optimizer = known["model"], known["optimizer"]

    @laneway.step(model, optimizer)
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return known | {"train": train}


class Ended(Exception):
    """The end of a run."""


class EndsAt(list):
    """Losses of a run that ends with the 13th."""

    def append(self, loss: float) -> None:
        super().append(loss)
        if len(self) == 13:
            raise Ended


def test_a_run_of_the_page_goes_on_from_its_file(service, tmp_path):
    (block,) = sections()["Checkpoints and resume"]
    known = resumable(tmp_path / "whole.pt", 1)
    whole = run(block, known)
    expected = [whole["losses"][10:], *left(whole)[1:]]
    assert whole["train"].iterations == 16
    known = resumable(tmp_path / "run.pt", 1) | {"losses": EndsAt()}
    with pytest.raises(Ended):
        run(block, known)
    known = run(block, resumable(tmp_path / "run.pt", 2))  # after 10 iterations
    assert_same(expected, left(known))


def gan(seed: int = 1) -> dict[str, Any]:
    torch.manual_seed(seed)
    netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(16, 1))
    netG = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
    return names() | {
        "netD": netD,
        "netG": netG,
        "optD": torch.optim.Adam(netD.parameters(), lr=0.02, betas=(0.5, 0.999)),
        "optG": torch.optim.Adam(netG.parameters(), lr=0.03, betas=(0.5, 0.999)),
        "loss_of": F.binary_cross_entropy_with_logits,
    }


def test_a_gan_of_the_page_equals_eagers(service):
    before, after = sections()["Several models and optimizers"]
    eager = run(before, gan())
    models = [dict(eager[name].state_dict()) for name in ("netD", "netG")]
    expected = [eager["losses"], models, torch.get_rng_state()]
    known = run(after, gan())
    state = known["train"].state_dict()
    assert_same(expected, [known["losses"], state["model"], state["random"]])
    known["train"].close()


def regression() -> dict[str, Any]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    x = DATA[:][0].double()
    return names() | {"model": model, "optimizer": optimizer, "x": x, "y": x.sum(1, keepdim=True)}


def test_lbfgs_of_the_page_equals_eagers(service):
    before, after = sections()["An optimizer that calls the model: LBFGS"]
    assert_same(left(run(before, regression())), left(known := run(after, regression())))
    known["gradients"].close()


def test_the_trainer_of_the_page_equals_transformers(service, tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def script(number: int) -> dict[str, Any]:
        torch.manual_seed(1)
        config = transformers.BertConfig(
            vocab_size=16,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=8,
        )
        rows = torch.randint(0, 16, (24, 8))
        arguments = transformers.TrainingArguments(
            str(tmp_path / str(number)),
            max_steps=5,
            per_device_train_batch_size=4,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        return {
            "transformers": transformers,
            "model": transformers.BertForSequenceClassification(config),
            "dataset": [{"input_ids": row, "labels": row[0] % 2} for row in rows],
            "args": arguments,
        }

    found = []
    for number, block in enumerate(sections()["Trainer of Transformers"]):
        known = run(block, script(number))
        logs = [entry.get("loss") for entry in known["trainer"].state.log_history]
        found.append([logs, dict(known["model"].state_dict()), torch.get_rng_state()])
    assert_same(*found)


def test_the_strategy_of_the_page_equals_lightnings(service, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 3))

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.01)

    found = []
    for block in sections()["Lightning"]:
        module = Module()
        arguments = {
            "max_epochs": 2,
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": str(tmp_path),
        }
        if "LanewayStrategy" in block:
            del arguments["accelerator"]  # the strategy has its own
        known = {"lightning": lightning, "module": module, "arguments": arguments}
        run(block, known | {"loader": DataLoader(DATA, 8, shuffle=True)})
        found.append([dict(module.state_dict()), torch.get_rng_state()])
    assert_same(*found)


def test_the_data_parallel_recipe_has_the_bits_of_ddp(tmp_path):
    """Two processes each; all that each of them leaves is compared, and the processes of one run
    have different batches."""
    program = Path(__file__).parent / "support" / "data_parallel.py"
    left_by = {}
    for number, block in enumerate(sections()["Data parallel: several processes, one model"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "block.py").write_text(block)
        paths = os.pathsep.join(sys.path)
        ranks = [
            subprocess.Popen(
                [sys.executable, str(program), str(folder), str(rank)],
                env=os.environ
                | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            )
            for rank in range(2)
        ]
        try:
            assert [rank.wait(240) for rank in ranks] == [0, 0]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        left_by[number] = [torch.load(folder / f"left{rank}.pt") for rank in range(2)]
    assert_same(left_by[0], left_by[1])
    first, second = left_by[1]
    assert first["losses"] != second["losses"] and len(first["losses"]) == 12
    assert_same(first["model"], second["model"])
