"""The folder of models: which there are, and what makes one's folder fit to be run. Nothing is kept
of a folder that was not asked for."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from pathlib import Path

from laneway.errors import InvalidInput
from laneway.serve import limits
from laneway.serve.problem import Problem
from laneway.serve.spec import Spec, read_spec

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.NAME_CHARACTERS - 1}}}")
_VERSION = re.compile(r"[0-9]{1,18}")
NO_VERSION = "1"  # of a model without folders of versions


@dataclasses.dataclass(frozen=True)
class Facts:
    """One version of a model, as its folder was when it was looked at. `weights` is the file of the
    version's weights; `stamp` differs when a file has changed."""

    name: str
    version: str
    folder: Path
    spec: Spec
    weights: Path | None
    stamp: tuple

    @property
    def job(self) -> str:
        """The name of its job in the service."""
        return self.name if self.weights is None else f"{self.name}/{self.version}"


class Repository:
    def __init__(self, folder: str) -> None:
        """Raises InvalidInput for a folder that is none, or that others may write to."""
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise InvalidInput(f"--models {folder}: there is no such folder")
        _check_owner(self.folder)

    def names(self) -> list[str]:
        """Of all folders that have a model.toml."""
        try:
            entries = sorted(entry.name for entry in os.scandir(self.folder))
        except OSError as error:
            raise Problem(409, f"{self.folder}: {error.strerror}") from None
        return [name for name in entries if self.has(name)]

    def has(self, name: str) -> bool:
        return bool(_NAME.fullmatch(name)) and os.path.isfile(self.folder / name / "model.toml")

    def versions(self, name: str) -> list[str]:
        """Of a model that there is, the newest last."""
        try:
            found = [e.name for e in os.scandir(self.folder / name) if e.is_dir()]
        except OSError:
            return []
        numbers = sorted((n for n in found if _VERSION.fullmatch(n)), key=int)
        return numbers or [NO_VERSION]

    def facts(self, name: str, version: str | None = None) -> Facts:
        """Raises Problem 404 for a model or version that there is not, 409 for a folder that is not
        fit to be run."""
        if not self.has(name):
            raise Problem(404, f"there is no model '{name[:200]}' in {self.folder}")
        versions = self.versions(name)
        if not versions:
            raise Problem(404, f"there is no model '{name}' in {self.folder} any more")
        version = version or versions[-1]
        if version not in versions:
            known = ", ".join(versions)
            raise Problem(404, f"model '{name}' has no version {version[:200]!r}; it has {known}")
        folder = self.folder / name
        weights = folder / version / "weights.pt"
        files = [folder / "model.toml", folder / "model.py"]
        if os.path.isdir(folder / version):
            files.append(weights)
        try:
            code = _checked(folder)
            stamp = tuple(_stamp(path) for path in (*files, *code))
            with open(files[0], "rb") as file:
                text = file.read(limits.TOML_BYTES + 1)
            if len(text) > limits.TOML_BYTES:
                raise InvalidInput(f"model.toml has more than {limits.TOML_BYTES} bytes")
            spec = read_spec(text)
        except OSError as error:
            raise Problem(409, f"model '{name}': {error.filename}: {error.strerror}") from None
        except InvalidInput as error:
            raise Problem(409, f"model '{name}': {error}") from None
        return Facts(name, version, folder, spec, weights if len(files) == 3 else None, stamp)


def _checked(folder: Path) -> list[Path]:
    """All Python files of a model's folder, sorted, when nobody else may write anything in it.
    Raises InvalidInput; OSError where it cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    _check_owner(folder)
    code = []
    for inside, folders, files in os.walk(folder, onerror=fail):
        for name in (*folders, *files):
            _check_owner(Path(inside, name))
        code += [Path(inside, name) for name in files if name.endswith(".py")]
    return sorted(code)


def _stamp(path: Path) -> tuple[str, int, int, int]:
    facts = path.stat()
    return str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns


def _check_owner(path: Path) -> None:
    """A model is code: whoever may write it may do what the gateway's user may. Of a link, what it
    leads to and that one's folder count."""
    for place in {path.resolve(), path.resolve().parent} if path.is_symlink() else {path}:
        facts = place.stat()
        if facts.st_uid not in (0, os.geteuid()):
            raise InvalidInput(f"{place} belongs to user {facts.st_uid}: it must be your own")
        if facts.st_mode & 0o022:
            mode = stat.S_IMODE(facts.st_mode)
            raise InvalidInput(
                f"others may write to {place} (mode {mode:04o}), and a model is code: "
                f"chmod go-w {place}"
            )
