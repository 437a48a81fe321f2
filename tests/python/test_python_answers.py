"""Shows that a step which asks Python's own library (levels of loggers, abstract classes, caches of
functools, memory files, numpy's kinds of arrays) or code that may be replaced gets the answer of
the next call, and that what is set meanwhile and not asked for takes no capture."""

from __future__ import annotations

import abc
import argparse
import collections
import functools
import io
import logging
import os
import pathlib
import sys
import tempfile
import types
from typing import Any

import numpy
import pytest
from torch.nn import functional as F

from laneway.capture.byte_code import shown_in
from support.both import check_equal, trained


def a_loggers_level():
    log = logging.getLogger("laneway_test.level")
    return lambda: 1.0 + log.isEnabledFor(logging.DEBUG), lambda v: log.setLevel(30 - 10 * int(v))


def the_level_of_a_logger_above():
    log, above = (logging.getLogger(f"laneway_test.{name}") for name in ("above.it", "above"))
    return lambda: float(log.getEffectiveLevel()), lambda v: above.setLevel(int(10 * v))


def the_level_under_an_adapter():
    log = logging.getLogger("laneway_test.adapted")
    adapter = logging.LoggerAdapter(log, {})
    return lambda: float(adapter.getEffectiveLevel()), lambda v: log.setLevel(int(10 * v))


def all_loggers_off():
    log = logging.getLogger("laneway_test.off")
    log.setLevel(logging.DEBUG)
    return (
        lambda: 1.0 + log.isEnabledFor(logging.INFO),
        lambda v: logging.disable(logging.INFO if v == 1 else logging.NOTSET),
    )


def registered(with_class, asked=None):
    """A class that is an abstract one's from when it is registered on."""

    class Thing:
        __hash__ = None

    thing, asked = Thing(), asked or with_class
    return (
        lambda: 1.0 + isinstance(thing, asked) + issubclass(Thing, asked),
        lambda v: with_class.register(Thing) if v > 1 else None,
    )


def a_registration():
    return registered(abc.ABCMeta("Able", (), {"__module__": __name__}))


def a_registration_with_a_class_below():
    able = abc.ABCMeta("Able", (), {"__module__": __name__})
    return registered(abc.ABCMeta("Abler", (able,), {"__module__": __name__}), able)


def a_registration_with_a_librarys_class():
    return registered(collections.abc.Hashable)


def a_cached_function():
    held = {"factor": 1.0}

    @functools.lru_cache
    def read():
        return held["factor"]

    def put(value):
        held["factor"] = value
        read.cache_clear()

    return read, put


def a_cache_that_is_cleared_at_times():
    """In between it answers what it has, which is not what the function would."""
    held, calls = {"factor": 1.0}, []

    @functools.cache
    def times(factor):
        return held["factor"] * factor

    times(2.0)

    def put(value):
        calls.append(value)
        held["factor"] = value
        if len(calls) in (4, 6):
            times.cache_clear()

    return lambda: times(2.0), put


def a_cache_of_what_no_capture_sees():
    folder = pathlib.Path(tempfile.mkdtemp())

    @functools.cache
    def read():
        return 1.0 + len(os.listdir(folder))

    def put(value):
        read.cache_clear()
        file = folder / "file"
        file.touch() if value > 1 else file.unlink(missing_ok=True)

    return read, put


def the_text_of_a_namespace():
    held = types.SimpleNamespace(factor=1.0)
    return lambda: float(f"{held}"[-4:-1]), lambda v: setattr(held, "factor", v)


def by_repr(kind):
    held = kind(factor=1.0)
    return lambda: float(repr(held)[-4:-1]), lambda v: setattr(held, "factor", v)


def equal_to_another(kind):
    held, other = kind(factor=1.0), kind(factor=2.0)
    return lambda: 1.0 + (held == other), lambda v: setattr(held, "factor", v)


def arguments_of_the_program():
    def put(value):
        sys.argv[1:] = ["argument"] * int(value)

    return lambda: float(len(sys.argv)), put


def the_code_of_a_function():
    """As a notebook's autoreload replaces it."""

    def read():
        return 1.0

    def later():
        return 2.0

    codes = {1.0: read.__code__, 2.0: later.__code__}
    return read, lambda v: setattr(read, "__code__", codes[v])


def the_call_of_a_class():
    class Of:
        def __call__(self):
            return 1.0

    return Of(), lambda v: setattr(Of, "__call__", lambda self: v)


def the_classes_above():
    class First:
        factor = 1.0

    class Second:
        factor = 2.0

    class Other:
        pass

    class Of(First, Other):
        pass

    of = Of()
    return lambda: of.factor, lambda v: setattr(
        Of, "__bases__", (First if v == 1 else Second, Other)
    )


def the_default_of_a_dictionary():
    held: Any = collections.defaultdict(lambda: 1.0)

    def put(value):
        held.clear()
        held.default_factory = lambda: value

    return lambda: held["factor"], put


def a_text_file_in_memory():
    held = io.StringIO("1.0")
    return lambda: float(held.getvalue()), lambda v: (held.seek(0), held.write(str(v)))


def a_file_in_memory():
    held = io.BytesIO(b"1.0")
    return lambda: float(held.getvalue()), lambda v: (held.seek(0), held.write(str(v).encode()))


def a_masked_array():
    held = numpy.ma.masked_array([1.0, 1.0], mask=[False, True])
    return lambda: float(held.sum()), lambda v: setattr(held, "mask", [False, v == 1])


def the_data_of_a_masked_array():
    held = numpy.ma.masked_array([1.0, 1.0], mask=[False, True])
    return lambda: float(held.data[1]), lambda v: held.data.__setitem__(1, v)


def an_array_of_records():
    held = numpy.rec.array([(1.0,)], dtype=[("factor", "f8")])
    return lambda: float(held.factor[0]), lambda v: held.factor.__setitem__(0, v)


def an_array_of_the_users():
    class Array(numpy.ndarray):
        factor = 1.0

    held = numpy.ones(3).view(Array)

    def put(value):
        held[0] = held.factor = value

    return lambda: float(held[0]) * held.factor, put


KINDS = {
    make.__name__: make
    for make in (
        *(a_loggers_level, the_level_of_a_logger_above, the_level_under_an_adapter),
        *(all_loggers_off, a_registration, a_registration_with_a_class_below),
        *(a_registration_with_a_librarys_class, a_cached_function),
        *(a_cache_that_is_cleared_at_times, a_cache_of_what_no_capture_sees),
        *(the_text_of_a_namespace, arguments_of_the_program, the_code_of_a_function),
        *(the_call_of_a_class, the_classes_above, the_default_of_a_dictionary),
        *(a_text_file_in_memory, a_file_in_memory, a_masked_array),
        *(the_data_of_a_masked_array, an_array_of_records, an_array_of_the_users),
    )
}
for _kind in (argparse.Namespace, types.SimpleNamespace):
    for _make in (by_repr, equal_to_another):
        KINDS[f"{_make.__name__}, {_kind.__name__}"] = functools.partial(_make, _kind)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """What the kinds set for the whole process."""
    monkeypatch.setattr(sys, "argv", ["program"])
    yield
    logging.disable(logging.NOTSET)


def asking(make, values=(1.0, 1.0, 2.0, 2.0, 1.0, 2.0)):
    def job(lane):
        read, put = make()
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
            count=len(values),
        )

    return job


@pytest.mark.parametrize("name", KINDS)
def test_another_answer_is_used_by_the_next_call(name, service):
    check_equal(asking(KINDS[name]), service)


def a_logger_that_is_used():
    log = logging.getLogger("laneway_test.used")
    return lambda: float(log.isEnabledFor(logging.ERROR)), lambda v: log.error("%s", v)


def a_cache_that_others_fill():
    @functools.cache
    def doubled(value):
        return 2.0 * value

    return lambda: doubled(1.0), lambda v: [doubled(v + number) for number in range(3)]


def a_namespace_that_is_asked_for_one():
    held = types.SimpleNamespace(factor=1.0, count=0.0)

    def put(value):
        held.count += value

    return lambda: held.factor if held.factor == 1.0 else 2.0, put


@pytest.mark.parametrize(
    "make", [a_logger_that_is_used, a_cache_that_others_fill, a_namespace_that_is_asked_for_one]
)
def test_what_is_not_asked_for_takes_no_capture(make, service):
    assert check_equal(asking(make, tuple(map(float, range(1, 7)))), service).graphs() == 1


def test_what_code_compares_or_shows():
    def function(a, b, c, d):
        a == b  # noqa: B015
        c.step == 3  # noqa: B015
        c.of != d.other  # noqa: B015
        f"{c.text} {1}"
        getattr(d, f"name_{1}")
        return str(c.shown), d.used(1)

    names = {"a", "b", "step", "of", "other", "text", "shown"}
    assert shown_in(function.__code__) == names
