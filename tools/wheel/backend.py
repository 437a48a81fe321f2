"""The build backend of the wheel: scikit-build-core, which is told where torch and libzmq are.

Building needs the headers and libraries of a torch that works with this package. The first of these
that has one is used: the Python that LANEWAY_PYTHON names, the environment that is installed into,
.venv of the checkout. pip downloads torch (2.7 GB) only where none of them has it, and CMake and
Ninja where the machine has none; what else is missing is said first (build_needs.py). `./dev wheel`
names further torches by the setting cmake.define.LANEWAY_MORE_TORCHES (cmake/MoreTorches.cmake).
A torch without CUDA ("+cpu") brings none of CUDA's headers: they are required for the build.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(pathlib.Path(__file__).resolve().parent)]

import build_needs  # noqa: E402
import messages  # noqa: E402

from laneway.native import torch_versions  # noqa: E402

CUDA_REQUIREMENT = "nvidia-cuda-runtime==13.0.96"  # that of the torch in requirements.txt
TOOLKIT = pathlib.Path("/usr/local/cuda/include")  # where CMake looks, too


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


def cuda_headers(folders: Iterable[pathlib.Path | None]) -> pathlib.Path | None:
    """Where the first of these site-packages has CUDA's headers."""
    found = (p for folder in folders if folder for p in folder.glob("nvidia/cu*/include/cuda.h"))
    return next((path.parent for path in found), None)


def _lacks_cuda(python: pathlib.Path) -> bool:
    return cuda_headers([_site_packages(python)]) is None and not (TOOLKIT / "cuda.h").exists()


def _settings(given: dict[str, Any] | None) -> dict[str, Any]:
    settings = {"cmake.define.LANEWAY_MORE_TORCHES": ""} | dict(given or {})
    library = messages.library()
    if library is not None:
        settings.setdefault("cmake.define.LANEWAY_ZEROMQ", str(library))
    python = python_with_torch()
    if python is not None:
        settings.setdefault("cmake.define.LANEWAY_PYTHON", str(python))
        headers = cuda_headers(map(pathlib.Path, sys.path)) if _lacks_cuda(python) else None
        if headers is not None:
            settings.setdefault("cmake.define.CUDA_HEADERS_INCLUDE", str(headers))
        return settings
    import torch  # the isolated environment has it: it was required for the build

    packages = pathlib.Path(torch.__file__).parents[1]
    settings.setdefault("cmake.define.LANEWAY_PYTHON", sys.executable)
    settings.setdefault("cmake.define.LANEWAY_SITE_PACKAGES", str(packages))
    return settings


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """pip's first question: what is missing is said before torch is downloaded."""
    try:
        build_needs.check()
    except build_needs.BuildNeeds as missing:
        raise SystemExit(str(missing)) from None
    from scikit_build_core import build

    needs = build.get_requires_for_build_wheel(config_settings) + messages.requirements()
    python = python_with_torch()
    if python is None:
        return [*needs, torch_versions.requirement()]
    return [*needs, CUDA_REQUIREMENT] if _lacks_cuda(python) else needs


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
