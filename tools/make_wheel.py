"""Makes the wheel: what works with any torch once, what links torch for each minor version of it.
With --check, tries it as its users will (check_wheel.py).

Used by ./dev wheel. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
# The oldest glibc and libstdc++ that the binaries work with: Debian 12, Ubuntu 22.04.
PLATFORM = f"manylinux_2_35_{os.uname().machine}"
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools/wheel")]

import patch_releases  # noqa: E402
from torch_folders import NoTorch, folder_of  # noqa: E402

import check_wheel  # noqa: E402
from check_wheel import WheelError, run  # noqa: E402
from laneway.native import torch_versions  # noqa: E402


def own_minor() -> str:
    """The minor version of .venv's torch, which the wheel is always for."""
    (packages,) = (VENV / "lib").glob("python3*/site-packages")
    return version_in(packages)


def version_in(packages: pathlib.Path) -> str:
    """The minor version of the torch in this folder. Raises WheelError."""
    version = torch_versions.version_in(packages / "torch")
    minor = torch_versions.minor_of(version)
    if minor not in torch_versions.MINORS:
        words = f"torch {version}" if version else "no torch/version.py"
        raise WheelError(f"{packages} has {words}, and Laneway works with {torch_versions.MINORS}")
    return minor


def more_torches(wanted: list[str]) -> list[pathlib.Path]:
    """Folders for the wanted versions (default: all that work) beside the checkout's own. Raises
    WheelError."""
    folders = {}
    for word in wanted or torch_versions.MINORS:
        if "/" in word:
            folder = pathlib.Path(word).resolve()
            folders[version_in(folder)] = folder
        elif word not in torch_versions.MINORS:
            some = ", ".join(torch_versions.MINORS)
            raise WheelError(f"--torch {word}: Laneway works with {some}; or name a folder")
        elif word != own_minor():
            try:
                folders[word] = folder_of(word, VENV / "bin/python")
            except NoTorch as error:
                raise WheelError(str(error)) from error
    folders.pop(own_minor(), None)
    return list(folders.values())


def make(output: pathlib.Path, torches: list[str]) -> pathlib.Path:
    """Builds the wheel into `output`; its path. Raises WheelError."""
    output.mkdir(parents=True, exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in output.glob("laneway-*.whl")}
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    folders = ";".join(map(str, more_torches(torches)))
    command = [str(VENV / "bin/python"), "-m", "pip", "wheel", "--disable-pip-version-check"]
    command += ["--config-settings", f"cmake.define.LANEWAY_MORE_TORCHES={folders}"]
    command += ["--no-deps", "--wheel-dir", str(output), str(ROOT)]
    run(command, env={"CC": "cc", "CXX": "c++"} | os.environ | {"CMAKE_BUILD_PARALLEL_LEVEL": jobs})
    made = [p for p in output.glob("laneway-*.whl") if before.get(p) != p.stat().st_mtime_ns]
    if len(made) != 1:
        raise WheelError(f"pip wheel left {len(made)} wheels in {output}, where one was expected")
    return tagged(made[0])


def tagged(wheel: pathlib.Path) -> pathlib.Path:
    """The wheel with the platform in its name and metadata. Raises WheelError."""
    python = check_wheel.audit_python()
    command = [str(python), "-m", "wheel", "tags", "--platform-tag", PLATFORM, "--remove"]
    print("dev:", shlex.join([*command, str(wheel)]), flush=True)
    done = subprocess.run([*command, str(wheel)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{wheel} cannot be tagged {PLATFORM}: {done.stderr}")
    return wheel.parent / done.stdout.strip().splitlines()[-1]


def check_patch(wheel: pathlib.Path, patch: str) -> None:
    """The wheel's binaries find their symbols in this patch release too ("2.12.0", or a folder),
    with CUDA's libraries of the checkout's torch. Raises WheelError."""
    try:
        folder = pathlib.Path(patch) if "/" in patch else folder_of(patch, VENV / "bin/python")
    except NoTorch as error:
        raise WheelError(str(error)) from error
    minor, version = version_in(folder), torch_versions.version_in(folder / "torch")
    if minor not in check_wheel.check_contents(wheel):
        raise WheelError(f"{wheel} has no binaries for torch {version}")
    libraries = [*(VENV / "lib").glob("python3*/site-packages/nvidia/cu*/lib")]
    missing = patch_releases.check(wheel, minor, folder.resolve(), libraries)
    if missing:
        raise WheelError(f"{len(missing)} symbols are not in torch {version}: {missing[:10]}")
    print(f"dev: every symbol is in torch {version}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev wheel",
        description="Build the wheel: programs, libraries, the package and laneway.h. It installs "
        "with `pip install WHEEL` into an environment of the same machine type that has a torch "
        "which it was built for, and changes nothing there.",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="default: build/"
    )
    parser.add_argument(
        "--torch",
        action="append",
        default=[],
        metavar="MINOR|FOLDER",
        help="for this torch beside the checkout's: 2.12 (downloaded once, 1 GB in build/torch/), "
        "or a folder with an unpacked wheel (repeatable; default: all that Laneway works with)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also install it into fresh environments; train there, embedded and with lanewayd",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=pathlib.Path,
        metavar="PYTHON",
        help="check in environments like this one's, whose torch they take (repeatable; default: "
        "each .venv* of the checkout)",
    )
    parser.add_argument(
        "--patch",
        action="append",
        default=[],
        metavar="VERSION|FOLDER",
        help="check that its binaries find their symbols in this torch: 2.12.0 (downloaded once), "
        "or a folder with an unpacked wheel (repeatable)",
    )
    parser.add_argument("--wheel", type=pathlib.Path, help="check this one instead of building")
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    pythons = arguments.python or sorted(ROOT.glob(".venv*/bin/python"))
    try:
        wheel = (arguments.wheel or make(arguments.out, arguments.torch)).resolve()
        if arguments.check or arguments.wheel:
            check_wheel.check(wheel, pythons)
        for patch in arguments.patch:
            check_patch(wheel, patch)
    except WheelError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    print(f"{wheel}: {wheel.stat().st_size / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
