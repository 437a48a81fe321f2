"""What compiling and linking need of a torch, in a folder of its own: headers and four libraries of
PyPI's wheel, 1 GB, once for each minor version, in build/torch/."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ROOT / "build/torch"
NEEDED = re.compile(
    r"torch/(include/.+|version\.py|lib/lib(c10|torch_cpu|c10_cuda|torch_cuda)\.so)"
)


class NoTorch(Exception):
    """There is no such torch; the text says where it was looked for."""


def folder_of(minor: str, python: pathlib.Path) -> pathlib.Path:
    """The folder with this minor version, downloaded by `python`'s pip where it is not there yet.
    Raises NoTorch."""
    folder = FOLDERS / minor
    if not (folder / "torch/version.py").exists():
        FOLDERS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDERS) as name:
            unpack(_download(minor, python, pathlib.Path(name)), pathlib.Path(name) / "out")
            shutil.rmtree(folder, ignore_errors=True)
            (pathlib.Path(name) / "out").rename(folder)
    return folder


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if NEEDED.fullmatch(name)])


def _download(minor: str, python: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    command = [str(python), "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"torch=={minor}.*"]
    print("dev:", *command, flush=True)
    done = subprocess.run(command, check=False, stdout=sys.stderr)
    found = sorted(folder.glob("torch-*.whl"))
    if done.returncode != 0 or len(found) != 1:
        raise NoTorch(f"pip found no torch {minor} for {python} (see above): is there one on PyPI?")
    return found[0]
