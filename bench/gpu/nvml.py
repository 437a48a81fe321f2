"""What nvidia-smi says, from the library that it asks: for machines with a driver but without the
program. Only what reads."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator

LIBRARY = "libnvidia-ml.so.1"
TEXT_BYTES = 96
SM, MEMORY = 1, 2  # nvmlClockType_t
CHIP = 0  # nvmlTemperatureSensors_t
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
ON = ("Disabled", "Enabled")


class NoNvml(RuntimeError):
    """The library is not here or does not answer; the text says why."""


class _Device:
    """One device by its handle."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle

    def number(self, function: str, *before: int) -> int:
        """What nvmlDeviceGet<function>(device, *before, &number) answers."""
        answer = ctypes.c_uint()
        self._call(function, *map(ctypes.c_int, before), ctypes.byref(answer))
        return answer.value

    def first_of_two(self, function: str) -> int:
        """Of a function that answers what is and what will be, what is."""
        now, later = ctypes.c_uint(), ctypes.c_uint()
        self._call(function, ctypes.byref(now), ctypes.byref(later))
        return now.value

    def text(self, function: str) -> str:
        answer = ctypes.create_string_buffer(TEXT_BYTES)
        self._call(function, answer, ctypes.c_uint(TEXT_BYTES))
        return answer.value.decode()

    def driver(self) -> str:
        answer = ctypes.create_string_buffer(TEXT_BYTES)
        ask = self._library.nvmlSystemGetDriverVersion
        _check(ask(answer, ctypes.c_uint(TEXT_BYTES)), "nvmlSystemGetDriverVersion")
        return answer.value.decode()

    def _call(self, function: str, *arguments: object) -> None:
        name = f"nvmlDeviceGet{function}"
        _check(getattr(self._library, name)(self._handle, *arguments), name)


# By nvidia-smi's names of them, in its words.
ANSWERS: dict[str, Callable[[_Device], str]] = {
    "name": lambda device: device.text("Name"),
    "driver_version": lambda device: device.driver(),
    "compute_mode": lambda device: COMPUTE_MODES[device.number("ComputeMode")],
    "persistence_mode": lambda device: ON[device.number("PersistenceMode")],
    "ecc.mode.current": lambda device: ON[device.first_of_two("EccMode")],
    "mig.mode.current": lambda device: ON[device.first_of_two("MigMode")],
    "pstate": lambda device: f"P{device.number('PerformanceState')}",
    "power.limit": lambda device: f"{device.number('EnforcedPowerLimit') / 1e3:.2f} W",
    "power.draw": lambda device: f"{device.number('PowerUsage') / 1e3:.2f} W",
    "clocks.max.sm": lambda device: f"{device.number('MaxClockInfo', SM)} MHz",
    "clocks.max.mem": lambda device: f"{device.number('MaxClockInfo', MEMORY)} MHz",
    "clocks.sm": lambda device: f"{device.number('ClockInfo', SM)} MHz",
    "clocks.mem": lambda device: f"{device.number('ClockInfo', MEMORY)} MHz",
    "pcie.link.gen.max": lambda device: str(device.number("MaxPcieLinkGeneration")),
    "pcie.link.gen.current": lambda device: str(device.number("CurrPcieLinkGeneration")),
    "pcie.link.width.max": lambda device: str(device.number("MaxPcieLinkWidth")),
    "pcie.link.width.current": lambda device: str(device.number("CurrPcieLinkWidth")),
    "temperature.gpu": lambda device: str(device.number("Temperature", CHIP)),
}


def ask(queries: Iterable[str], uuid: str | None, index: int = 0) -> dict[str, str]:
    """The answers about the device of this uuid ("GPU-…"), else number `index`; "not known" where
    it has none. Raises NoNvml."""
    with _device(uuid, index) as device:
        return {query: _answer(device, query) for query in queries}


def _answer(device: _Device, query: str) -> str:
    try:
        return ANSWERS[query](device)
    except (NoNvml, KeyError, IndexError, AttributeError):  # it knows the function not, or we
        return "not known"


@contextlib.contextmanager
def _device(uuid: str | None, index: int) -> Iterator[_Device]:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise NoNvml(str(error)) from None
    _check(library.nvmlInit_v2(), "nvmlInit_v2")
    try:
        handle = ctypes.c_void_p()
        if uuid is not None:
            code = library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle))
        else:
            code = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
        _check(code, "the device's handle")
        yield _Device(library, handle)
    finally:
        library.nvmlShutdown()


def _check(code: int, what: str) -> None:
    if code != 0:
        raise NoNvml(f"{what} answered {code}")
