"""Helpers that people put between their loop and their step: functions with attributes, registries,
samplers, modules of flags, code that is executed. What they hold is read as it is now."""

from __future__ import annotations

import builtins
import functools
import sys
import types

import pytest
import torch
from torch.nn import functional as F

from support.both import check_equal, trained


def attribute_of_a_function():
    def scale():
        return scale.value

    return scale, lambda value: setattr(scale, "value", value)


def attribute_of_a_decorated_function():
    def scaling(function):
        @functools.wraps(function)
        def inner():
            return function() * inner.value

        return inner

    scale = scaling(lambda: 1.0)
    return scale, lambda value: setattr(scale, "value", value)


def registry_by_subscripts():
    class Registry:
        def __class_getitem__(cls, name):
            return cls.values[name]

    Registry.values = {}
    return lambda: Registry["scale"], lambda value: Registry.values.update(scale=value)


def static_special_method():
    class Scale:
        value = 1.0

        @staticmethod
        def __call__():
            return Scale.value

    scale = Scale()
    return lambda: scale(), lambda value: setattr(Scale, "value", value)


def dataset_of_a_loader():
    loader = torch.utils.data.DataLoader([0.0])

    def put(value):
        loader.dataset[0] = value

    return lambda: loader.dataset[0], put


def epoch_of_a_sampler():
    sampler = torch.utils.data.distributed.DistributedSampler([0] * 8, num_replicas=2, rank=0)
    return lambda: 1.0 + sampler.epoch, lambda value: sampler.set_epoch(int(value))


def module_made_by_code():
    flags = sys.modules["flags_made_by_code"] = types.ModuleType("flags_made_by_code")

    def read():
        import flags_made_by_code

        return flags_made_by_code.value

    return read, lambda value: setattr(flags, "value", value)


def code_that_is_executed():
    variables = {"value": 1.0}
    exec("def read():\n    return value", variables)
    return lambda: variables["read"](), lambda value: variables.update(value=value)


HELPERS = [
    attribute_of_a_function,
    attribute_of_a_decorated_function,
    registry_by_subscripts,
    static_special_method,
    dataset_of_a_loader,
    epoch_of_a_sampler,
    module_made_by_code,
    code_that_is_executed,
]


@pytest.mark.parametrize("make", HELPERS, ids=lambda make: make.__name__)
def test_what_a_helper_holds_is_read_as_it_is_now(make, service):
    def job(lane):
        read, put = make()
        values = [1.0, 1.0, 2.0, 1.0, 2.0]
        return trained(
            lane,
            lambda model, x, y: F.cross_entropy(model(x), y) * read(),
            between=lambda number: put(values[number]),
        )

    before = dict(vars(builtins))
    assert check_equal(job, service).graphs() == len((1.0, 2.0))
    assert vars(builtins) == before
    sys.modules.pop("flags_made_by_code", None)
