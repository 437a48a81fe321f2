"""--torch of ./dev build, test, bench and gpu-pack: another minor version of torch than
requirements.txt pins, with an environment and a build folder of its own. Standard library only.

`torch_minors.py ARGUMENT…` prints, one a line, which minor versions the arguments of a command ask
for: ./dev makes their environments.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# For which adaptor/ is written, oldest first. Those that a package works with are MINORS in
# python/laneway/native/torch_versions.py: a minor version stands there once its tests have passed.
MINORS = ("2.11", "2.12", "2.13", "2.14", "2.15")
PROGRAMS = "laneway_wheel"  # the target of all programs and libraries, without tests
PREFIX = "torch-"  # of the name that stands for such a build where a preset's is expected


def add_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--torch",
        choices=(*MINORS, "all"),
        metavar="MINOR",
        help=f"{what} with the newest torch of this minor version ({', '.join(MINORS)}, or all of "
        "them), in build/torch-MINOR and with an environment in build/env-MINOR (5 GB each)",
    )


def chosen(option: str | None) -> list[str]:
    if option is None:
        return []
    return list(MINORS) if option == "all" else [option]


def build_name(minor: str) -> str:
    return PREFIX + minor


def python_of(name: str) -> pathlib.Path | None:
    """The interpreter that a build of this name is for; None: a preset, which is for .venv."""
    if not name.startswith(PREFIX):
        return None
    return ROOT / f"build/env-{name.removeprefix(PREFIX)}/bin/python"


def main() -> int:
    parser = argparse.ArgumentParser()
    add_option(parser, "print")
    arguments, _ = parser.parse_known_args()
    print("\n".join(chosen(arguments.torch)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
