"""Names that code puts together (getattr, vars, globals, eval, sys.modules) and what is asked for
and is not there: the present values are used, as with names that the code holds."""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pickle
import sys
import types

import pytest
import torch
from torch.nn import functional as F

from laneway.capture import lookups
from support.both import check_equal, check_refused, trained

RATE_1 = 1.0
settings = types.SimpleNamespace()
plain = getattr  # by another name


def scaled(lane, read, put):
    """A training whose loss has the factor that read() gives; put(n) sets it before each call."""
    return trained(
        lane, lambda model, x, y: F.cross_entropy(model(x), y) * read(), between=put, count=6
    )


def of_namespace(read):
    of = types.SimpleNamespace(rate_1=1.0, rate_2=1.0, step=0)

    def put(number):
        of.rate_1, of.rate_2 = 1.0 + number // 2, 1.0 - number / 8

    return lambda: read(of), put


def of_module(read):
    of = types.ModuleType("made")
    of.__file__, of.rate_1, of.rate_2 = __file__, 1.0, 1.0

    def put(number):
        of.rate_1 = 1.0 + number // 2

    return lambda: read(of), put


def of_class(read):
    class Of:
        rate_1, rate_2 = 1.0, 1.0

    def put(number):
        Of.rate_1 = 1.0 + number // 2

    return lambda: read(Of), put


def by_format(of):
    return getattr(of, f"rate_{1}") * getattr(of, "_".join(["rate", "2"]))


def by_local_name(of):
    name = "RATE_1".lower()
    return getattr(of, name, 7.0)


def by_eval(of):
    return eval(f"of.rate_{1}", {"of": of})


def by_exec(of):
    scope = {"of": of}
    exec("found = of.rate_" + str(1), scope)
    return scope["found"]


def by_alias(of):
    return plain(of, f"rate_{1}")


def by_map(of):
    return sum(map(getattr, [of, of], [f"rate_{n}" for n in (1, 2)]))


def by_getter(of):
    return operator.attrgetter(f"rate_{1}")(of)


def by_items(of):
    return sum(value for name, value in vars(of).items() if name.startswith("rate"))


def by_dictionary(of):
    return of.__dict__["rate" + "_1"]


def by_listing(of):
    return sum(getattr(of, name) for name in dir(of) if name.startswith("rate"))


READS = [by_format, by_local_name, by_eval, by_alias, by_map, by_getter, by_items, by_dictionary]
READS += [by_exec, by_listing]


@pytest.mark.parametrize("of", [of_namespace, of_module, of_class])
@pytest.mark.parametrize("read", READS)
def test_names_that_are_put_together(read, of, service):
    check_equal(lambda lane: scaled(lane, *of(read)), service)


def test_other_attributes_of_the_namespace_take_no_capture(service):
    def job(lane):
        of = types.SimpleNamespace(rate_1=1.0, step=0)

        def put(number):
            of.step += 1

        return scaled(lane, lambda: getattr(of, f"rate_{1}"), put)

    assert check_equal(job, service).graphs() == 1


def asked_of(of, later):
    def put(number):
        if number == 3:
            setattr(of, "factor", 2.0) if later else None

    return lambda: getattr(of, "factor", 1.0) * (0.5 if hasattr(of, "factor") else 1.0), put


@pytest.mark.parametrize("kind", ["namespace", "module", "class", "object", "above"])
def test_what_is_not_there_yet(kind, service):
    def job(lane):
        class Above:
            pass

        class Of(Above):
            pass

        of = {
            "namespace": types.SimpleNamespace(),
            "module": types.ModuleType("made"),
            "class": Of,
            "object": Of(),
            "above": Above,
        }[kind]
        if kind == "module":
            of.__file__ = __file__
        asked = Of if kind == "above" else of
        read, _ = asked_of(asked, True)
        _, put = asked_of(of, True)
        return scaled(lane, read, put)

    assert check_equal(job, service).graphs() == 2


def test_a_new_entry_of_a_namespace_that_is_listed(service):
    def job(lane):
        of = types.SimpleNamespace(rate_1=1.0)

        def put(number):
            if number == 3:
                of.rate_2 = 2.0

        return scaled(lane, lambda: sum(v for v in vars(of).values()), put)

    assert check_equal(job, service).graphs() == 2


def test_variables_by_globals(service):
    def job(lane):
        def put(number):
            globals()["RATE_1"] = 1.0 + number // 2
            globals()["OTHER"] = number

        return scaled(lane, lambda: globals()[f"RATE_{1}"] * globals().get("NO" + "NE", 1.0), put)

    assert check_equal(job, service).graphs() == 3


def test_all_variables_by_globals_are_refused(service):
    def job(lane):
        return scaled(
            lane, lambda: sum(v for n, v in globals().items() if n == "RATE_1"), lambda number: None
        )

    check_refused(job, service, "takes all variables of a Python module at once")


def test_a_variable_that_the_step_sets_by_globals(service):
    def job(lane):
        seen = []
        globals()["ROWS"] = None

        def read():
            globals()["ROWS"] = 3
            return 1.0

        def put(number):
            seen.append(globals().get("ROWS"))
            globals()["ROWS"] = None

        return scaled(lane, read, put), seen

    check_equal(job, service)


def test_modules_that_are_found_by_name(service):
    def job(lane):
        settings.rate = 1.0

        def put(number):
            settings.rate = 1.0 + number // 2

        def read():
            name = __name__
            module = sys.modules[name]
            return module.settings.rate * importlib.import_module(name).settings.rate

        return scaled(lane, read, put)

    assert check_equal(job, service).graphs() == 3


def test_an_attribute_that_the_step_sets_of_a_module(service):
    def job(lane):
        module, seen = types.ModuleType("made"), []
        module.__file__ = __file__

        def read():
            module.rows = 3
            return 1.0

        def put(number):
            seen.append(getattr(module, "rows", None))
            module.rows = None

        return scaled(lane, read, put), seen

    check_equal(job, service)


class Looking:
    """Has a way of its own to look attributes up."""

    def __init__(self) -> None:
        self._held = {"factor": 1.0}
        self._scale = 1.0

    def __getattribute__(self, name):
        if name == "factor":
            held = object.__getattribute__(self, "_held")
            return held["factor"] * object.__getattribute__(self, "_scale")
        return object.__getattribute__(self, name)


def test_an_object_that_looks_attributes_up_by_itself(service):
    def job(lane):
        of = Looking()

        def put(number):
            of._held["factor"] = 1.0 + number // 2
            of._scale = 2.0 if number > 4 else 1.0

        return scaled(lane, lambda: of.factor, put)

    assert check_equal(job, service).graphs() == 4


@dataclasses.dataclass
class Options:
    rate: float = 1.0
    scale: float = 1.0


def test_a_dataclass_that_is_taken_apart(service):
    def job(lane):
        of = Options()

        def put(number):
            of.rate, of.scale = 1.0 + number // 2, 1.0

        def read():
            return dataclasses.asdict(of)["rate"] * dataclasses.replace(of, scale=2.0).rate

        return scaled(lane, read, put)

    assert check_equal(job, service).graphs() == 3


def test_the_functions_of_python_are_as_they_were(service):
    before = getattr, hasattr, vars, dir, globals, eval, exec
    check_equal(lambda lane: scaled(lane, *of_namespace(by_format)), service)
    assert (getattr, hasattr, vars, dir, globals, eval, exec) == before
    assert isinstance(getattr, types.BuiltinFunctionType)
    assert "__getattr__" not in vars(torch._subclasses.FakeTensor)


class Deaf:
    """A listener that makes nothing of what it is told."""

    def __getattr__(self, name):
        return lambda *told: None


def test_what_others_make_meanwhile_is_as_ever():
    """Text that is evaluated follows its caller's imports of __future__, and what is pickled has
    Python's own functions."""
    with lookups.told_of_lookups(Deaf()):
        made = dataclasses.make_dataclass("Made", [("rate", float)])
        kept = pickle.dumps(Options().__eq__)
        total = eval("  1 + 1")
    assert made.__init__.__annotations__["rate"] is float
    assert b"laneway" not in kept and b"builtins" in kept
    assert total == 2
