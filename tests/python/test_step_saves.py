"""Shows that a step that saves every N iterations can be gone on with: after the client was killed
in its loop or in a save, after the service was killed, and after a save that failed, which loses no
iteration. What a resumed run leaves has the bits of a run that nobody killed."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laneway
from support.daemon import Lanewayd
from support.eager import assert_same, eager_step

ROOT = Path(__file__).resolve().parents[2]
EPOCHS, EVERY = 3, 5
LOSS = nn.CrossEntropyLoss()
DATA = TensorDataset(torch.linspace(-1, 1, 64 * 8).reshape(64, 8), torch.arange(64) % 3)
BATCH = DATA[:8]


def made(seed: int = 1) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 3))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step_of(service: Any, seed: int = 1, **options: Any) -> laneway.TrainStep:
    model, optimizer = made(seed)
    return laneway.train_step(model, LOSS, optimizer, service, **options)


def train(run: Any, done: int = 0) -> None:
    """The epochs that are left after `done` iterations. Each has an order of its own."""
    for epoch in range(done // 8, EPOCHS):
        order = torch.Generator().manual_seed(epoch)
        loader = DataLoader(DATA, 8, shuffle=True, generator=order)
        for x, y in itertools.islice(loader, done % 8, None):
            run(x, y)
        done = 0


def expected() -> dict[str, Any]:
    model, optimizer = made()
    train(lambda x, y: eager_step(model, LOSS, optimizer, (x, y)))
    return {"model": dict(model.state_dict()), "random": torch.get_rng_state()}


def check(step: laneway.TrainStep) -> None:
    state = step.state_dict()
    assert_same(expected(), {"model": state["model"], "random": state["random"]})
    assert step.iterations == EPOCHS * 8


# Trains as above and kills itself at an iteration, or in the middle of a save.
CLIENT = """
import os, signal, sys
import torch, laneway
from test_step_saves import EVERY, step_of, train
torch.set_num_threads(1)
path, at, end = sys.argv[1], int(sys.argv[2]), os.replace

def replace(aside, target):
    if at < 0 and torch.load(aside)["iterations"] == -at:
        os.kill(os.getpid(), signal.SIGKILL)
    end(aside, target)

os.replace = replace
with laneway.embedded("256MiB") as service, step_of(service) as step:
    if os.path.exists(path):
        step.load(path)

    def run(x, y):
        step.save(path, every=EVERY)
        step(x, y)
        if step.iterations == at:
            os.kill(os.getpid(), signal.SIGKILL)

    train(run, step.iterations)
"""


def run_client(path: Path, at: int) -> int:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "python", ROOT / "tests" / "python")))
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(path), str(at)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.returncode


@pytest.mark.embedded_only("the client opens its own service")
@pytest.mark.parametrize("at, whole", [(17, 15), (-15, 10)], ids=["in the loop", "in a save"])
def test_a_run_goes_on_after_its_client_was_killed(service, tmp_path, at, whole):
    path = tmp_path / "run.pt"
    assert run_client(path, at) == -signal.SIGKILL
    assert torch.load(path)["iterations"] == whole
    with step_of(service, seed=2) as step:
        step.load(path)
        assert step.iterations == whole
        train(step, step.iterations)
        check(step)


@pytest.mark.embedded_only("about a lanewayd that is killed")
def test_a_run_goes_on_after_its_service_was_killed(tmp_path):
    path = tmp_path / "run.pt"
    with Lanewayd() as daemon, daemon.connect() as service:
        step = step_of(service)
        step.save(path, every=EVERY)

        def run(x: torch.Tensor, y: torch.Tensor) -> None:
            if step.iterations == 17:
                daemon.process.kill()
                daemon.process.wait()
            step(x, y)

        with pytest.raises(laneway.ServiceUnavailable):
            train(run)
    with Lanewayd() as daemon, daemon.connect() as service, step_of(service, seed=2) as step:
        step.load(path)
        train(step, step.iterations)
        check(step)


def saved_at(path: Path) -> int:
    return torch.load(path)["iterations"] if path.exists() else 0


def test_files_are_written_after_every_n_iterations_from_the_first_save_on(service, tmp_path):
    path, other = tmp_path / "run.pt", tmp_path / "other.pt"
    with step_of(service) as step:
        found = []
        for number in range(1, 13):
            if number == 2:
                step.save(path, every=3)  # after 4, 7, 10
                assert not path.exists()
            if number in (3, 5):
                step.save(str(path), every=3)  # changes nothing
            if number == 6:
                step.save(other, every=2)  # after 7; every 4 from 8 on would be after 12
            if number == 9:
                step.save(other, every=4)
            if number == 11:
                step.save(path, every=0)
                step.save(other, every=None)
                step.save(other, every=1)
            future = step.submit(*BATCH) if number % 2 else None
            result = future.result() if future is not None else step(*BATCH)
            assert result.item() > 0
            found.append((saved_at(path), saved_at(other)))
        assert step.iterations == 12
    assert [a for a, _ in found] == [0, 0, 0, 4, 4, 4, 7, 7, 7, 10, 10, 10]
    assert [b for _, b in found] == [0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 11, 12]


def test_a_file_of_before_has_the_state_after_its_iteration(service, tmp_path):
    """Submissions that are in flight when the file is due are in it, later ones are not."""
    with step_of(service) as step:
        step.save(tmp_path / "run.pt", every=3)
        futures = [step.submit(*BATCH) for _ in range(5)]
        for future in futures:
            future.result()
        state = torch.load(tmp_path / "run.pt")
    with step_of(service) as step:
        for _ in range(3):
            step(*BATCH)
        assert_same(step.state_dict() | {"iterations": 3}, state)


def test_a_file_without_iterations_is_loaded_and_leaves_the_count(service, tmp_path):
    with step_of(service) as step:
        step(*BATCH)
        torch.save(step.state_dict(), tmp_path / "plain.pt")
        step(*BATCH)
        step.load(tmp_path / "plain.pt")
        assert step.iterations == 2
        torch.save(step.state_dict() | {"iterations": -1}, tmp_path / "bad.pt")
        with pytest.raises(laneway.InvalidInput, match=r"bad\.pt .* 'iterations' is -1"):
            step.load(tmp_path / "bad.pt")


def test_loading_counts_on_from_the_file(service, tmp_path):
    path = tmp_path / "run.pt"
    with step_of(service) as step:
        for _ in range(3):
            step(*BATCH)
        step.save(path)
        step.save(path, every=4)
        step(*BATCH)
        step.load(path)
        assert step.iterations == 3
        for _ in range(4):
            assert saved_at(path) == 3
            step(*BATCH)
        assert saved_at(path) == 7


def _no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))


def _room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.parametrize("what", ["no room", "no folder"])
def test_a_save_that_fails_on_the_way_loses_no_iteration(service, tmp_path, what):
    folder = tmp_path / "saves"
    folder.mkdir()
    path = folder / "run.pt"
    with step_of(service) as step, step_of(service) as twin:
        step.save(path, every=2)
        torch.manual_seed(5)
        losses = [step(*BATCH), step(*BATCH)]
        before = path.read_bytes()
        if what == "no room":
            _no_room()
        else:
            folder.rename(tmp_path / "away")
        try:
            losses.append(step(*BATCH))
            with pytest.warns(
                RuntimeWarning, match=r"after iteration 4 was not saved to .*run\.pt"
            ):
                losses.append(step(*BATCH))
            with pytest.raises(OSError):
                step.save(path)
        finally:
            _room()
        if what == "no folder":
            (tmp_path / "away").rename(folder)
        assert path.read_bytes() == before and os.listdir(folder) == ["run.pt"]
        losses += [step(*BATCH), step(*BATCH)]
        assert saved_at(path) == 6
        torch.manual_seed(5)
        assert_same([twin(*BATCH) for _ in range(6)], losses)


def test_ctrl_c_counts_the_iteration_that_goes_on(service, tmp_path, monkeypatch):
    """A file that is written afterwards has as many iterations as it says."""
    with step_of(service) as step, step_of(service) as twin:
        torch.manual_seed(5)
        step(*BATCH)
        form = BATCH[0][:4], BATCH[1][:4]
        preparation = step.prepare_many([form], background=True)
        monkeypatch.setattr(step._variants, "_capture", lambda: _interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(*BATCH)
        monkeypatch.undo()
        assert step.iterations == 2 and not preparation.done()
        step.save(tmp_path / "run.pt")
        torch.manual_seed(5)
        twin(*BATCH), twin(*BATCH)
        assert_same(twin.state_dict() | {"iterations": 2}, torch.load(tmp_path / "run.pt"))


def _interrupted(args: Any, kwargs: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("every", [-1, 2.0, True])
def test_other_numbers_are_refused(service, tmp_path, every):
    with step_of(service) as step:
        with pytest.raises(laneway.InvalidInput, match=r"every = .*: give a number of iterations"):
            step.save(tmp_path / "run.pt", every=every)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            step.save(tmp_path / "nowhere" / "run.pt", every=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(*BATCH)
