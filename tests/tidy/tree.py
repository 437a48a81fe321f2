"""What the checks look at: the files of one source tree, the rules, and what was built from it."""

import dataclasses
import fnmatch
import pathlib
import subprocess
import tomllib

TIDY = pathlib.Path(__file__).resolve().parent
SKIPPED_FOLDERS = {".git", ".venv", ".cache", "build", "__pycache__"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One broken rule at one place; `line` 0 means the file as a whole."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Fixture:
    """A tree that a check is tried on: `finds` is a part of the one message that must come, or
    None when nothing may be found."""

    shows: str
    files: dict[str, str]
    finds: str | None


class Tree:
    """The files below `root` (git's view where there is one) and the two tables of rules."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path | None = None, **tools: str):
        self.root = root
        self.build = build
        self.tools = tools  # compiler, torch_include, clang_format
        self.paths = sorted(self._list())
        # A small tree that a check is tried on has tables of its own, or those of this folder.
        self.layers = self._table("layers.toml")
        self.rules = self._table("rules.toml")
        self._texts: dict[str, str] = {}

    def has_table(self, name: str) -> bool:
        return f"tests/tidy/{name}" in self.paths

    def _table(self, name: str) -> dict:
        folder = self.root / "tests/tidy" if self.has_table(name) else TIDY
        return tomllib.loads((folder / name).read_text())

    def _list(self) -> list[str]:
        if (self.root / ".git").exists():
            command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
            listed = subprocess.run(command, cwd=self.root, capture_output=True, check=False)
            if listed.returncode == 0:
                names = listed.stdout.decode().split("\0")
                return [name for name in names if name and (self.root / name).is_file()]
        found = []
        for path in self.root.rglob("*"):
            relative = path.relative_to(self.root)
            if path.is_file() and not SKIPPED_FOLDERS.intersection(relative.parts):
                found.append(str(relative))
        return found

    def text(self, path: str) -> str:
        """The file's text; "" for a file that is not UTF-8 text (a picture, an archive)."""
        if path not in self._texts:
            try:
                self._texts[path] = (self.root / path).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self._texts[path] = ""
        return self._texts[path]

    def with_suffix(self, *suffixes: str) -> list[str]:
        return [path for path in self.paths if path.endswith(suffixes)]

    def cpp(self) -> list[str]:
        return self.with_suffix(".h", ".hpp", ".cc", ".c")


def matches(path: str, patterns: list[str]) -> bool:
    """Whether one of `patterns` covers `path`: "folder/" all below it, else a glob (in which *
    crosses folders)."""
    for pattern in patterns:
        if pattern.endswith("/"):
            if path.startswith(pattern):
                return True
        elif fnmatch.fnmatchcase(path, pattern):
            return True
    return False


def row_of(path: str, rows: list[dict]) -> dict | None:
    """The layer row with the longest folder that `path` (a file or folder) lies in."""
    best = None
    for row in rows:
        if inside(path, row["folder"]) and (
            best is None or len(row["folder"]) > len(best["folder"])
        ):
            best = row
    return best


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def may_use(user: dict, path: str) -> bool:
    """Whether the folder of layer row `user` may use what lies at `path`."""
    if any(inside(path, folder) for folder in user.get("forbid", [])):
        return False
    return any(inside(path, folder) for folder in [user["folder"], *user["may_use"]])
