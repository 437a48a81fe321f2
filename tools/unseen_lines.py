"""How many product lines of C++ no sanitizer sees: sources outside tests/ and bench/ that the dev
preset compiles and that neither the asan nor the tsan preset does, and headers that only those
include. Of adaptor/ also what the preset asan-torch compiles, where that is configured. Run by
./dev test, or alone: tools/unseen_lines.py [--list]. Standard library only.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

import build

ROOT = build.ROOT
SANITIZED = ("asan", "tsan")
# With LibTorch as it comes, which is not built with sanitizers: run on request.
WITH_TORCH = "asan-torch"
# What the product is made of.
FOLDERS = (
    *("adaptor", "base", "lanes", "memory", "pipeline", "plugin", "policies", "service"),
    "simulator",
)
TORCH_FOLDER = "adaptor"
MOST_UNSEEN_PERCENT = 2.0  # outside of TORCH_FOLDER
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclasses.dataclass
class Count:
    lines: int = 0
    unseen: int = 0

    @property
    def percent(self) -> float:
        return 100 * self.unseen / self.lines if self.lines else 0.0


def compiled(preset: str) -> set[str]:
    """The sources of the repository that the preset compiles, relative to the root."""
    database = build.build_directory(preset) / "compile_commands.json"
    paths = [pathlib.Path(entry["file"]) for entry in json.loads(database.read_text())]
    return {str(path.relative_to(ROOT)) for path in paths if path.is_relative_to(ROOT)}


def with_headers(sources: set[str]) -> set[str]:
    """`sources` and every file of the repository that they include, directly or not."""
    found: set[str] = set()
    waiting = list(sources)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        try:
            waiting += [name for name in INCLUDE.findall((ROOT / path).read_text()) if name]
        except FileNotFoundError:
            found.remove(path)  # not ours
    return found


def is_product(path: str) -> bool:
    return path.split("/")[0] in FOLDERS


def unseen_files() -> tuple[list[str], dict[str, Count]]:
    """Which product files no sanitizer sees, and the count of lines by top folder. Presets that are
    not configured raise FileNotFoundError."""
    seen = with_headers(set().union(*(compiled(preset) for preset in SANITIZED)))
    if has_torch_preset():
        with_torch = with_headers(compiled(WITH_TORCH))
        seen |= {path for path in with_torch if path.startswith(f"{TORCH_FOLDER}/")}
    counts: dict[str, Count] = {}
    unseen = []
    for path in sorted(filter(is_product, with_headers(compiled("dev")))):
        lines = len((ROOT / path).read_text().splitlines())
        count = counts.setdefault(path.split("/")[0], Count())
        count.lines += lines
        if path not in seen:
            count.unseen += lines
            unseen.append(path)
    return unseen, counts


def has_torch_preset() -> bool:
    return (build.build_directory(WITH_TORCH) / "compile_commands.json").exists()


def outside_torch(counts: dict[str, Count]) -> Count:
    rest = [count for folder, count in counts.items() if folder != TORCH_FOLDER]
    return Count(sum(count.lines for count in rest), sum(count.unseen for count in rest))


def report(counts: dict[str, Count]) -> str:
    outside = outside_torch(counts)
    torch = counts.get(TORCH_FOLDER, Count())
    return (
        f"lines that no sanitizer sees: {outside.unseen} of {outside.lines} outside "
        f"{TORCH_FOLDER}/ ({outside.percent:.1f} %, limit {MOST_UNSEEN_PERCENT:.0f} %), "
        f"{torch.unseen} of {torch.lines} in {TORCH_FOLDER}/ ({torch.percent:.1f} %"
        f"{'' if has_torch_preset() else f', without ./dev test --preset {WITH_TORCH}'})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the files too")
    arguments = parser.parse_args()
    try:
        unseen, counts = unseen_files()
    except FileNotFoundError as error:
        print(f"{error.filename} is missing: run ./dev test first", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(unseen))
    print(report(counts))
    return 0 if outside_torch(counts).percent <= MOST_UNSEEN_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
