"""The wheel: what it holds and requires is what users of another environment need, and the commands
of an installed package say what is wrong with that environment. Building and using it for real is
`./dev wheel --check`."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import build
import laneway
import make_wheel
from laneway.native import launch, programs
from laneway.native.torch_versions import Torch

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

sys.path.append(str(ROOT / "tools/wheel"))
import backend  # noqa: E402


def test_the_version_stands_in_one_place():
    version = (ROOT / "python/laneway/VERSION").read_text().strip()
    assert laneway.__version__ == version
    pattern = PROJECT["tool"]["scikit-build"]["metadata"]["version"]["regex"]
    text = (ROOT / PROJECT["tool"]["scikit-build"]["metadata"]["version"]["input"]).read_text()
    assert re.search(pattern, text)["value"] == version
    assert "version" not in PROJECT["project"] and PROJECT["project"]["dynamic"] == ["version"]
    others = [
        path
        for folder in ("base", "service", "python", "cmake", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".cc", ".h", ".cmake", ".txt") and path.is_file()
        if f'"{version}"' in path.read_text()
    ]
    assert others == []


def test_the_wheel_requires_the_torch_of_the_checkout():
    pinned = (ROOT / "requirements.txt").read_text().splitlines()
    assert backend.torch_requirement() in pinned


def test_every_entry_point_leads_to_something_callable():
    points = {"torch_dynamo_backends": PROJECT["project"]["entry-points"]["torch_dynamo_backends"]}
    points["console_scripts"] = PROJECT["project"]["scripts"]
    for group, entries in points.items():
        for name, value in entries.items():
            assert callable(importlib.metadata.EntryPoint(name, value, group).load()), name


def test_what_is_installed_into_the_wheel_is_what_the_package_looks_for():
    rules = (ROOT / "cmake/Install.cmake").read_text()
    for program in (
        *("lanewayd", "laneway-broker", "laneway-worker", "laneway-trace"),
        "laneway-simulate",
    ):
        assert re.search(rf"\b{program}\b", rules), program
    for folder in ("bin", "lib", "lib/torch-"):
        assert f"DESTINATION laneway/{folder}" in rules
    for kind in ("embedded", "client"):
        assert f"laneway_{kind}" in rules
    for header in ("laneway.h", "laneway.hpp", "lanewayd.service"):
        assert header in rules
    assert Path(laneway.__file__).parent == programs.PACKAGE


def test_the_checkout_registers_as_an_installed_package_does(tmp_path):
    old = tmp_path / "laneway-0.0.9.dist-info"
    old.mkdir()
    build.write_metadata(tmp_path)
    build.write_metadata(tmp_path)  # again changes nothing
    (found,) = importlib.metadata.distributions(name="laneway", path=[str(tmp_path)])
    assert found.version == laneway.__version__ and not old.exists()
    assert list(found.requires or ()) == PROJECT["project"]["dependencies"]
    (point,) = found.entry_points.select(group="torch_dynamo_backends")
    assert point.name == "laneway" and point.value == "laneway.compile_backend:laneway"
    assert all((tmp_path / file).exists() for file in found.files or () if "dist-info" in str(file))


def test_lanewayd_names_the_torch_that_is_missing(tmp_path, monkeypatch):
    """Which torch works: test_torch_versions.py."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(SystemExit, match=r"^lanewayd: .* has no torch, .*: pip install .torch=="):
        launch.lanewayd()


def test_workers_are_told_where_torch_is_when_it_is_not_beside_the_package(tmp_path, monkeypatch):
    elsewhere = Torch("2.11.0", tmp_path / "elsewhere" / "torch")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    assert launch.library_path(elsewhere) == {
        "LD_LIBRARY_PATH": f"{elsewhere.folder / 'lib'}:/before"
    }
    monkeypatch.setattr(programs, "PACKAGE", elsewhere.folder.parent / "laneway")
    assert launch.library_path(elsewhere) == {
        "LD_LIBRARY_PATH": f"{elsewhere.folder / 'lib'}:/before"  # may have another torch
    }
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert launch.library_path(elsewhere) == {}


def test_a_package_without_its_programs_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "PACKAGE", tmp_path)
    with pytest.raises(SystemExit, match=r"laneway-trace: .*bin/laneway-trace is missing: install"):
        launch.laneway_trace()


def test_a_command_becomes_the_program_with_its_arguments(tmp_path):
    program = tmp_path / "bin" / "laneway-trace"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    program.chmod(0o755)
    code = "import sys, pathlib; from laneway.native import launch; sys.argv = ['x', 'a', 'b c']; "
    code += f"launch.programs.PACKAGE = pathlib.Path({str(tmp_path)!r}); launch.laneway_trace()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    assert (done.returncode, done.stdout) == (7, "a b c\n")


@pytest.mark.parametrize("device", ["", "+cpu", "+cu126"])
def test_the_build_takes_a_torch_that_is_there_before_it_downloads_one(
    device, tmp_path, monkeypatch
):
    packages = tmp_path / "packages"
    wanted = backend.torch_requirement().partition("==")[2]
    (packages / f"torch-{wanted}{device}.dist-info").mkdir(parents=True)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {packages}\n")
    python.chmod(0o755)
    monkeypatch.setenv("LANEWAY_PYTHON", str(python))
    assert backend.python_with_torch() == python
    assert backend._with_torch({})["cmake.define.LANEWAY_PYTHON"] == str(python)
    monkeypatch.setattr(backend, "_has_torch", lambda packages: False)
    assert backend.python_with_torch() is None


def test_a_wheel_whose_libraries_come_from_the_system_does_not_pass(tmp_path, monkeypatch):
    package = tmp_path / "lib/python3.11/site-packages/laneway"
    (package / "bin").mkdir(parents=True)
    (package / "lib").mkdir()
    (package / "bin/lanewayd").write_text("")
    table = "\tlibc.so.6 => /lib/libc.so.6 (0x0)\n\tlibzmq.so.5 => /usr/lib/libzmq.so.5 (0x0)\n"
    done = subprocess.CompletedProcess([], 0, table, "")
    monkeypatch.setattr(make_wheel.subprocess, "run", lambda *a, **k: done)
    with pytest.raises(make_wheel.WheelError, match=r"lanewayd takes libzmq.so.5 from /usr/lib"):
        make_wheel.check_libraries(tmp_path)
