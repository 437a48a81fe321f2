"""Where an installed package may lie: in a virtual environment that sees the system's torch, and in
a folder that nobody may write to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import laneway
from laneway.native import bindings

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"

# What a user does, and where torch was found.
USE = """
import json, sys
import laneway
from laneway.native import launch, torch_versions
found = torch_versions.found_torch()
told = {"base": sys.base_prefix, "package": laneway.__file__, "torch": str(found.folder)}
told["path"] = launch.library_path(found)["LD_LIBRARY_PATH"]
import torch
model, x = torch.nn.Linear(4, 2), torch.ones(1, 4)
with laneway.embedded("16MiB") as service, torch.no_grad():
    told["equal"] = torch.equal(laneway.inference(model, service)(x), model(x))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory) -> Path:
    """An installation of Python with this one's modules, and its packages but for laneway."""
    system = tmp_path_factory.mktemp("system")
    packages = system / "lib" / VERSION / "site-packages"
    packages.mkdir(parents=True)
    (system / "bin").mkdir()
    for path in Path(sysconfig.get_path("stdlib")).iterdir():
        if path.name != "site-packages":
            (packages.parent / path.name).symlink_to(path)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and "laneway" not in path.name:
            (packages / path.name).symlink_to(path)
    return system


@pytest.fixture
def environment(system, tmp_path) -> Path:
    """A virtual environment of that installation, made with --system-site-packages, and the package
    installed in it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(Path(sys.executable).resolve())
    (tmp_path / "pyvenv.cfg").write_text(
        f"home = {system / 'bin'}\ninclude-system-site-packages = true\n"
    )
    package = tmp_path / "lib" / VERSION / "site-packages/laneway"
    ignored = shutil.ignore_patterns("__pycache__", "lib")
    shutil.copytree(Path(laneway.__file__).parent, package, ignore=ignored)
    return tmp_path


def use(environment: Path) -> dict:
    """What USE tells in there."""
    library = os.environ.get("LANEWAY_EMBEDDED_LIBRARY") or str(bindings.library_path())
    given = {"LANEWAY_EMBEDDED_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1"}
    dropped = ("PYTHONPATH", "LD_LIBRARY_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [environment / "bin/python", "-c", USE],
        env=kept | given,
        cwd=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_virtual_environment_that_sees_the_torch_of_the_system(system, environment):
    told = use(environment)
    packages = system / "lib" / VERSION / "site-packages"
    assert told["base"] == str(system)
    assert told["package"].startswith(str(environment))
    assert told["torch"] == str(packages / "torch")
    assert told["path"] == str(packages / "torch/lib")  # not beside the package
    assert told["equal"]


def test_a_package_that_nobody_may_write_to(environment):
    """Root may, and does not."""
    package = environment / "lib" / VERSION / "site-packages/laneway"
    paths = [package, *package.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in paths}
    try:
        assert use(environment)["equal"]
        assert {path: path.stat().st_mtime_ns for path in [package, *package.rglob("*")]} == before
    finally:
        for path in paths:
            if path.is_dir():
                path.chmod(0o755)
