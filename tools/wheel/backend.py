"""The build backend of the wheel: scikit-build-core, which is told where torch and libzmq are.

Building needs the headers and libraries of a torch that works with this package. The first of these
that has one is used: the Python that LANEWAY_PYTHON names, the environment that is installed into,
.venv of the checkout. pip downloads torch (2.7 GB) only where none of them has it. `./dev wheel`
names further ones by the setting cmake.define.LANEWAY_MORE_TORCHES (cmake/MoreTorches.cmake).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(pathlib.Path(__file__).resolve().parent)]

import messages  # noqa: E402

from laneway.native import torch_versions  # noqa: E402


def python_with_torch() -> pathlib.Path | None:
    """The interpreter whose torch is built against; None when no place has one that works."""
    named = os.environ.get("LANEWAY_PYTHON")
    places = [pathlib.Path(named)] if named else []
    places += [pathlib.Path(sys.executable), ROOT / ".venv/bin/python"]
    return next((python for python in places if torch_minor(_site_packages(python))), None)


def _site_packages(python: pathlib.Path) -> pathlib.Path | None:
    if python == pathlib.Path(sys.executable):
        return pathlib.Path(sysconfig.get_path("purelib"))
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    if not python.exists():
        return None
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return pathlib.Path(done.stdout.strip()) if done.returncode == 0 else None


def torch_minor(packages: pathlib.Path | None) -> str:
    """The minor version of the torch in these site-packages, for whatever device ("2.11.0+cpu");
    "" where there is none that works."""
    for path in sorted(packages.glob("torch-*.dist-info")) if packages else []:
        minor = torch_versions.minor_of(path.name.removeprefix("torch-").removesuffix(".dist-info"))
        if minor in torch_versions.MINORS:
            return minor
    return ""


def _settings(given: dict[str, Any] | None) -> dict[str, Any]:
    settings = {"cmake.define.LANEWAY_MORE_TORCHES": ""} | dict(given or {})
    library = messages.library()
    if library is not None:
        settings.setdefault("cmake.define.LANEWAY_ZEROMQ", str(library))
    python = python_with_torch()
    if python is not None:
        settings.setdefault("cmake.define.LANEWAY_PYTHON", str(python))
        return settings
    import torch  # the isolated environment has it: it was required for the build

    packages = pathlib.Path(torch.__file__).parents[1]
    settings.setdefault("cmake.define.LANEWAY_PYTHON", sys.executable)
    settings.setdefault("cmake.define.LANEWAY_SITE_PACKAGES", str(packages))
    return settings


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    from scikit_build_core import build

    needs = build.get_requires_for_build_wheel(config_settings) + messages.requirements()
    return needs if python_with_torch() is not None else [*needs, torch_versions.requirement()]


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

    return build.build_wheel(wheel_directory, _settings(config_settings), metadata_directory)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    from scikit_build_core import build

    return build.build_sdist(sdist_directory, config_settings)
