"""Both examples of a policy, in Python and in C++, with what an installed package has and nothing
of the checkout: the layout of the wheel, installed by the rules of the build."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build/dev"))
EXAMPLES = sorted((ROOT / "plugin/examples").glob("*.*"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package laneway."""
    if not (BUILD / "cmake_install.cmake").exists() or not (BUILD / "bin/lanewayd").exists():
        pytest.skip(f"{BUILD} is not built")
    folder = tmp_path_factory.mktemp("installed")
    command = ["cmake", "--install", str(BUILD), "--prefix", str(folder), "--component", "wheel"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    ours = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python/laneway", folder / "laneway", ignore=ours, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("source", EXAMPLES, ids=lambda source: source.name)
def test_an_example_decides_for_the_installed_simulator(installed, tmp_path, source):
    file = tmp_path / source.name
    if source.suffix == ".py":
        file.write_bytes(source.read_bytes())
    else:
        file = file.with_suffix("")
        include = installed / "laneway/include"
        command = ["c++", "-std=c++20", "-I", str(include), str(source), "-o", str(file)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    file.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LANEWAY_")}
    policy = f"./{file.name}:age=off"
    command = [sys.executable, "-m", "laneway.cli", "simulate", "--generate", "20"]
    done = subprocess.run(
        [*command, "--policy", f"fifo:age=off,{policy}", "--csv", "jobs.csv"],
        cwd=tmp_path,
        env=kept | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert policy in done.stdout
    lines = (tmp_path / "jobs.csv").read_text().splitlines()[1:]
    ends = {by: [line.split(",")[5] for line in lines if line.startswith(by)] for by in
            ("fifo:age=off", policy)}  # fmt: skip
    assert len(ends[policy]) == 20
    assert ends[policy] != ends["fifo:age=off"]  # it decided
