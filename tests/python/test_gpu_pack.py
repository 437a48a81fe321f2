"""gpu-pack: what is packed is what a bare machine lacks and no more, runs there without this
checkout, and fits."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import gpu_pack
import pack_libraries
import pack_wheels

ROOT = Path(__file__).resolve().parents[2]

BUILT = os.environ.get("LANEWAY_BUILD")


def compile_library(folder, name, needs=()):
    """A shared object lib<name>.so that needs others of the folder."""
    source = folder / f"{name}.c"
    source.write_text(f"int {name}(void) {{ return 1; }}\n")
    words = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", f"-L{folder}", str(source)]
    words += [f"-Wl,-soname,lib{name}.so", *(f"-l{needed}" for needed in needs)]
    library = folder / f"lib{name}.so"
    subprocess.run([*words, "-o", str(library)], check=True)
    return library


def test_the_closure_follows_what_libraries_need(tmp_path):
    compile_library(tmp_path, "inner")
    compile_library(tmp_path, "outer", ["inner"])
    compile_library(tmp_path, "ours")
    program = compile_library(tmp_path, "program", ["outer", "ours"])
    found = pack_libraries.closure([program], {"libours.so"}, [tmp_path])
    assert set(found.libraries) == {"libinner.so", "libouter.so"}
    assert not found.fallback and found.left_out == {"libc.so.6"}
    assert pack_libraries.version_key(found.versions["GLIBC"]) >= (2, 2)


def test_a_library_that_is_nowhere_is_named_with_who_needs_it(tmp_path):
    compile_library(tmp_path, "gone")
    program = compile_library(tmp_path, "program", ["gone"])
    (tmp_path / "libgone.so").unlink()
    with pytest.raises(pack_libraries.LibraryMissing, match=r"libprogram.so needs libgone.so"):
        pack_libraries.closure([program], ())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("libc.so.6", "machine"),
        ("libm.so.6", "machine"),
        ("ld-linux-x86-64.so.2", "machine"),
        ("libtorch_cpu.so", "torch"),
        ("libc10_cuda.so", "torch"),
        ("libcuda.so.1", "torch"),
        ("libcudart.so.13", "torch"),
        ("libcublasLt.so.13", "torch"),
        ("libnvrtc-builtins.so.13.0", "torch"),
        ("libstdc++.so.6", "fallback"),
        ("libgcc_s.so.1", "fallback"),
        ("libzmq.so.5", "pack"),
        ("libmd.so.0", "pack"),
        ("libcom_err.so.2", "pack"),
        ("libcrypto.so.3", "pack"),
        ("libutil-linux.so.1", "pack"),
    ],
)
def test_where_a_library_comes_from(name, kind):
    assert pack_libraries.kind_of(name) == kind


@pytest.mark.skipif(BUILT is None, reason="LANEWAY_BUILD names no build")
def test_the_closure_of_our_programs_is_what_the_loader_resolves():
    """Against ldd, which asks the loader itself."""
    broker = Path(BUILT) / "bin/laneway-broker"
    found = pack_libraries.closure([broker], ())
    loaded = subprocess.run(["ldd", str(broker)], capture_output=True, text=True, check=True).stdout
    names = {Path(line.split()[0]).name for line in loaded.splitlines() if ".so" in line}
    expected = {n for n in names if pack_libraries.kind_of(n) == "pack" and "vdso" not in n}
    assert set(found.libraries) == expected and "libzmq.so.5" in expected
    assert set(found.fallback) == {"libstdc++.so.6", "libgcc_s.so.1"}


def test_test_programs_are_those_with_the_label(tmp_path):
    for name, labels in (("a_test", "unit"), ("b_test", "unit;gpu"), ("c_test", "gpus")):
        text = f'set_tests_properties(${{all}} PROPERTIES LABELS "{labels}")\n'
        (tmp_path / f"{name}_labels.cmake").write_text(text)
    assert gpu_pack.test_programs(tmp_path) == ["b_test"]


def test_a_pack_that_is_too_large_is_refused_and_not_left(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_pack, "XZ_PRESET", 0)
    stage = tmp_path / "stage"
    stage.mkdir()
    (stage / "noise").write_bytes(os.urandom(2 << 20))
    monkeypatch.setattr(gpu_pack, "LIMIT_MIB", 1)
    with pytest.raises(gpu_pack.PackError, match=r"2\.0 MiB; at most 1 "):
        gpu_pack.write_archive(stage, tmp_path / "out/pack.tar.xz")
    assert not list((tmp_path / "out").iterdir())


def test_a_wheel_that_was_fetched_before_needs_no_network(tmp_path, monkeypatch):
    wheel = tmp_path / "cffi-9.9-cp312-cp312-manylinux.whl"
    wheel.touch()

    def no_network(*words, **more):
        raise AssertionError("pip was run")

    monkeypatch.setattr(pack_wheels.subprocess, "run", no_network)
    assert pack_wheels.fetch(pack_wheels.PACKAGES[0], "9.9", tmp_path) == wheel


def test_every_package_of_the_pack_is_pinned():
    versions = pack_wheels.pinned(ROOT / "requirements.txt")
    assert all(package.name.lower() in versions for package in pack_wheels.PACKAGES)


def test_packages_for_another_torch_are_those_of_its_environment(tmp_path, monkeypatch):
    """torchvision goes with torch; pip says what is there."""
    python = tmp_path / "python"
    rows = [{"name": "torchvision", "version": "0.29.2+cu132"}, {"name": "Pillow", "version": "13"}]
    python.write_text(f"#!/bin/sh\necho '{json.dumps(rows)}'\n")
    python.chmod(0o755)
    packages = [p for p in pack_wheels.PACKAGES if p.name in ("torchvision", "pillow")]
    monkeypatch.setattr(pack_wheels, "PACKAGES", packages)
    monkeypatch.setattr(pack_wheels, "fetch", lambda package, version, cache: tmp_path / "none")
    monkeypatch.setattr(pack_wheels, "unpack", lambda wheel, folder: None)
    account = gpu_pack.collect_packages(tmp_path, tmp_path, python)
    assert {name: row["version"] for name, row in account.items()} == {
        "torchvision": "0.29.2",
        "pillow": "13",
    }


def test_a_pack_for_another_torch_is_made_of_its_build(tmp_path, monkeypatch):
    """And of nothing that was built for the checkout's torch."""
    folder = tmp_path / "torch-2.15"
    folder.mkdir()
    text = 'set_tests_properties(${all} PROPERTIES LABELS "unit;gpu")\n'
    (folder / "b_test_labels.cmake").write_text(text)
    asked = []
    monkeypatch.setattr(gpu_pack.build, "build_directory", lambda name: tmp_path / name)
    monkeypatch.setattr(gpu_pack.build, "configure", lambda name, quiet: asked.append(name))
    monkeypatch.setattr(
        gpu_pack.build, "build", lambda name, targets, quiet: asked.append((name, targets))
    )
    made = []
    monkeypatch.setattr(gpu_pack, "pack", lambda *words: made.append(words))
    words = ["gpu_pack.py", "--torch", "2.15", "--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    assert gpu_pack.main() == 0
    assert asked == ["torch-2.15", ("torch-2.15", [*gpu_pack.TORCH_TARGETS, "b_test"])]
    python = ROOT / "build/env-2.15/bin/python"
    archive = tmp_path / "out/laneway-gpu-torch-2.15.tar.xz"
    assert made == [(folder, folder, archive, python)]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("numpy/linalg/lapack.py", True),
        ("numpy/linalg/tests/test_linalg.py", False),
        ("numpy/_core/include/numpy/ndarrayobject.h", False),
        ("numpy/testing/__init__.py", True),
        ("torchvision/datasets/__init__.py", True),
        ("cffi/api.py", True),
        ("numpy/__init__.pyi", False),
    ],
)
def test_what_is_unpacked_of_a_wheel(name, kept):
    assert bool(pack_wheels.KEPT.match(name) or not pack_wheels.NOT_UNPACKED.search(name)) == kept


@pytest.mark.skipif(BUILT is None, reason="LANEWAY_BUILD names no build")
def test_a_pack_runs_apart_from_the_checkout(tmp_path, monkeypatch, capsys):
    """Packed from this run's build, without packages; unpacked elsewhere, its library answers and
    its daemon starts with nothing of the checkout on any path."""
    monkeypatch.setattr(pack_wheels, "PACKAGES", ())
    monkeypatch.setattr(gpu_pack, "XZ_PRESET", 0)
    archive = tmp_path / "out/pack.tar.xz"
    gpu_pack.pack(Path(BUILT), Path(BUILT), archive)
    assert archive.stat().st_size < gpu_pack.LIMIT_MIB << 20
    assert "MiB (at most 60)" in capsys.readouterr().out
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    pack = tmp_path / gpu_pack.NAME
    manifest = json.loads((pack / "manifest.json").read_text())
    assert manifest["torch"].startswith("2.") and "commit" in manifest and "dirty" in manifest
    assert manifest["date"] and manifest["bytes"]["lib"] > 0
    assert "libzmq.so.5" in manifest["libraries"]
    library = pack / "build/service/liblaneway_embedded.so"
    sections = subprocess.run(["readelf", "-WS", library], capture_output=True, text=True).stdout
    assert ".debug_info" not in sections and ".dynsym" in sections

    import torch

    clean = {name: value for name, value in os.environ.items() if not name.startswith("LANEWAY")}
    clean["LD_LIBRARY_PATH"] = f"{pack / 'lib'}:{Path(torch.__path__[0]) / 'lib'}"
    clean["PYTHONPATH"] = str(pack / "python")
    daemon = [str(pack / "build/bin/lanewayd"), "--version"]
    assert "lanewayd" in subprocess.run(daemon, env=clean, capture_output=True, text=True).stdout
    code = "import laneway; s = laneway.embedded(pool='16MiB'); print(len(s.status()['jobs']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | {"LANEWAY_EMBEDDED_LIBRARY": str(library)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "0", done.stderr

    # It brings its own gpu-check, which finds the pack around it.
    done = subprocess.run(
        [pack / "dev", "gpu-check", "--rehearsal", "--device", "host", "--only", "machine"],
        env=clean | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((pack / "build/gpu-check/gpu_check.json").read_text())["status"] == "passed"
