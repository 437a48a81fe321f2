"""The build backend of the wheel: scikit-build-core, which is told where torch is.

Building needs the headers and libraries of the torch that is pinned in pyproject.toml. The first of
these that has it is used: the Python that LANEWAY_PYTHON names, the environment that is installed
into, .venv of the checkout. pip downloads torch (2.7 GB) only where none of them has it.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]


def torch_requirement() -> str:
    """As pyproject.toml pins it: "torch==2.11.0"."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return next(line for line in project["dependencies"] if line.startswith("torch=="))


def python_with_torch() -> pathlib.Path | None:
    """The interpreter whose torch is built against; None when no place has the pinned version."""
    named = os.environ.get("LANEWAY_PYTHON")
    places = [pathlib.Path(named)] if named else []
    places += [pathlib.Path(sys.executable), ROOT / ".venv/bin/python"]
    return next((python for python in places if _has_torch(_site_packages(python))), None)


def _site_packages(python: pathlib.Path) -> pathlib.Path | None:
    if python == pathlib.Path(sys.executable):
        return pathlib.Path(sysconfig.get_path("purelib"))
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    if not python.exists():
        return None
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return pathlib.Path(done.stdout.strip()) if done.returncode == 0 else None


def _has_torch(packages: pathlib.Path | None) -> bool:
    """Whether the version is there that is pinned, for whatever device ("2.11.0+cpu")."""
    if packages is None:
        return False
    folder = f"torch-{torch_requirement().partition('==')[2]}"
    found = [packages / f"{folder}.dist-info", *packages.glob(f"{folder}+*.dist-info")]
    return any(path.is_dir() for path in found)


def _with_torch(settings: dict[str, Any] | None) -> dict[str, Any]:
    python = python_with_torch()
    settings = dict(settings or {})
    if python is not None:
        settings.setdefault("cmake.define.LANEWAY_PYTHON", str(python))
        return settings
    import torch  # the isolated environment of pip has it: it was required for the build

    packages = pathlib.Path(torch.__file__).parents[1]
    settings.setdefault("cmake.define.LANEWAY_PYTHON", sys.executable)
    settings.setdefault("cmake.define.LANEWAY_SITE_PACKAGES", str(packages))
    return settings


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    from scikit_build_core import build

    needs = build.get_requires_for_build_wheel(config_settings)
    return needs if python_with_torch() is not None else [*needs, torch_requirement()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    from scikit_build_core import build

    return build.get_requires_for_build_sdist(config_settings)


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    from scikit_build_core import build

    return build.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    from scikit_build_core import build

    return build.build_wheel(wheel_directory, _with_torch(config_settings), metadata_directory)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    from scikit_build_core import build

    return build.build_sdist(sdist_directory, config_settings)
