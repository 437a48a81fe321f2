"""Configures and builds one preset, and makes its result usable from .venv.

Used by ./dev build, and by the other commands before their own work. Standard library only.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib

import torch_minors

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESETS = ("release", "dev", "asan", "tsan")
EMBEDDED_LIBRARY = "service/liblaneway_embedded.so"
CLIENT_LIBRARY = "service/liblaneway_client.so"
CUDA_PLUGIN = "adaptor/liblaneway_cuda.so"
PACKAGE_LIBRARIES = ROOT / "python/laneway/lib"


class BuildError(Exception):
    """A step failed; its own output has been printed, the text says which step."""


def build_directory(preset: str) -> pathlib.Path:
    return ROOT / "build" / preset


def configure(preset: str, quiet: bool = False) -> None:
    """Runs cmake when this preset was never configured, or presets or requirements changed."""
    directory = build_directory(preset)
    cache = directory / "CMakeCache.txt"
    if cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in cache.read_text():
        shutil.rmtree(directory)  # the checkout was moved or copied
    stamp = directory / ".configured"
    causes = (ROOT / "CMakePresets.json", ROOT / "requirements.txt")
    configured = (directory / "build.ninja").exists() and stamp.exists()
    if configured and all(c.stat().st_mtime <= stamp.stat().st_mtime for c in causes):
        return
    command = ["cmake", "--preset", preset]
    python = torch_minors.python_of(preset)
    if python is not None:
        command = ["cmake", "--preset", "dev", "-B", str(directory), f"-DLANEWAY_PYTHON={python}"]
    if configured:
        command.append("--fresh")
    run(command, quiet)
    stamp.touch()


def build(preset: str, targets: list[str] | None = None, quiet: bool = False) -> None:
    """Configures if needed and builds `targets` (default: all). Raises BuildError."""
    configure(preset, quiet)
    command = ["cmake", "--build", str(build_directory(preset)), f"-j{os.cpu_count() or 1}"]
    for target in targets or []:
        command += ["--target", target]
    run(command, quiet)


def run(command: list[str], quiet: bool) -> None:
    """Runs `command` at the root. Quiet: output is held back until ninja has a step to do (its
    lines begin with "[") or the command fails."""
    if not quiet:
        print("dev:", shlex.join(command), flush=True)
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE if quiet else None,
        text=True,
    )
    held, shown = [], False
    for line in process.stdout or []:
        shown = shown or line.startswith("[")
        if shown:
            print(line, end="", flush=True)
        else:
            held.append(line)
    if process.wait() != 0:
        if not shown:
            print("".join(held), end="", flush=True)
        raise BuildError(f"{shlex.join(command)} failed (see above)")


def link_package_libraries(preset: str) -> None:
    """Points python/laneway/lib/ at the shared objects that `preset` built."""
    for name in (EMBEDDED_LIBRARY, CLIENT_LIBRARY, CUDA_PLUGIN):
        library = build_directory(preset) / name
        if library.exists():
            replace_link(PACKAGE_LIBRARIES / library.name, library)


def link_into_venv(preset: str) -> None:
    """Makes `import laneway`, the command laneway and the built programs available in the
    environment of the preset: .venv, or that of a minor version of torch."""
    python = torch_minors.python_of(preset)
    venv = ROOT / ".venv" if python is None else python.parent.parent
    if not venv.exists():
        return
    packages = sysconfig.get_path(
        "purelib", vars={"base": str(venv), "platbase": str(venv)}, scheme="venv"
    )
    write_if_changed(pathlib.Path(packages) / "laneway-checkout.pth", f"{ROOT / 'python'}\n")
    write_metadata(pathlib.Path(packages))
    if (ROOT / "python/laneway/cli.py").exists() or (ROOT / "python/laneway/cli").is_dir():
        launcher = venv / "bin/laneway"
        call = "import sys; from laneway.cli import main; sys.exit(main())"
        python = shlex.quote(str(venv / "bin/python"))
        write_if_changed(launcher, f'#!/bin/sh\nexec {python} -c "{call}" "$@"\n')
        launcher.chmod(0o755)
    programs = build_directory(preset) / "bin"
    for program in sorted(programs.iterdir()) if programs.is_dir() else []:
        replace_link(venv / "bin" / program.name, program)


def write_metadata(packages: pathlib.Path) -> None:
    """Tells .venv of the checkout's package as an installed one would: its version, and its entry
    points, by which torch finds the backend "laneway". Those of another version are removed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = (ROOT / "python/laneway/VERSION").read_text().strip()
    folder = packages / f"laneway-{version}.dist-info"
    for other in packages.glob("laneway-*.dist-info"):
        if other != folder:
            shutil.rmtree(other)
    metadata = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}"]
    metadata.append(f"Summary: {project['description']}")
    metadata.append(f"Requires-Python: {project['requires-python']}")
    metadata += [f"Requires-Dist: {needed}" for needed in project["dependencies"]]
    entries = []
    for group, points in project["entry-points"].items():
        entries.append(f"[{group}]")
        entries += [f"{name} = {where}" for name, where in points.items()]
    files = {"METADATA": metadata, "entry_points.txt": entries, "INSTALLER": ["./dev build"]}
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        write_if_changed(folder / name, "\n".join(lines) + "\n")
    record = [f"{folder.name}/{name},," for name in [*files, "RECORD"]]
    write_if_changed(folder / "RECORD", "\n".join([*record, "laneway-checkout.pth,,", ""]))


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def replace_link(link: pathlib.Path, target: pathlib.Path) -> None:
    wanted = os.path.relpath(target, link.parent)
    if link.is_symlink() and os.readlink(link) == wanted:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(wanted)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev build",
        description="Set up, configure and build. Afterwards .venv/bin/python can import laneway "
        "and .venv/bin has the programs that exist so far.",
    )
    parser.add_argument("--preset", choices=PRESETS, default="release", help="default: release")
    parser.add_argument("--target", action="append", help="build only this target (repeatable)")
    parser.add_argument("--quiet", action="store_true", help="say nothing when nothing is to do")
    torch_minors.add_option(parser, "build programs and libraries as the preset dev does, but")
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    minors = torch_minors.chosen(arguments.torch)
    targets = arguments.target or ([torch_minors.PROGRAMS] if minors else None)
    try:
        for name in [torch_minors.build_name(minor) for minor in minors] or [arguments.preset]:
            build(name, targets, arguments.quiet)
    except BuildError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    for minor in minors:
        link_into_venv(torch_minors.build_name(minor))
    if minors:  # what is linked into python/laneway/lib/ is for .venv
        return 0
    if arguments.preset in ("release", "dev"):
        link_package_libraries(arguments.preset)
        link_into_venv(arguments.preset)
    return 0


if __name__ == "__main__":
    sys.exit(main())
