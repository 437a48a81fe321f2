"""The wheel: what it holds and requires is what users of another environment need, and the commands
of an installed package say what is wrong with that environment. Building and using it for real is
`./dev wheel --check`."""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import build
import laneway
from laneway.native import launch, programs
from laneway.native.torch_versions import MINORS, Torch, minor_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

sys.path.append(str(ROOT / "tools/wheel"))
import backend  # noqa: E402
import build_needs  # noqa: E402
import messages  # noqa: E402


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


def test_the_torch_of_the_checkout_is_one_that_the_wheel_is_for():
    """What the wheel requires: test_torch_versions.py."""
    (pinned,) = (
        line for line in (ROOT / "requirements.txt").read_text().splitlines() if "torch==" in line
    )
    assert minor_of(pinned.removeprefix("torch==")) in MINORS


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
    with pytest.raises(
        SystemExit, match=r"^lanewayd: .* has no torch, .*: pip install .torch>=2.11,<"
    ):
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


@pytest.mark.parametrize(
    ("symbols", "words"),
    [("GLIBC", r"needs glibc with GLIBC_9"), ("GLIBCXX", r"needs libstdc\+\+ with GLIBCXX_9")],
)
def test_a_program_on_a_system_that_is_too_old(symbols, words, tmp_path, monkeypatch):
    """The same as one that wants versions of symbols which no system has."""
    wanted = re.compile(symbols.encode() + rb"_[23](\.[0-9.]+\0)")
    whole = programs.program("laneway-trace").read_bytes()
    assert wanted.search(whole)
    program = tmp_path / "bin/laneway-trace"
    program.parent.mkdir()
    program.write_bytes(wanted.sub(symbols.encode() + rb"_9\1", whole))
    program.chmod(0o755)
    monkeypatch.setattr(programs, "PACKAGE", tmp_path)
    monkeypatch.setattr(os, "execve", lambda *words: pytest.fail("it becomes that program"))
    said = rf"^laneway-trace: .*bin/laneway-trace cannot be loaded: it {words}.* or a newer system"
    with pytest.raises(SystemExit, match=said):
        launch.laneway_trace()


@pytest.mark.parametrize("device", ["", "+cpu", "+cu126"])
def test_the_build_takes_a_torch_that_is_there_before_it_downloads_one(
    device, tmp_path, monkeypatch
):
    packages = tmp_path / "packages"
    (packages / f"torch-{MINORS[-1]}.3{device}.dist-info").mkdir(parents=True)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {packages}\n")
    python.chmod(0o755)
    monkeypatch.setenv("LANEWAY_PYTHON", str(python))
    assert backend.python_with_torch() == python
    monkeypatch.setattr(messages, "requirements", lambda: [])
    settings = backend._settings({})
    assert settings["cmake.define.LANEWAY_PYTHON"] == str(python)
    assert settings["cmake.define.LANEWAY_MORE_TORCHES"] == ""  # not those of an earlier build
    given = {"cmake.define.LANEWAY_MORE_TORCHES": "/a;/b"}
    assert backend._settings(given).items() >= given.items()
    (packages / f"torch-{MINORS[-1]}.3{device}.dist-info").rename(
        packages / "torch-2.9.0.dist-info"
    )
    assert backend.torch_minor(packages) == ""
    monkeypatch.setattr(backend, "torch_minor", lambda packages: "")
    assert backend.python_with_torch() is None


def test_a_torch_without_cuda_is_built_with_headers_from_elsewhere(tmp_path, monkeypatch):
    """As torch of another index, "+cpu", has none."""
    fake = types.SimpleNamespace(get_requires_for_build_wheel=lambda _: ["cmake"])
    monkeypatch.setitem(sys.modules, "scikit_build_core", types.SimpleNamespace(build=fake))
    monkeypatch.setattr(build_needs, "check", lambda: None)
    monkeypatch.setattr(messages, "requirements", lambda: [])
    monkeypatch.setattr(backend, "python_with_torch", lambda: Path("/python"))
    monkeypatch.setattr(backend, "_site_packages", lambda python: tmp_path / "packages")
    monkeypatch.setattr(backend, "TOOLKIT", tmp_path / "none")
    assert backend.get_requires_for_build_wheel() == ["cmake", backend.CUDA_REQUIREMENT]
    built_in = tmp_path / "isolated/nvidia/cu13/include"
    built_in.mkdir(parents=True)
    (built_in / "cuda.h").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "isolated")])
    assert backend._settings({})["cmake.define.CUDA_HEADERS_INCLUDE"] == str(built_in)
    (tmp_path / "isolated").rename(tmp_path / "packages")  # a torch with CUDA
    assert backend.get_requires_for_build_wheel() == ["cmake"]
    assert "cmake.define.CUDA_HEADERS_INCLUDE" not in backend._settings({})
    version = backend.CUDA_REQUIREMENT.partition("==")[2]
    monkeypatch.undo()
    assert importlib.metadata.version("nvidia-cuda-runtime") == version


def test_a_libzmq_that_is_not_the_pinned_one_is_not_packed(tmp_path, monkeypatch):
    """And its licence says where its source is."""
    contents = {name: name.encode() for name in messages.SHA256}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(messages, "SHA256", digests)
    folder = tmp_path / "pyzmq.libs"
    folder.mkdir()
    for name, content in contents.items():
        with pytest.raises(messages.WrongLibrary, match="has SHA-256 missing, and pyzmq=="):
            messages.checked(folder)
        (folder / name).write_bytes(content)
    library = messages.checked(folder)
    assert library.name.startswith("libzmq-")
    licences = tmp_path / "pyzmq-1.dist-info/licenses"
    licences.mkdir(parents=True)
    (licences / "LICENSE.zeromq.txt").write_text("MPL")
    assert messages.licence_of(library).endswith("github.com/jedisct1/libsodium (ISC).\n\nMPL")
    library.write_bytes(b"other")
    with pytest.raises(messages.WrongLibrary, match=f"{library} has SHA-256 d9298a10d1b07358"):
        messages.checked(folder)


NO_HEADERS = "c++ -nostdinc"  # finds those in CPATH alone


def refused_build() -> str:
    with pytest.raises(SystemExit) as end:
        backend.get_requires_for_build_wheel()
    return str(end.value)


def test_a_build_without_a_compiler_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = refused_build()
    assert said.startswith("Laneway's build needs a C++ compiler (no c++ or g++ on the PATH): ")
    assert "apt-get install --no-install-recommends g++; without root" in said


@pytest.mark.parametrize("words", ["exit 1", "cat >/dev/null; echo old"])
def test_a_build_with_a_compiler_of_yesterday_says_so(words, tmp_path, monkeypatch):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{words}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert f"a compiler that knows C++20, which {compiler} does not" in refused_build()
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert "that CXX names does not start: " in refused_build()


def test_a_build_without_headers_names_them_and_their_packages(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", NO_HEADERS)
    monkeypatch.setenv("CPATH", str(tmp_path))
    said = refused_build()
    for header, package in build_needs.HEADERS.items():
        assert header in said and package in said.partition("recommends ")[2]
    for header in build_needs.HEADERS:
        (tmp_path / header).parent.mkdir(exist_ok=True)
        (tmp_path / header).write_text("")
    build_needs.check()
    (tmp_path / "zmq.h").unlink()
    said = refused_build()
    assert said.startswith("Laneway's build needs the headers zmq.h: on Debian ")
    assert "recommends libzmq3-dev; without root" in said and "spdlog" not in said
    assert "in CPATH and its usr in CMAKE_PREFIX_PATH" in said


def test_the_build_looks_for_all_that_sources_of_the_product_include():
    """Torch and CUDA come with torch's wheel, some with the compiler, one header is our own;
    GoogleTest is for tests."""
    layers = tomllib.loads((ROOT / "tests/tidy/layers.toml").read_text())["third_party"]
    elsewhere = {"LibTorch", "CUDA", "GoogleTest", "the threads library", "the processor"}
    elsewhere |= {"loading of shared objects", "the operating system"}
    elsewhere.add("our own header, as users of it name it")
    wanted = {row["name"]: row["headers"] for row in layers if row["name"] not in elsewhere}
    assert len(wanted) == len(build_needs.HEADERS)
    for name, (prefix, *_) in wanted.items():
        assert any(header.startswith(prefix) for header in build_needs.HEADERS), name
    setup = (ROOT / "tools/setup.sh").read_text()
    assert all(package in setup for package in build_needs.HEADERS.values())
