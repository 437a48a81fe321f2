"""Formatting, clang-tidy and ruff over what changed, or over everything. Used by ./dev lint.

clang-tidy reads the compile commands of the dev preset, which is configured but not built for it.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import build

ROOT = build.ROOT
CPP = (".h", ".hpp", ".cc", ".c")
PRECOMPILED = re.compile(r"-Winvalid-pch -include \S+/cmake_pch\.hxx|-fpch-preprocess")
SETTINGS = (".clang-tidy", ".clang-format", "pyproject.toml", "tools/lint.py")


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def base_revision() -> str:
    """What "changed" is counted from: where this branch left its upstream, else the last commit."""
    upstream = git("merge-base", "HEAD", "@{upstream}").strip()
    return upstream or "HEAD"


def files_to_check(everything: bool, since: str | None) -> list[str]:
    known = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    if not everything:
        changed = git("diff", "--name-only", since or base_revision()).splitlines()
        changed += git("ls-files", "--others", "--exclude-standard").splitlines()
        if not set(SETTINGS) & set(changed):
            known = [path for path in known if path in set(changed)]
    return sorted(path for path in set(known) if (ROOT / path).is_file())


def run(title: str, command: list[str]) -> bool:
    print(f"dev: {title}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def check_format(cpp: list[str], python: list[str], fix: bool) -> bool:
    good = True
    if cpp:
        mode = ["-i"] if fix else ["--dry-run", "-Werror"]
        good &= run("clang-format", ["clang-format", *mode, *cpp])
    if python:
        ruff = [sys.executable, "-m", "ruff"]
        good &= run("ruff format", [*ruff, "format", *([] if fix else ["--diff"]), *python])
        good &= run("ruff check", [*ruff, "check", *(["--fix"] if fix else []), *python])
    return good


def compile_units(cpp: list[str]) -> list[str]:
    """The sources that are really compiled, in the order given; a header is seen through them."""
    database = build.build_directory("dev") / "compile_commands.json"
    compiled = {entry["file"] for entry in json.loads(database.read_text())}
    return [path for path in cpp if str(ROOT / path) in compiled]


def check_tidy(cpp: list[str]) -> bool:
    try:
        build.configure("dev", quiet=True)
    except build.BuildError as error:
        print(f"dev: {error}", file=sys.stderr)
        return False
    units = compile_units(cpp)
    print(f"dev: clang-tidy over {len(units)} sources", flush=True)
    return all(tidy_all(units).values())


def tidy_commands() -> pathlib.Path:
    """A folder with the dev preset's compile commands as clang-tidy takes them: without GCC's
    precompiled headers. So a source that includes too little is found here."""
    directory = build.build_directory("dev")
    entries = json.loads((directory / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
    folder = directory / "clang-tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


def tidy_all(units: list[str]) -> dict[str, bool]:
    """By source: whether clang-tidy finds nothing in it; what it finds is printed."""
    commands = tidy_commands()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = pool.map(lambda unit: tidy_one(unit, commands), units)
        return dict(zip(units, found, strict=True))


def changed_since_last_commit() -> list[str] | None:
    """Files that differ from where this branch left its upstream, or from the commit before the
    last one. None where git knows no history to compare with (an unpacked archive, a shallow
    clone)."""
    base = git("merge-base", "HEAD", "@{upstream}").strip()
    if not base or base == git("rev-parse", "HEAD").strip():
        base = git("rev-parse", "--verify", "--quiet", "HEAD^").strip()
    return files_to_check(everything=False, since=base) if base else None


def tidy_one(unit: str, commands: pathlib.Path) -> bool:
    command = ["clang-tidy", "-p", str(commands), "--quiet"]
    command += ["--extra-arg=-Wno-unknown-warning-option", str(pathlib.Path(unit))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.stdout.write(done.stdout or done.stderr)
        sys.stdout.flush()
    return done.returncode == 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev lint",
        description="Check formatting (clang-format, ruff), clang-tidy and ruff over the files "
        "that differ from the upstream branch, or from the last commit where there is none.",
    )
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--all", action="store_true", help="every file")
    scope.add_argument("--since", metavar="REVISION", help="files that differ from REVISION")
    parser.add_argument("--fix", action="store_true", help="format and apply ruff's safe fixes")
    parser.add_argument("--no-tidy", action="store_true", help="leave clang-tidy out (it is slow)")
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    if arguments.since and not git("rev-parse", "--verify", "--quiet", arguments.since):
        print(f"dev: git knows no revision {arguments.since!r}", file=sys.stderr)
        return 2
    files = files_to_check(arguments.all, arguments.since)
    cpp = [path for path in files if path.endswith(CPP)]
    python = [path for path in files if path.endswith(".py")]
    good = check_format(cpp, python, arguments.fix)
    if cpp and not arguments.no_tidy:
        good &= check_tidy(cpp)
    print(f"dev: {len(cpp)} C++ and {len(python)} Python files {'clean' if good else 'need work'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
