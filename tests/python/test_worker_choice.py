"""The worker that an installed lanewayd starts: the one for the torch that is there, checked before
lanewayd begins. The package here is a folder with copies of the real worker that were changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from laneway.demo import processes
from laneway.native import launch, programs, torch_versions
from laneway.native.torch_versions import Torch, minor_of

MINOR = minor_of(torch.__version__)
REAL = programs.worker(MINOR)
pytestmark = pytest.mark.skipif(REAL is None, reason="laneway-worker is not built")


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """An installed package with a worker for this torch and a folder for another one."""
    package = tmp_path / "laneway"
    for name in (MINOR, "2.99"):
        (package / f"lib/torch-{name}").mkdir(parents=True)
    worker = package / f"lib/torch-{MINOR}/laneway-worker"
    worker.write_bytes(REAL.read_bytes())
    (package / "bin").mkdir()
    (package / "bin/lanewayd").write_text('#!/bin/sh\necho "$LANEWAY_WORKER"\n')
    (package / "bin/lanewayd").chmod(0o755)
    monkeypatch.setattr(programs, "PACKAGE", package)
    for name in ("LANEWAY_BUILD", "LANEWAY_WORKER", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    return package


def refusal() -> str:
    with pytest.raises(SystemExit) as end:
        launch.lanewayd()
    assert str(end.value).startswith("lanewayd: ")
    return str(end.value)


def test_the_worker_beside_the_library_for_this_torch(package):
    worker = package / f"lib/torch-{MINOR}/laneway-worker"
    environment = launch.service_environment()
    assert environment["LANEWAY_WORKER"] == str(worker)
    folder = Path(torch.__file__).parent / "lib"  # not beside the package
    assert environment["LD_LIBRARY_PATH"] == str(folder)


def test_lanewayd_is_told_of_it(package, monkeypatch):
    become: list[tuple] = []
    monkeypatch.setattr(os, "execve", lambda *words: become.append(words))
    monkeypatch.setattr(sys, "argv", ["lanewayd", "--lanes", "2"])
    launch.lanewayd()
    ((program, words, environment),) = become
    assert program == package / "bin/lanewayd" and words == ["lanewayd", "--lanes", "2"]
    assert environment["LANEWAY_WORKER"].endswith(f"lib/torch-{MINOR}/laneway-worker")


def test_one_that_is_named_is_taken_and_checked_as_well(package, monkeypatch, tmp_path):
    monkeypatch.setenv("LANEWAY_WORKER", str(REAL))
    assert launch.service_environment()["LANEWAY_WORKER"] == str(REAL)
    monkeypatch.setenv("LANEWAY_WORKER", str(tmp_path / "none"))
    assert f"{tmp_path / 'none'} is missing: " in refusal()


def test_a_worker_for_another_torch(package):
    worker = package / f"lib/torch-{MINOR}/laneway-worker"
    mark = b"LANEWAY\0" + torch.__version__.encode()
    whole = worker.read_bytes()
    assert whole.count(mark) == 1
    worker.write_bytes(whole.replace(mark, mark.replace(b"2.", b"3.")))
    said = refusal()
    assert f"{worker} is for torch 3." in said and "name one for torch" in said
    assert "in LANEWAY_WORKER, or build it" in said


def test_a_damaged_worker(package):
    worker = package / f"lib/torch-{MINOR}/laneway-worker"
    worker.write_bytes(worker.read_bytes()[:5000])
    assert f"{worker} is damaged: the file has 5000 bytes of " in refusal()


def test_a_folder_without_its_worker(package):
    (package / f"lib/torch-{MINOR}/laneway-worker").unlink()
    said = refusal()
    assert f"torch-{MINOR}/laneway-worker is missing: install the package laneway again" in said
    assert "laneway-worker" in processes.missing_programs().split(", ")


def test_a_package_without_the_folder_for_this_torch(package):
    (package / f"lib/torch-{MINOR}/laneway-worker").unlink()
    (package / f"lib/torch-{MINOR}").rmdir()
    said = refusal()
    assert f"torch-{MINOR} is missing, only torch-2.99 is there: install the package" in said


def test_a_torch_that_works_with_no_worker(package, monkeypatch):
    monkeypatch.setattr(torch_versions, "found_torch", lambda: Torch("2.9.0", Path("/x/torch")))
    assert refusal().startswith("lanewayd: /x/torch is torch 2.9.0, and this Laneway works with")


def test_in_a_checkout_it_is_a_program_as_any_other(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "PACKAGE", tmp_path)
    monkeypatch.setenv("LANEWAY_BUILD", str(REAL.parents[1]))
    monkeypatch.delenv("LANEWAY_WORKER", raising=False)
    assert programs.worker(MINOR) == REAL
