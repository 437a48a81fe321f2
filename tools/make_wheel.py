"""Makes the wheel, and with --check tries it as its users will: installed into a fresh environment
that has torch and nothing of this checkout.

Used by ./dev wheel. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile

import pack_libraries

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
READY_S = 120  # loading torch from a cold disk is slow

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


def make(output: pathlib.Path) -> pathlib.Path:
    """Builds the wheel into `output`; its path. Raises WheelError."""
    output.mkdir(parents=True, exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in output.glob("laneway-*.whl")}
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    command = [str(VENV / "bin/python"), "-m", "pip", "wheel", "--disable-pip-version-check"]
    command += ["--no-deps", "--wheel-dir", str(output), str(ROOT)]
    run(command, env={"CC": "cc", "CXX": "c++"} | os.environ | {"CMAKE_BUILD_PARALLEL_LEVEL": jobs})
    made = [p for p in output.glob("laneway-*.whl") if before.get(p) != p.stat().st_mtime_ns]
    if len(made) != 1:
        raise WheelError(f"pip wheel left {len(made)} wheels in {output}, where one was expected")
    return made[0]


def check(wheel: pathlib.Path) -> None:
    """Installs `wheel` into a fresh environment and uses it: commands, embedded, lanewayd. Raises
    WheelError. torch and what it needs are the checkout's, linked into the environment."""
    with tempfile.TemporaryDirectory(prefix="laneway-wheel-") as name:
        folder = pathlib.Path(name)
        run([sys.executable, "-m", "venv", str(folder / "venv")])
        python = str(folder / "venv/bin/python")
        borrow_packages(folder / "venv")
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        run([*install, "--no-index", str(wheel)])
        check_libraries(folder / "venv")
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("LANEWAY_", "PYTHON"))}
        bare["LANEWAY_ADDRESS"] = f"ipc://{folder}/service/laneway.sock"
        at = {"cwd": folder, "env": bare}
        for program in ("laneway", "lanewayd", "laneway-trace", "laneway-simulate"):
            run([str(folder / "venv/bin" / program), "--version"], **at)
        (folder / "three_steps.py").write_text(CHECK)
        run([python, "three_steps.py"], **at)
        with_service(folder, python, at)


def check_libraries(venv: pathlib.Path) -> None:
    """Every library that our files need, directly or not, is found in `venv`, or is glibc's, the
    compiler's run time or the driver's. Raises WheelError with those that come from elsewhere."""
    (package,) = (venv / "lib").glob("python3*/site-packages/laneway")
    inside = (str(package.resolve()), str(VENV.resolve()))  # torch is a link into the checkout's
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


def borrow_packages(venv: pathlib.Path) -> None:
    """Links the checkout's installed packages into `venv`, but not Laneway itself, nor pip."""
    (source,) = (VENV / "lib").glob("python3*/site-packages")
    (target,) = (venv / "lib").glob("python3*/site-packages")
    for path in source.iterdir():
        if not path.name.startswith("laneway") and not (target / path.name).exists():
            (target / path.name).symlink_to(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev wheel",
        description="Build the wheel: programs, libraries, the package and laneway.h. It installs "
        "with `pip install WHEEL` into an environment of the same machine type that has, or gets, "
        "the torch that it was built against.",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="default: build/"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also install it into a fresh environment; train there, embedded and with lanewayd",
    )
    parser.add_argument("--wheel", type=pathlib.Path, help="check this one instead of building")
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    if arguments.check_usage:
        return 0
    try:
        wheel = (arguments.wheel or make(arguments.out)).resolve()
        if arguments.check or arguments.wheel:
            check(wheel)
    except WheelError as error:
        print(f"dev: {error}", file=sys.stderr)
        return 1
    print(f"{wheel}: {wheel.stat().st_size / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
