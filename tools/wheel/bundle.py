"""Puts into an installed tree (folders bin and lib) the system's libraries that its programs need
beside glibc, the compiler's run time and torch, with their licences. Run by CMake's install step.

usage: bundle.py PACKAGE-FOLDER
"""

import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import pack_libraries


def licence_of(library: pathlib.Path) -> pathlib.Path | None:
    """Debian's copyright file of the package that the library is of; None elsewhere."""
    for path in (library, pathlib.Path("/", *library.parts[2:])):  # /usr/lib is also /lib
        done = subprocess.run(
            ["dpkg-query", "-S", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            package = done.stdout.partition(":")[0]
            return pathlib.Path("/usr/share/doc", package, "copyright")
    return None


def bundle(package: pathlib.Path) -> list[str]:
    """Copies them into `package`/lib; their names. Raises LibraryMissing."""
    ours = [p for folder in ("bin", "lib") for p in (package / folder).rglob("*") if p.is_file()]
    binaries = [path for path in ours if pack_libraries.is_elf(path)]
    needed = pack_libraries.closure(binaries, {path.name for path in binaries}).libraries
    for name, path in sorted(needed.items()):
        shutil.copy2(path, package / "lib" / name)
        licence = licence_of(path) if shutil.which("dpkg-query") else None
        if licence is not None and licence.exists():
            (package / "lib/licenses").mkdir(exist_ok=True)
            shutil.copy2(licence, package / "lib/licenses" / f"{name}.txt")
        else:
            print(f"bundle: no licence file is known for {path}", file=sys.stderr)
    return sorted(needed)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.strip().splitlines()[-1], file=sys.stderr)
        return 2
    try:
        print("bundled:", *bundle(pathlib.Path(sys.argv[1])))
    except pack_libraries.LibraryMissing as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
