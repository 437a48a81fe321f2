"""machine: what was measured on: the device and its driver, clocks, link, partitions, the
processor and the versions. Nothing here names the host or its folders; figures of two reports
compare only where these are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from .. import report
from . import nvml
from .mps import CONTROL
from .section import Section

# What nvidia-smi is asked, in its words. Nothing is set.
QUERIES = (
    "name",
    "driver_version",
    "memory.total",
    "compute_mode",
    "persistence_mode",
    "ecc.mode.current",
    "mig.mode.current",
    "pstate",
    "power.limit",
    "clocks.max.sm",
    "clocks.max.mem",
    "pcie.link.gen.max",
    "pcie.link.width.max",
)
# What changes with load: asked at rest and under it.
BUSY_QUERIES = (
    "clocks.sm",
    "clocks.mem",
    "pcie.link.gen.current",
    "pcie.link.width.current",
    "temperature.gpu",
    "power.draw",
)
CALIBRATIONS = 5
ANSWER_S = 5.0
PRODUCTS = 100  # of 8192 by 8192: about two seconds of a large GPU


def run(section: Section) -> None:
    for _ in range(CALIBRATIONS):
        section.calibration.sample()
    for name, value in report.machine().items():
        _say(section, name, value)
    _say(section, "cuda_of_torch", torch.version.cuda)
    _say(section, "mps", _mps_state())
    if not section.settings.cuda:
        section.leave_out("the device: torch sees none")
        return
    _say(section, "cudnn", torch.backends.cudnn.version())
    properties = torch.cuda.get_device_properties(section.settings.device)
    for name in ("name", "major", "minor", "multi_processor_count", "total_memory"):
        _say(section, f"device_{name}", getattr(properties, name, None))
    free, total = torch.cuda.mem_get_info(section.settings.device)
    _say(section, "free_memory", f"{free} of {total}")
    device = section.settings.device
    for name, value in _ask(QUERIES, device).items():
        _say(section, name, value)
    for name, value in _ask(BUSY_QUERIES, device).items():
        _say(section, f"{name}_at_rest", value)
    with _Load(device):
        busy = _ask(BUSY_QUERIES, device)
    for name, value in busy.items():
        _say(section, f"{name}_under_load", value)


def _say(section: Section, name: str, value: Any) -> None:
    """A row of words."""
    section.add("machine", name.replace(".", "_"), None, "", note=str(value) or "not said")


def _ask(queries: tuple[str, ...], device: str) -> dict[str, str]:
    """nvidia-smi's answers about this device, or of the library that it asks; a word where there is
    none."""
    if shutil.which("nvidia-smi") is None:
        return _ask_library(queries, device, "not on this machine")
    try:
        together = _query(queries, device)
        if together is not None:
            return dict(zip(queries, together))
        if _query(("name",), device) is None:
            return _ask_library(queries, device, "it does not answer")
        # It knows one of the names not.
        alone = {query: _query((query,), device) for query in queries}
    except (OSError, subprocess.TimeoutExpired) as error:
        return _ask_library(queries, device, str(error))
    return {query: "not known" if said is None else said[0] for query, said in alone.items()}


def _ask_library(queries: tuple[str, ...], device: str, why: str) -> dict[str, str]:
    """`why` nvidia-smi was not asked."""
    try:
        return nvml.ask(queries, _uuid(device), torch.device(device).index or 0)
    except nvml.NoNvml as error:
        return {"nvidia-smi": f"{why}; {nvml.LIBRARY}: {error}"}


def _uuid(device: str) -> str | None:
    """The device's own name: numbers of torch and of the driver's tools need not agree."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return f"GPU-{uuid}" if uuid else None


def _query(queries: tuple[str, ...], device: str) -> list[str] | None:
    which = _uuid(device) or str(torch.device(device).index or 0)
    command = ["nvidia-smi", f"--id={which}", f"--query-gpu={','.join(queries)}"]
    done = subprocess.run(
        [*command, "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        check=False,
    )
    said = [text.strip() for text in done.stdout.strip().split(",")]
    return said if done.returncode == 0 and len(said) == len(queries) else None


class _Load:
    """Some seconds of matrix products, queued before the block and waited for after it."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __enter__(self) -> None:
        a = torch.randn(8192, 8192, device=self._device)
        for _ in range(PRODUCTS):
            torch.mm(a, a)

    def __exit__(self, *_: object) -> None:
        torch.cuda.synchronize(self._device)


def _mps_state() -> str:
    """Whether an MPS daemon runs here, by the names of processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if CONTROL.startswith((folder / "comm").read_text().strip()):
                return "its daemon runs"
        except OSError:  # gone
            continue
    return "not running" if shutil.which(CONTROL) else "not installed"
