"""The checks of a wheel find what is wrong with one; and which versions of torch one is made for.
The whole, with a real wheel, is `./dev wheel --check`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import check_wheel
import make_wheel
from check_wheel import WheelError
from laneway.native import torch_versions

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools/wheel"))
import torch_folders  # noqa: E402


def wheel_with(path: Path, left_out: str = "", **more: bytes) -> Path:
    """One for torch 2.11 and 2.12, with a library of others."""
    files = {
        f"laneway/lib/torch-{minor}/{name}": b"\x7fELF LANEWAY\0" + minor.encode() + b".1+cpu\0"
        for minor in ("2.11", "2.12")
        for name in ("liblaneway_embedded.so", "laneway-worker")
    }
    files |= {
        "laneway/lib/liblaneway_client.so": b"",
        "laneway/lib/libzmq-1.so.5": b"",
        "laneway/lib/licenses/libzmq-1.so.5.txt": b"MPL",
    }
    with zipfile.ZipFile(path / "laneway.whl", "w") as archive:
        for name, content in (files | more).items():
            if name != left_out:
                archive.writestr(name, content)
    return path / "laneway.whl"


def test_a_wheel_for_two_versions(tmp_path):
    assert check_wheel.check_contents(wheel_with(tmp_path)) == ["2.11", "2.12"]


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ("laneway/lib/torch-2.12/laneway-worker", "torch-2.12/laneway-worker is missing"),
        ("laneway/lib/licenses/libzmq-1.so.5.txt", "libzmq-1.so.5 is packed without its licence"),
    ],
)
def test_a_file_that_is_missing(left_out, words, tmp_path):
    with pytest.raises(WheelError, match=words):
        check_wheel.check_contents(wheel_with(tmp_path, left_out))


def test_a_binary_in_the_folder_of_another_version(tmp_path):
    other = {"laneway/lib/torch-2.12/laneway-worker": b"LANEWAY\x002.11.0\0"}
    with pytest.raises(WheelError, match=r"laneway-worker does not say that it is for torch 2.12"):
        check_wheel.check_contents(wheel_with(tmp_path, **other))


def test_too_many_libraries_of_others_and_too_many_bytes(tmp_path, monkeypatch):
    others = {f"laneway/lib/libother{n}.so.1": b"" for n in range(check_wheel.MOST_FOREIGN)}
    with pytest.raises(WheelError, match=r"7 libraries of others, 6 allowed: .*libother5"):
        check_wheel.check_contents(wheel_with(tmp_path, **others))
    monkeypatch.setattr(check_wheel, "MOST_BYTES", 100)
    with pytest.raises(WheelError, match=r"bytes, more than 100"):
        check_wheel.check_contents(wheel_with(tmp_path))


@pytest.mark.parametrize(
    ("symbols", "library", "name", "words"),
    [
        ("manylinux_2_35_x86_64", "libc10.so", "a-manylinux_2_35_x86_64.whl", None),
        ("manylinux_2_28_x86_64", "libtorch_cpu.so", "a-manylinux_2_35_x86_64.whl", None),
        ("manylinux_2_36_x86_64", "libc10.so", "a-manylinux_2_35_x86_64.whl", "2_36_x86_64, which"),
        ("linux_x86_64", "libc10.so", "a-manylinux_2_35_x86_64.whl", "need linux_x86_64, which"),
        ("manylinux_2_28_x86_64", "libc10.so", "a-linux_x86_64.whl", "which its tag is not"),
        ("manylinux_2_35_x86_64", "libkrb5.so.3", "a-manylinux_2_35_x86_64.whl", "libkrb5.so.3, w"),
    ],
)
def test_what_auditwheel_finds(symbols, library, name, words):
    found = {"sym_tag": symbols, "external_libs": {"libtorch_cuda.so": None, library: None}}
    if words is None:
        check_wheel.check_audit(found, name)
    else:
        with pytest.raises(WheelError, match=words):
            check_wheel.check_audit(found, name)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"torch": "2.12.1", "laneway": "1"}, "'torch': '2.11.0 -> 2.12.1'"),
        ({"torch": "2.11.0", "laneway": "1", "numpy": "2"}, "'numpy': 'None -> 2'"),
        ({"laneway": "1"}, "'torch': '2.11.0 -> None'"),
        ({"torch": "2.11.0"}, "should change"),
    ],
)
def test_pip_changes_nothing_else(after, words):
    with pytest.raises(WheelError, match=words):
        check_wheel.check_change({"torch": "2.11.0"}, after)


def test_pip_brings_the_package_and_what_it_needs():
    check_wheel.check_change({"torch": "1"}, {"torch": "1", "laneway": "1", "cffi": "2"})


def test_a_wheel_whose_libraries_come_from_the_system_does_not_pass(tmp_path, monkeypatch):
    package = tmp_path / "lib/python3.11/site-packages/laneway"
    (package / "bin").mkdir(parents=True)
    (package / "lib/torch-2.11").mkdir(parents=True)
    (package / "lib/torch-2.11/laneway-worker").write_text("")
    table = "\tlibc.so.6 => /lib/libc.so.6 (0x0)\n\tlibzmq.so.5 => /usr/lib/libzmq.so.5 (0x0)\n"
    done = subprocess.CompletedProcess([], 0, table, "")
    monkeypatch.setattr(check_wheel.subprocess, "run", lambda *a, **k: done)
    with pytest.raises(WheelError, match=r"laneway-worker takes libzmq.so.5 from /usr/lib"):
        check_wheel.check_libraries(tmp_path, tmp_path)


def folder_with(path: Path, version: str) -> Path:
    (path / "torch").mkdir(parents=True)
    (path / "torch/version.py").write_text(f"__version__ = '{version}'\n")
    return path


def test_a_wheel_is_for_all_versions_or_those_that_are_named(tmp_path, monkeypatch):
    own = make_wheel.own_minor()
    minors = (own, "3.1", "3.2")
    monkeypatch.setattr(torch_versions, "MINORS", minors)
    monkeypatch.setattr(make_wheel, "folder_of", lambda minor, python: tmp_path / minor)
    assert make_wheel.more_torches([]) == [tmp_path / "3.1", tmp_path / "3.2"]
    assert make_wheel.more_torches([own]) == []  # it is always for the checkout's
    folder = folder_with(tmp_path / "mine", "3.2.4+cpu")
    assert make_wheel.more_torches([str(folder)]) == [folder]
    with pytest.raises(WheelError, match=r"--torch 3.4: Laneway works with .*, 3.1, 3.2; or name"):
        make_wheel.more_torches(["3.4"])
    with pytest.raises(WheelError, match=r"other has torch 2.9.0, and Laneway works with"):
        make_wheel.more_torches([str(folder_with(tmp_path / "other", "2.9.0"))])
    with pytest.raises(WheelError, match=r"none has no torch/version.py, and Laneway works with"):
        make_wheel.more_torches([str(tmp_path / "none")])


def test_of_a_torch_what_compiling_needs_is_unpacked(tmp_path):
    wanted = ["torch/include/ATen/core/Tensor.h", "torch/version.py", "torch/lib/libc10.so"]
    others = [
        "torch/lib/libtorch_python.so",
        "torch/nn/functional.py",
        "torch-2.12.dist-info/RECORD",
    ]
    with zipfile.ZipFile(tmp_path / "torch.whl", "w") as archive:
        for name in wanted + others:
            archive.writestr(name, "")
    torch_folders.unpack(tmp_path / "torch.whl", tmp_path / "out")
    found = [str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")]
    assert sorted(found) == sorted(wanted)


def test_what_was_downloaded_once_is_kept_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_folders, "FOLDERS", tmp_path)

    def download(command, **_) -> subprocess.CompletedProcess:
        assert command[-1] == "torch==2.12.*"
        with zipfile.ZipFile(Path(command[-2]) / "torch-2.12.1.whl", "w") as archive:
            archive.writestr("torch/version.py", "__version__ = '2.12.1'")
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(torch_folders.subprocess, "run", download)
    code = 1
    with pytest.raises(torch_folders.NoTorch, match=r"found no torch 2.12 for /python"):
        torch_folders.folder_of("2.12", Path("/python"))
    assert list(tmp_path.iterdir()) == []
    code = 0
    assert torch_folders.folder_of("2.12", Path("/python")) == tmp_path / "2.12"
    code = 1
    assert torch_folders.folder_of("2.12", Path("/python")) == tmp_path / "2.12"
    assert [path.name for path in tmp_path.iterdir()] == ["2.12"]
