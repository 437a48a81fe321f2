"""What a wheel's binaries take from torch is there in another patch release of it, or is named. The
binaries here are copies of a small library that comes with torch and needs the same two of it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
import torch

import make_wheel
from check_wheel import WheelError
from laneway.native.torch_versions import minor_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/wheel"))
import patch_releases  # noqa: E402
from torch_folders import NoTorch  # noqa: E402

PACKAGES = Path(torch.__file__).parents[1]
MINOR = minor_of(torch.__version__)
BINARY = PACKAGES / "torch/lib/libshm.so"
TAKEN = b"torchCheckFail"  # a function of libc10.so that it calls
NOT_THERE = b"torchCheckGone"


@pytest.fixture(autouse=True)
def no_other_path(monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def binary_in(path: Path, taken: bytes = TAKEN) -> Path:
    whole = BINARY.read_bytes()
    assert TAKEN in whole
    (path / "ours.so").write_bytes(whole.replace(TAKEN, taken))
    return path / "ours.so"


def wheel_with(path: Path, binary: Path) -> Path:
    with zipfile.ZipFile(path / "laneway.whl", "w") as archive:
        archive.write(binary, f"laneway/lib/torch-{MINOR}/liblaneway_embedded.so")
        archive.write(BINARY, "laneway/lib/torch-3.1/liblaneway_embedded.so")
        archive.writestr("laneway/lib/liblaneway_client.so", "")
    return path / "laneway.whl"


def test_every_symbol_is_there(tmp_path):
    assert patch_releases.unresolved(binary_in(tmp_path), PACKAGES) == []


def test_a_symbol_that_this_release_lacks_is_named(tmp_path):
    missing = patch_releases.unresolved(binary_in(tmp_path, NOT_THERE), PACKAGES)
    assert missing and all(NOT_THERE.decode() in symbol for symbol in missing)


def test_a_torch_that_is_not_there_is_no_torch_that_has_everything(tmp_path):
    missing = patch_releases.unresolved(binary_in(tmp_path), tmp_path)
    for library in ("libtorch_cpu.so", "libc10.so"):
        assert f"{library}, which is at not found" in missing


def test_the_binaries_of_that_minor_version_are_looked_at(tmp_path):
    wheel = wheel_with(tmp_path, binary_in(tmp_path, NOT_THERE))
    (first, *_) = patch_releases.check(wheel, MINOR, PACKAGES, [])
    assert first.startswith("liblaneway_embedded.so: ") and NOT_THERE.decode() in first
    assert patch_releases.check(wheel, "3.1", PACKAGES, []) == []


def test_the_command_says_which_release_lacks_what(tmp_path, monkeypatch):
    monkeypatch.setattr(make_wheel.check_wheel, "check_contents", lambda wheel: [MINOR])
    make_wheel.check_patch(wheel_with(tmp_path, binary_in(tmp_path)), str(PACKAGES))
    changed = wheel_with(tmp_path, binary_in(tmp_path, NOT_THERE))
    with pytest.raises(WheelError, match=r"symbols are not in torch 2\..*torchCheckGone"):
        make_wheel.check_patch(changed, str(PACKAGES))
    monkeypatch.setattr(make_wheel.check_wheel, "check_contents", lambda wheel: ["3.1"])
    with pytest.raises(WheelError, match=r"laneway.whl has no binaries for torch 2\."):
        make_wheel.check_patch(changed, str(PACKAGES))


def test_a_release_that_pip_does_not_find(tmp_path, monkeypatch):
    def none(version: str, python: Path) -> Path:
        raise NoTorch(f"pip found no torch {version}")

    monkeypatch.setattr(make_wheel, "folder_of", none)
    with pytest.raises(WheelError, match=r"pip found no torch 2\.99\.7"):
        make_wheel.check_patch(tmp_path / "laneway.whl", "2.99.7")
