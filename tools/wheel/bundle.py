"""Puts into an installed tree (folders bin and lib) the libraries of others that its programs need
beside glibc, the compiler's run time and torch, with their licences. Run by CMake's install step.

usage: bundle.py PACKAGE-FOLDER [LIBZMQ]
"""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import messages

import pack_libraries


def licence_of(library: pathlib.Path) -> str | None:
    """As pyzmq's wheel has it, or Debian's copyright file of the package that the library is of;
    None elsewhere."""
    if library.name in messages.SHA256:
        return messages.licence_of(library)
    if not shutil.which("dpkg-query"):
        return None
    for path in (library, pathlib.Path("/", *library.parts[2:])):  # /usr/lib is also /lib
        done = subprocess.run(
            ["dpkg-query", "-S", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            package = done.stdout.partition(":")[0]
            path = pathlib.Path("/usr/share/doc", package, "copyright")
            return path.read_text() if path.exists() else None
    return None


def bundle(package: pathlib.Path, folders: list[pathlib.Path]) -> list[str]:
    """Copies them into `package`/lib; their names. They are looked for in `folders` first. Raises
    LibraryMissing."""
    ours = [p for folder in ("bin", "lib") for p in (package / folder).rglob("*") if p.is_file()]
    binaries = [path for path in ours if pack_libraries.is_elf(path)]
    names = {path.name for path in binaries}
    needed = pack_libraries.closure(binaries, names, folders).libraries
    for name, path in sorted(needed.items()):
        shutil.copy2(path, package / "lib" / name)
        licence = licence_of(path)
        if licence is not None:
            (package / "lib/licenses").mkdir(exist_ok=True)
            (package / "lib/licenses" / f"{name}.txt").write_text(licence)
        else:
            print(f"bundle: no licence file is known for {path}", file=sys.stderr)
    return sorted(needed)


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    try:
        folders = [pathlib.Path(path).parent for path in sys.argv[2:]]
        print("bundled:", *bundle(pathlib.Path(sys.argv[1]), folders))
    except pack_libraries.LibraryMissing as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
