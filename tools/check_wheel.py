"""Tries a wheel as its users will: what it holds, and, for each environment with a torch, installed
by pip into a fresh one that has the same packages, where it trains embedded and through lanewayd.

Used by ./dev wheel --check, with python/ on its path. Standard library only.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import zipfile

import pack_libraries
from laneway.native import torch_versions

ROOT = pathlib.Path(__file__).resolve().parent.parent
READY_S = 120  # loading torch from a cold disk is slow
MOST_BYTES = 25 << 20
MOST_FOREIGN = 6
AUDIT = ("auditwheel==6.8.2", "pyelftools==0.33", "wheel==0.45.1", "packaging==26.3")
BROUGHT = {"laneway", "cffi", "pycparser"}  # what pip may install

# What a user of the wheel does first; the fresh environment's Python runs it outside the checkout.
CHECK = """
import pathlib, sys
import torch, laneway
assert "site-packages" in laneway.__file__, laneway.__file__
model = torch.nn.Linear(4, 2)
other = torch.nn.Linear(4, 2)
other.load_state_dict(model.state_dict())
x, y = torch.randn(8, 4), torch.randn(8, 2)
loss_fn = torch.nn.functional.mse_loss
def plain(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        loss = loss_fn(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        losses.append(loss.detach())
    return losses
expected = plain(other)
opened = laneway.connect(sys.argv[1]) if sys.argv[1:] else laneway.embedded(pool="64MiB")
with opened as service:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = laneway.train_step(model, loss_fn, optimizer, service=service)
    losses = [step(x, y) for _ in range(3)]
    step.sync_to(model, optimizer)
assert all(torch.equal(a, b) for a, b in zip(losses, expected)), (losses, expected)
assert torch.equal(model.weight, other.weight)
assert "laneway" in torch._dynamo.list_backends()
print("three training steps, bit-equal to plain PyTorch:", " ".join(f"{l:.4f}" for l in losses))
"""


class WheelError(Exception):
    """A step failed; its own output has been printed, the text names the step."""


def run(command: list[str], **settings: object) -> None:
    print("dev:", shlex.join(command), flush=True)
    if subprocess.run(command, check=False, **settings).returncode != 0:
        raise WheelError(f"{shlex.join(command)} failed (see above)")


def check(wheel: pathlib.Path, pythons: list[pathlib.Path]) -> None:
    """Raises WheelError with what is wrong first: the file, then each environment."""
    minors = check_contents(wheel)
    check_platform(wheel)
    for python in pythons:
        minor = torch_minor(python)
        if minor not in minors:
            raise WheelError(f"{python} has torch {minor or '(none)'}, the wheel is for {minors}")
        check_in(wheel, python)


def check_contents(wheel: pathlib.Path) -> list[str]:
    """Its size, the libraries of others in it, their licences, and that each folder for a torch has
    binaries which say that they are for it. The minor versions. Raises WheelError."""
    if wheel.stat().st_size > MOST_BYTES:
        raise WheelError(f"{wheel} has {wheel.stat().st_size} bytes, more than {MOST_BYTES}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        foreign = [
            pathlib.PurePath(name).name
            for name in names
            if re.fullmatch(r"laneway/lib/lib(?!laneway_).*\.so.*", name)
        ]
        if len(foreign) > MOST_FOREIGN:
            raise WheelError(
                f"{len(foreign)} libraries of others, {MOST_FOREIGN} allowed: {foreign}"
            )
        for name in foreign:
            if f"laneway/lib/licenses/{name}.txt" not in names:
                raise WheelError(f"{name} is packed without its licence")
        folders = {name.split("/")[2] for name in names if name.startswith("laneway/lib/torch-")}
        minors = sorted((folder.removeprefix("torch-") for folder in folders), key=_by_number)
        for minor in minors:
            for file in ("liblaneway_embedded.so", "laneway-worker"):
                name = f"laneway/lib/torch-{minor}/{file}"
                if name not in names:
                    raise WheelError(f"{name} is missing")
                if b"LANEWAY\0" + minor.encode() + b"." not in archive.read(name):
                    raise WheelError(f"{name} does not say that it is for torch {minor}")
    print(f"dev: for torch {', '.join(minors)}; libraries of others: {', '.join(foreign)}")
    return minors


def _by_number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))


def audit_python() -> pathlib.Path:
    """A Python with auditwheel and wheel, in build/wheel-tools. Raises WheelError."""
    folder = ROOT / "build/wheel-tools"
    stamp, pinned = folder / ".requirements", " ".join(AUDIT)
    if not stamp.exists() or stamp.read_text() != pinned:
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
        run([*install, "--disable-pip-version-check", *AUDIT])
        stamp.write_text(pinned)
    return folder / "bin/python"


def check_platform(wheel: pathlib.Path) -> None:
    """The symbols that it needs are in every system which its tag names, and the libraries are in
    it, the system's, or torch's. Raises WheelError."""
    command = [str(audit_python()), "-m", "auditwheel", "show", "--json", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{shlex.join(command)} failed: {done.stdout}{done.stderr}")
    check_audit(json.loads(done.stdout), wheel.name)


def check_audit(found: dict, name: str) -> None:
    """What auditwheel found in the wheel of this file name. Raises WheelError."""
    glibc = re.compile(r"manylinux_(\d+)_(\d+)_")
    needs, says = glibc.search(found["sym_tag"]), glibc.search(name)
    if says is None or needs is None or _numbers(needs) > _numbers(says):
        raise WheelError(f"{name}: its symbols need {found['sym_tag']}, which its tag is not")
    others = [lib for lib in found["external_libs"] if pack_libraries.kind_of(lib) != "torch"]
    if others:
        raise WheelError(f"{name} needs {', '.join(others)}, which neither it nor torch brings")
    print(f"dev: auditwheel: its symbols need {found['sym_tag']}")


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in match.groups())


def torch_minor(python: pathlib.Path) -> str:
    """The minor version of the torch in this Python's environment; "" when it has none."""
    return torch_versions.minor_of(torch_versions.version_in(site_packages(python) / "torch"))


def site_packages(python: pathlib.Path) -> pathlib.Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{python} does not run: {done.stderr}")
    return pathlib.Path(done.stdout.strip())


def check_in(wheel: pathlib.Path, python: pathlib.Path) -> None:
    """Uses `wheel` in two fresh environments with the packages of `python`'s: one has torch itself,
    the other sees it elsewhere on its path. Raises WheelError."""
    with tempfile.TemporaryDirectory(prefix="laneway-wheel-") as name:
        with_torch, without = pathlib.Path(name) / "beside", pathlib.Path(name) / "elsewhere"
        for folder in (with_torch, without):
            run([str(python), "-m", "venv", "--without-pip", str(folder / "venv")])
        packages = site_packages(with_torch / "venv/bin/python")
        borrow_packages(site_packages(python), packages)
        place = site_packages(without / "venv/bin/python") / "torch-is-elsewhere.pth"
        place.write_text(f"{packages}\n")
        use(wheel, without, site_packages(python))
        use(wheel, with_torch, site_packages(python))
        check_refusals(with_torch, packages, torch_minor(python))


def use(wheel: pathlib.Path, folder: pathlib.Path, lent: pathlib.Path) -> None:
    """Installs `wheel` into `folder`/venv, where torch is a link into `lent`, and tries it:
    commands, training embedded and through lanewayd. Raises WheelError."""
    fresh = folder / "venv/bin/python"
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("LANEWAY_", "PYTHON"))}
    bare["LANEWAY_ADDRESS"] = f"ipc://{folder}/service/laneway.sock"
    at = {"cwd": folder, "env": bare}
    before = installed(fresh)
    install = [str(fresh), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    begun = time.monotonic()
    run([*install, str(wheel)], **at)
    print(f"dev: pip took {time.monotonic() - begun:.1f} s")
    check_change(before, installed(fresh))
    files = times_in(site_packages(fresh) / "laneway")
    check_libraries(folder / "venv", lent)
    for program in ("laneway", "lanewayd", "laneway-trace", "laneway-simulate"):
        run([str(folder / "venv/bin" / program), "--version"], **at)
    (folder / "three_steps.py").write_text(CHECK)
    run([str(fresh), "three_steps.py"], **at)
    with_service(folder, str(fresh), at)
    with_policies(folder, site_packages(fresh) / "laneway/include", at)
    if times_in(site_packages(fresh) / "laneway") != files:
        raise WheelError(f"files in {site_packages(fresh)}/laneway changed while it was used")


def check_refusals(folder: pathlib.Path, packages: pathlib.Path, minor: str) -> None:
    """What is missing or damaged in the installed package is refused in one sentence, by lanewayd
    and embedded. Spoils the environment. Raises WheelError."""
    binaries = packages / f"laneway/lib/torch-{minor}"
    for name in ("laneway-worker", "liblaneway_embedded.so"):
        (binaries / name).write_bytes((binaries / name).read_bytes()[:4096])
    refuse(
        folder, "is damaged: the file has 4096 bytes of ", "laneway-worker", "liblaneway_embedded"
    )
    for name in ("laneway-worker", "liblaneway_embedded.so"):
        (binaries / name).unlink()
    refuse(folder, "is missing: install the package laneway again", "worker", "liblaneway_embedded")
    binaries.rename(binaries.with_name("torch-0.0"))
    refuse(folder, f"torch-{minor} is missing, only ", "torch-0.0", "torch-0.0")
    (packages / "torch").unlink()
    refuse(
        folder, " has no torch, and this Laneway works with torch ", "pip install", "pip install"
    )


def refuse(folder: pathlib.Path, words: str, daemon: str, embedded: str) -> None:
    """Raises WheelError unless lanewayd and an embedded service end with one line that has `words`,
    and the one's has `daemon`, the other's `embedded`."""
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("LANEWAY_", "PYTHON"))}
    code = "import laneway\ntry: laneway.embedded('16MiB')\nexcept laneway.Error as e: exit(str(e))"
    for more, command in ((daemon, ["lanewayd"]), (embedded, ["python", "-c", code])):
        command[0] = str(folder / "venv/bin" / command[0])
        done = subprocess.run(command, cwd=folder, env=bare, capture_output=True, text=True)
        said = done.stderr.strip()
        if done.returncode != 1 or "\n" in said or words not in said or more not in said:
            raise WheelError(f"{command} ended with {done.returncode}, and said: {said}")
        print(f"dev: refused: {said}")


def times_in(folder: pathlib.Path) -> dict[str, int]:
    """When each file was changed; an installed package may be read-only."""
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def installed(python: pathlib.Path) -> dict[str, str]:
    """Versions by package."""
    command = [str(python), "-m", "pip", "list", "--disable-pip-version-check", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {package["name"].lower(): package["version"] for package in json.loads(done.stdout)}


def check_change(before: dict[str, str], after: dict[str, str]) -> None:
    """Raises WheelError when pip changed anything but what it may install."""
    changed = {
        name: f"{before.get(name)} -> {after.get(name)}"
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    if "laneway" not in changed or not changed.keys() <= BROUGHT:
        raise WheelError(f"pip install of the wheel should change {BROUGHT} alone: {changed}")
    print(f"dev: pip changed {changed}")


def check_libraries(venv: pathlib.Path, lent: pathlib.Path) -> None:
    """Every library that our files need, directly or not, is found in `venv`, or is glibc's, the
    compiler's run time or the driver's. Raises WheelError with those that come from elsewhere."""
    (package,) = (venv / "lib").glob("python3*/site-packages/laneway")
    inside = (str(package.resolve()), str(lent.resolve()))  # torch is a link into the latter
    strangers = []
    ours = [*(package / "bin").iterdir(), *(package / "lib").rglob("*laneway[-_]*")]
    for path in ours:
        found = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        for name, where in re.findall(r"^\s*(\S+) => (not found|\S+)", found.stdout, re.MULTILINE):
            resolved = os.path.realpath(where)
            if pack_libraries.kind_of(name) == "pack" and not resolved.startswith(inside):
                strangers.append(f"{path.name} takes {name} from {where}")
    if strangers:
        raise WheelError("the wheel does not stand alone: " + "; ".join(sorted(strangers)))


def with_service(folder: pathlib.Path, python: str, at: dict) -> None:
    """The same steps through the installed lanewayd, until it has ended as asked."""
    programs = folder / "venv/bin"
    ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ready.bind(str(folder / "ready"))
    ready.settimeout(READY_S)
    notify = at["env"] | {"NOTIFY_SOCKET": str(folder / "ready")}
    command = [str(programs / "lanewayd"), "--pool", "256MiB"]
    daemon = subprocess.Popen(command, cwd=folder, env=notify)
    try:
        try:
            ready.recv(64)
        except TimeoutError as error:
            raise WheelError(f"lanewayd was not ready after {READY_S} s") from error
        run([python, "three_steps.py", at["env"]["LANEWAY_ADDRESS"]], **at)
        run([str(programs / "laneway"), "status"], **at)
        run([str(programs / "laneway"), "shutdown"], **at)
        if daemon.wait(timeout=60) != 0:
            raise WheelError(f"lanewayd ended with exit code {daemon.returncode}, 0 was expected")
    finally:
        daemon.kill()
        daemon.wait()


def with_policies(folder: pathlib.Path, include: pathlib.Path, at: dict) -> None:
    """The examples of policies, in Python and in C++, through the installed laneway simulate."""
    for source in sorted((ROOT / "plugin/examples").iterdir()):
        file = folder / f"policy-{source.name}"
        if source.suffix == ".py":
            file.write_bytes(source.read_bytes())
        else:
            file = file.with_suffix("")
            run(["c++", "-std=c++20", "-I", str(include), str(source), "-o", str(file)], **at)
        file.chmod(0o755)  # others may not write it, whatever the umask is
        simulate = [str(folder / "venv/bin/laneway"), "simulate", "--generate", "20"]
        run([*simulate, "--policy", f"fifo,./{file.name}:age=off"], **at)


def borrow_packages(source: pathlib.Path, target: pathlib.Path) -> None:
    """Links the packages of `source`, pip among them, into `target`; not what the wheel brings."""
    for path in source.iterdir():
        brought = path.name.lstrip("_").startswith(tuple(BROUGHT))
        if not brought and not (target / path.name).exists():
            (target / path.name).symlink_to(path)
