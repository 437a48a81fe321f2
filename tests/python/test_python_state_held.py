"""Shows that other values in containers of many kinds, in memory of C code, and in what threads
and processes share are used by the next call."""

from __future__ import annotations

import array
import collections
import configparser
import ctypes
import multiprocessing
import threading
import types
from typing import Any

import pytest
from torch.nn import functional as F

from support.both import check_equal, trained


def of_attribute(of: Any, name: str = "factor"):
    return lambda: getattr(of, name), lambda value: setattr(of, name, value)


def items_as_attributes():
    class Of(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    return of_attribute(Of(factor=1.0))


def itself_as_attributes():
    class Of(dict):
        def __init__(self, **entries) -> None:
            super().__init__(**entries)
            self.__dict__ = self

    return of_attribute(Of(factor=1.0))


def nested_items():
    class Of(dict):
        def __getattr__(self, name):
            return Of(self[name]) if isinstance(self[name], dict) else self[name]

    of = Of(inner={"factor": 1.0})
    return lambda: of.inner.factor, lambda value: of["inner"].update(factor=value)


def chained():
    first, second = {}, {"factor": 1.0}
    held = collections.ChainMap(first, second)
    return lambda: held["factor"], lambda value: first.update(factor=value)


def in_a_user_dict():
    held = collections.UserDict(factor=1.0)
    return lambda: held["factor"], lambda value: held.update(factor=value)


def in_a_proxy():
    held = {"factor": 1.0}
    shown = types.MappingProxyType(held)
    return lambda: shown["factor"], lambda value: held.update(factor=value)


def in_a_deque():
    held = collections.deque([1.0, 2.0])
    return lambda: held[0], lambda value: held.rotate(0 if held[0] == value else 1)


def in_a_configuration():
    held = configparser.ConfigParser()
    held["a"] = {"factor": "1.0"}
    return lambda: held.getfloat("a", "factor"), lambda value: held.set("a", "factor", str(value))


def in_an_array():
    held = array.array("d", [1.0, 1.0])
    return lambda: held[1], lambda value: held.__setitem__(1, value)


def in_a_view_of_memory():
    held = bytearray(2)
    shown = memoryview(held)
    return lambda: float(shown[1]), lambda value: held.__setitem__(1, int(value))


def in_a_number_of_c():
    held = ctypes.c_double(1.0)
    return lambda: held.value, lambda value: setattr(held, "value", value)


def in_a_structure_of_c():
    class Of(ctypes.Structure):
        _fields_ = [("factor", ctypes.c_double)]

    return of_attribute(Of(1.0))


def shared_between_processes():
    held = multiprocessing.Value("d", 1.0)
    return lambda: held.value, lambda value: setattr(held, "value", value)


def an_array_between_processes():
    held = multiprocessing.Array("d", [1.0])
    return lambda: held[0], lambda value: held.__setitem__(0, value)


def of_the_thread():
    held = threading.local()
    held.factor = 1.0
    return of_attribute(held)


def an_event():
    event = threading.Event()
    return (
        lambda: 2.0 if event.is_set() else 1.0,
        lambda value: event.set() if value > 1 else event.clear(),
    )


KINDS = [
    items_as_attributes,
    itself_as_attributes,
    nested_items,
    chained,
    in_a_user_dict,
    in_a_proxy,
    in_a_deque,
    in_a_configuration,
    in_an_array,
    in_a_view_of_memory,
    in_a_number_of_c,
    in_a_structure_of_c,
    shared_between_processes,
    an_array_between_processes,
    of_the_thread,
    an_event,
]


@pytest.mark.parametrize("kind", KINDS)
def test_another_value_is_used_by_the_next_call(kind, service):
    def job(lane):
        read, put = kind()
        values = (1.0, 1.0, 2.0, 2.0, 1.0, 2.0)
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
            count=6,
        )

    check_equal(job, service)
