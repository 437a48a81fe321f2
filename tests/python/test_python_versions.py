"""Shows that captures read the byte code of this Python, and are refused on one that they do not
know, before anything runs. The other Python is this one with an instruction taken away."""

from __future__ import annotations

import dis

import pytest
import torch
from torch import nn

import laneway
from laneway.capture import byte_code
from laneway.capture.byte_code import (
    COMPUTED,
    Read,
    arguments_of,
    found_unknown,
    reads_of,
)


@pytest.fixture
def asked_again(service):
    """The answer about this Python is kept: not that of a test. The service is open before."""
    found_unknown.cache_clear()
    yield
    found_unknown.cache_clear()


def refused(what: str, service: laneway.Service) -> None:
    predict = laneway.inference(nn.Linear(2, 2), service)
    with pytest.raises(laneway.CaptureError, match=f"do not know Python 3.*{what}.*3.11") as error:
        predict(torch.ones(1, 2))
    assert "run with one of Python" in str(error.value)


def test_this_python_is_known(asked_again):
    assert found_unknown() == ""


def test_an_instruction_that_names_something_unknown(asked_again, service, monkeypatch):
    monkeypatch.delitem(byte_code._KINDS, "LOAD_ATTR")
    refused("its byte code has LOAD_ATTR", service)


def test_an_instruction_of_a_newer_python(asked_again, service, monkeypatch):
    number = dis.opmap["NOP"]
    names = [*dis.opname[:number], "LOAD_BY_MAGIC", *dis.opname[number + 1 :]]
    monkeypatch.setattr(dis, "opname", names)
    monkeypatch.setattr(dis, "hasname", [*dis.hasname, number])
    refused("LOAD_BY_MAGIC", service)


def test_code_that_says_otherwise_what_it_reads(asked_again, service, monkeypatch):
    """As where one instruction takes the place of two."""
    monkeypatch.setitem(byte_code._KINDS, "LOAD_ATTR", "")
    refused("attribute:first:config", service)


@pytest.mark.embedded_only("about opening one")
def test_no_service_opens_in_the_process(asked_again, monkeypatch):
    monkeypatch.setitem(byte_code._KINDS, "LOAD_GLOBAL", "")
    with pytest.raises(laneway.CaptureError, match="do not know Python"):
        laneway.embedded("16MiB")


def test_the_module_and_the_dots_of_an_import():
    def function():
        from os import path

        from .. import taken

        return path, taken

    assert [read for read in reads_of(function.__code__) if read.kind != ""] == [
        Read("import", "os", 0),
        Read("attribute", "path"),
        Read("import", "", 2),
        Read("attribute", "taken"),
    ]


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ('getattr(x, "a")', [COMPUTED, "a"]),
        ('getattr(x.b["c"], "a", f(n, key=1) + 1)', [COMPUTED, "a", COMPUTED]),
        ('getattr("a", n, None)', ["a", COMPUTED, None]),
        ('getattr(x["a"], n, x)', [COMPUTED, COMPUTED, COMPUTED]),
        ('getattr(x, "a" + n)', [COMPUTED, COMPUTED]),
        ('getattr(x, f"a{n}")', [COMPUTED, COMPUTED]),
        ('getattr(x, "a".lower())', [COMPUTED, COMPUTED]),
        ('x.getattr("a", "b")', ["a", "b"]),
        ('getattr(x, "a" if n else "b")', None),
        ('getattr(*x, "a")', None),
        ('map(getattr, x, "a")', None),
        ('x + getattr or f("a")', None),
    ],
)
def test_the_constants_that_a_call_is_given(call, given):
    scope = {}
    exec(f"def function(f, x, n):\n    return {call}", scope)
    found = list(arguments_of(scope["function"].__code__, {"getattr"}))
    assert found == [("getattr", given)]
