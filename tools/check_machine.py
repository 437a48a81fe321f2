"""What gpu-check finds out of a machine before it runs anything: is there a GPU, which torch, which
packages; and the environment in which a pack runs there. Questions that may hang or crash are asked
in a process of their own. Standard library only."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

ANSWER_S = 60.0
OF_THE_DRIVER = ("Xid", "NVRM")
TORCH_S = 120.0  # its libraries have gigabytes, which a fresh machine reads for the first time

# Each prints one JSON object.
ASK_DRIVER = """
import ctypes, json
def answer(**found):
    print(json.dumps(found)); raise SystemExit
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    answer(failed="driver library", why=str(error))
def name_of(code):
    text = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or str(code).encode()).decode()
code = driver.cuInit(0)
if code:
    answer(failed="cuInit", why=name_of(code))
count, version = ctypes.c_int(), ctypes.c_int()
code = driver.cuDeviceGetCount(ctypes.byref(count))
if code:
    answer(failed="device count", why=name_of(code))
if count.value < 1:
    answer(failed="device count", why="the driver sees 0 devices")
driver.cuDriverGetVersion(ctypes.byref(version))
answer(devices=count.value, driver_cuda=f"{version.value // 1000}.{version.value % 1000 // 10}")
"""
ASK_TORCH = """
import importlib.util, json, sys
modules = json.loads(sys.argv[1])
missing = [m for m in modules if importlib.util.find_spec(m) is None]
try:
    import torch
except Exception as error:
    print(json.dumps({"missing": missing, "why": f"{type(error).__name__}: {error}"}))
    raise SystemExit
print(json.dumps({"missing": missing, "torch": torch.__version__, "cuda": torch.version.cuda,
                  "available": torch.cuda.is_available(), "folder": torch.__path__[0],
                  "python": ".".join(map(str, sys.version_info[:3]))}))
"""


class NotHere(Exception):
    """Something that the checks need is not on this machine: `check` names what was looked at."""

    def __init__(self, check: str, why: str) -> None:
        super().__init__(f"{check}: {why}")
        self.check = check


def ask(
    code: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    limit_s: float = ANSWER_S,
) -> dict[str, Any]:
    """The answer of one of the scripts above; {"failed", "why"} when there is none."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": "answer", "why": f"nothing was heard in {limit_s:.0f} s"}
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {"failed": "answer", "why": f"the process ended with {done.returncode}: {said}"}


def find_gpu() -> dict[str, Any]:
    """What the driver says; NotHere without driver or device."""
    found = ask(ASK_DRIVER)
    if "failed" in found:
        raise NotHere(f"there is no GPU here: {found['failed']}", found["why"])
    return found


def kernel_lines() -> tuple[list[str], str]:
    """What the kernel's log says of the driver (its Xid errors and messages), oldest first, and why
    it cannot be read, else ""."""
    try:
        done = subprocess.run(
            ["dmesg"], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"dmesg: {error}"
    if done.returncode != 0:
        return [], (done.stderr.strip().splitlines() or ["dmesg says nothing"])[-1]
    lines = done.stdout.splitlines()
    return [line for line in lines if any(word in line for word in OF_THE_DRIVER)], ""


def find_torch(modules: list[str]) -> dict[str, Any]:
    """torch's version and folder, and which of `modules` are missing; NotHere without torch."""
    found = ask(ASK_TORCH, json.dumps(modules), limit_s=TORCH_S)
    if "torch" not in found:
        raise NotHere("torch", found["why"])
    return found


def environment_of(pack: pathlib.Path, found: dict[str, Any], manifest: dict) -> dict[str, str]:
    """The environment of what runs from `pack` beside the torch that was found."""
    torch = pathlib.Path(found["folder"])
    libraries = [pack / "lib", torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    paths = [pack, pack / "python", pack / "tests/python"]
    packages = manifest.get("packages", {}).values()
    paths += [pack / "packages" / p["module"] for p in packages if p["module"] in found["missing"]]
    built = pack / "build"
    environment = os.environ | {
        "LANEWAY_BUILD": str(built),
        "LANEWAY_EMBEDDED_LIBRARY": str(built / "service/liblaneway_embedded.so"),
        "LANEWAY_CLIENT_LIBRARY": str(built / "service/liblaneway_client.so"),
        "PYTHONPATH": _joined([*paths, *_given("PYTHONPATH")]),
        "PYTHONUNBUFFERED": "1",
        "LD_LIBRARY_PATH": _joined([*libraries, *_given("LD_LIBRARY_PATH")]),
    }
    plugins = sorted(built.rglob("liblaneway_cuda.so"))
    if plugins:
        environment.setdefault("LANEWAY_CUDA_PLUGIN", str(plugins[0]))
    return _with_run_time(environment, pack)


def _with_run_time(environment: dict[str, str], pack: pathlib.Path) -> dict[str, str]:
    """Adds the packed C++ run time where the machine's own is older than our code needs. NotHere
    when our programs do not start with either."""
    program = [str(pack / "build/bin/lanewayd"), "--version"]
    said = ""
    for libraries in ([], [str(pack / "lib-fallback")]):
        path = _joined([environment["LD_LIBRARY_PATH"], *libraries])
        tried = environment | {"LD_LIBRARY_PATH": path}
        try:
            done = subprocess.run(
                program, capture_output=True, text=True, env=tried, timeout=ANSWER_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotHere("the pack's programs", f"{program[0]} does not start: {error}") from None
        if done.returncode == 0:
            return tried
        said = done.stderr.strip()
    raise NotHere("the pack's programs", f"lanewayd does not start here: {said}")


def _given(name: str) -> list[str]:
    return [text for text in os.environ.get(name, "").split(os.pathsep) if text]


def _joined(paths: list) -> str:
    return os.pathsep.join(map(str, paths))
