"""Shows which torch is found, and that one which does not work is refused in words before it or a
binary is loaded. Each torch here is a folder with the file version.py; binaries are copies of the
real ones that were changed or cut."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import laneway
from laneway.native import bindings, torch_versions
from laneway.native.torch_versions import Torch, found_torch, library_folder, usable_torch

ROOT = Path(__file__).resolve().parents[2]
INSTALL = re.escape(
    f"this Laneway works with torch {torch_versions._range()}: "
    f'pip install "{torch_versions.requirement()}"'
)


def folder_with(path: Path, version: str | None) -> Path:
    """A site-packages with this torch; `version` is None for one that says none."""
    (path / "torch").mkdir(parents=True)
    (path / "torch" / "__init__.py").write_text("raise RuntimeError('torch was imported')\n")
    if version is not None:
        text = f"from typing import Optional\n\n__version__ = '{version}'\ncuda = '13.0'\n"
        (path / "torch" / "version.py").write_text(text)
    return path


@pytest.fixture
def found_in(monkeypatch):
    """Sets sys.path of a process that has not imported torch."""

    def set_path(*folders: Path) -> None:
        monkeypatch.delitem(sys.modules, "torch")
        monkeypatch.setattr(sys, "path", [str(folder) for folder in folders])

    return set_path


@pytest.mark.parametrize("rest", [".0", ".3", ".0+cpu", ".1+cu126"])
@pytest.mark.parametrize("minor", torch_versions.MINORS)
def test_patch_releases_and_builds_for_other_devices_work(minor, rest, found_in, tmp_path):
    found_in(folder_with(tmp_path, minor + rest))
    assert usable_torch() == Torch(minor + rest, tmp_path / "torch")
    assert usable_torch().minor == minor


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.9.0", "is torch 2.9.0, and"),
        ("2.1.1", "is torch 2.1.1, and"),
        ("2.16.0.dev20261101+cu132", r"is torch 2.16.0.dev20261101\+cu132, which is no released"),
        ("2.11.0a0+git70d99e9", "which is no released version, and"),
        ("main", "is torch main, which is no released version, and"),
        ("", "says no version in version.py, and"),
        (None, "says no version in version.py, and"),
    ],
)
def test_another_torch(version, words, found_in, tmp_path):
    found_in(folder_with(tmp_path, version))
    with pytest.raises(laneway.ServiceUnavailable, match=f"{words}.*{INSTALL}$") as error:
        usable_torch()
    assert str(tmp_path / "torch") in str(error.value)


def test_no_torch(found_in, tmp_path):
    (tmp_path / "torch").mkdir()  # a folder of that name is no torch
    found_in(tmp_path)
    with pytest.raises(laneway.ServiceUnavailable, match=f"has no torch, and {INSTALL}$"):
        usable_torch()


def test_of_two_torches_the_one_that_would_be_imported(found_in, tmp_path):
    old = folder_with(tmp_path / "old", "2.9.0")
    new = folder_with(tmp_path / "new", "2.11.0")
    found_in(new, old)
    assert usable_torch().folder == new / "torch"
    found_in_reverse = found_torch_in(old, new)
    assert found_in_reverse == Torch("2.9.0", old / "torch")


def found_torch_in(*folders: Path) -> Torch | None:
    sys.path[:] = [str(folder) for folder in folders]  # the fixture puts the old list back
    return found_torch()


def test_a_torch_that_is_imported_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(folder_with(tmp_path, "2.9.0"))])
    assert found_torch() == Torch(torch.__version__, Path(torch.__file__).parent)


@pytest.mark.parametrize("version", ["2.9.0", None])
def test_nothing_is_loaded_of_a_torch_that_does_not_work(version, tmp_path):
    """Neither torch nor the library: the process's mappings have neither."""
    code = """
import laneway, pathlib, sys
try:
    laneway.embedded("16MiB")
except laneway.ServiceUnavailable as error:
    print(error)
mapped = pathlib.Path("/proc/self/maps").read_text()
print("torch" in sys.modules, "liblaneway" in mapped, "libtorch" in mapped)
"""
    folder = folder_with(tmp_path, version)
    path = os.pathsep.join([str(folder), str(ROOT / "python")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    said, loaded = done.stdout.strip().splitlines()
    assert re.search(INSTALL, said) and loaded == "False False False"


def test_a_folder_for_each_minor_version(tmp_path):
    assert library_folder(tmp_path, "2.11") == tmp_path  # as in a checkout: there are no folders
    for minor in ("2.11", "2.12"):
        (tmp_path / f"torch-{minor}").mkdir()
    assert library_folder(tmp_path, "2.12") == tmp_path / "torch-2.12"
    (tmp_path / "torch-2.11").rmdir()
    words = r"torch-2.11 is missing, only torch-2.12 is there: install the package laneway again"
    with pytest.raises(laneway.ServiceUnavailable, match=words):
        library_folder(tmp_path, "2.11")


def test_another_minor_version_is_a_line_and_a_folder(monkeypatch, found_in, tmp_path):
    monkeypatch.setattr(torch_versions, "MINORS", ("2.11", "2.12"))
    (tmp_path / "lib" / "torch-2.12").mkdir(parents=True)
    monkeypatch.setattr(bindings, "LIB", tmp_path / "lib")
    monkeypatch.delenv("LANEWAY_EMBEDDED_LIBRARY", raising=False)
    found_in(folder_with(tmp_path, "2.12.1+cpu"))
    path = bindings.library_path("embedded", usable_torch().minor)
    assert path == tmp_path / "lib" / "torch-2.12" / "liblaneway_embedded.so"
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.13.0'")
    words = re.escape('works with torch 2.11 to 2.12: pip install "torch>=2.11,<2.13"')
    with pytest.raises(laneway.ServiceUnavailable, match=words):
        usable_torch()
    monkeypatch.setattr(torch_versions, "MINORS", ("2.11", "2.14"))  # the two between do not
    words = 'works with torch 2.11 and 2.14: pip install "torch>=2.11,<2.15,!=2.12.*,!=2.13.*"'
    with pytest.raises(laneway.ServiceUnavailable, match=re.escape(words)):
        usable_torch()
    monkeypatch.setattr(torch_versions, "MINORS", ("2.11", "2.12", "2.14"))
    words = 'works with torch 2.11, 2.12 and 2.14: pip install "torch>=2.11,<2.15,!=2.13.*"'
    with pytest.raises(laneway.ServiceUnavailable, match=re.escape(words)):
        usable_torch()


def test_a_folder_without_its_library(monkeypatch, tmp_path):
    folder = tmp_path / "lib" / f"torch-{torch_versions.minor_of(torch.__version__)}"
    folder.mkdir(parents=True)
    monkeypatch.setattr(bindings, "LIB", tmp_path / "lib")
    monkeypatch.delenv("LANEWAY_EMBEDDED_LIBRARY", raising=False)
    words = f"{folder}/liblaneway_embedded.so is missing: install the package laneway again"
    with pytest.raises(laneway.ServiceUnavailable, match=re.escape(words)):
        bindings.embedded_library.__wrapped__()


def test_the_package_requires_a_torch_that_works():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = next(line for line in project["dependencies"] if line.startswith("torch"))
    assert required == torch_versions.requirement()
    first, last = torch_versions.MINORS[0], torch_versions.MINORS[-1]
    assert required.startswith(f"torch>={first},<") and f"<{last}" not in required


@pytest.fixture
def changed(monkeypatch, tmp_path):
    """Puts other bytes into the embedded library, and asks for it as a first call does."""

    def open_changed(change) -> str:
        real = Path(os.environ.get("LANEWAY_EMBEDDED_LIBRARY") or bindings.library_path())
        path = tmp_path / "changed.so"
        path.write_bytes(change(real.read_bytes()))
        monkeypatch.setenv("LANEWAY_EMBEDDED_LIBRARY", str(path))
        with pytest.raises(laneway.ServiceUnavailable) as error:
            bindings.embedded_library.__wrapped__()
        assert str(path) not in Path("/proc/self/maps").read_text()
        return str(error.value)

    return open_changed


def test_a_library_for_another_torch(changed):
    mark = b"LANEWAY\0" + torch.__version__.encode()
    other = re.sub(rb"[.]([0-9]+)[.]", rb".99.", mark)
    said = changed(lambda library: library.replace(mark, other))
    assert "is for torch 2.99.0" in said and f"is torch {torch.__version__}: name one for" in said


def test_a_pre_release_that_the_library_was_built_with(found_in, tmp_path):
    real = Path(os.environ.get("LANEWAY_EMBEDDED_LIBRARY") or bindings.library_path())
    version, path = "2.11.0a0+git", tmp_path / "changed.so"
    mark = b"LANEWAY\0" + torch.__version__.encode()
    text = version[: len(torch.__version__)].encode().ljust(len(torch.__version__), b"\0")
    found_in(folder_with(tmp_path, text.rstrip(b"\0").decode()))
    path.write_bytes(real.read_bytes().replace(mark, b"LANEWAY\0" + text))
    torch_versions.check_binary(path, usable_torch(path), "LANEWAY_EMBEDDED_LIBRARY")
    with pytest.raises(laneway.ServiceUnavailable, match=INSTALL):
        usable_torch(real)


def test_a_library_that_does_not_say_for_which_torch_it_is(changed):
    said = changed(lambda library: library.replace(b"LANEWAY\0", b"NOBODY'S"))
    assert "does not say for which torch it is" in said and "LANEWAY_EMBEDDED_LIBRARY" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda library: b"", "has 0 bytes and does not begin as a shared object"),
        (
            lambda library: b"version https://git-lfs",
            "has 23 bytes and does not begin as a shared object",
        ),
        (lambda library: library[:100], "ends after 100 bytes, in its table of segments"),
        (
            lambda library: library[:32] + b"\xff" * 8 + library[40:],  # where that table is
            "ends after [0-9]+ bytes, in its table of segments",
        ),
        (lambda library: library[: len(library) // 2], "has [0-9]+ bytes of [0-9]+"),
    ],
)
def test_a_damaged_library(change, words, changed):
    """Loading the last one would end the process: pages of its mapping have no file behind them."""
    said = changed(change)
    assert re.search(f"is damaged: the file {words}.*: install the package laneway again", said)


@pytest.mark.parametrize(
    ("symbols", "words"),
    [
        ("GLIBC", "needs glibc with GLIBC_9"),
        ("GLIBCXX", r"needs libstdc\+\+ with GLIBCXX_9.*conda"),
    ],
)
def test_a_system_that_is_too_old(symbols, words, monkeypatch, tmp_path):
    """The same as a library that wants versions of symbols which no system has."""
    real = bindings.library_path("client").read_bytes()
    wanted = re.compile(symbols.encode() + rb"_[23](\.[0-9.]+\0)")
    assert wanted.search(real)
    path = tmp_path / "changed.so"
    path.write_bytes(wanted.sub(symbols.encode() + rb"_9\1", real))
    monkeypatch.setenv("LANEWAY_CLIENT_LIBRARY", str(path))
    with pytest.raises(laneway.ServiceUnavailable, match=f"{words}.*") as error:
        bindings.client_library.__wrapped__()
    assert "Ubuntu 22.04 or a newer" in str(error.value)
