"""Calls of code that torch.compile gave to Laneway, compared with eager ones."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch

from laneway import compile_backend
from laneway.compile import compile_options
from laneway.errors import ServiceUnavailable
from laneway.jobs.service import default_service
from support.eager import assert_same


@pytest.fixture(autouse=True)
def own_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts without compiled code and with a service of its own; a daemon that runs on
    this machine is not asked."""

    def no_daemon(address: str | None = None) -> Any:
        raise ServiceUnavailable(f"no service at {address}")

    monkeypatch.delenv("LANEWAY_ADDRESS", raising=False)
    monkeypatch.setattr(compile_options, "connect", no_daemon)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    default_service().close()


def compiled(code: Any, **options: Any) -> Any:
    return torch.compile(code, backend="laneway", options=options or None)


def running() -> list[str]:
    """The names of the jobs that the service has."""
    ended = ("finished", "failed")
    return sorted(j["name"] for j in default_service().status()["jobs"] if j["state"] not in ended)


def eager_reasons() -> list[str]:
    """Why graphs run eagerly, of those that do."""
    return [entry["eager"] for entry in compile_backend.report() if entry["eager"] is not None]


def compare(code: Any, calls: Iterable[tuple], **options: Any) -> Any:
    """Each call of the compiled code gives what eager gives, layouts included, and so do the
    arguments and the state afterwards. Result: the compiled code."""
    twin = copy.deepcopy(code) if isinstance(code, torch.nn.Module) else code
    made = compiled(code, **options)
    for number, call in enumerate(calls):
        args, kwargs = call if len(call) == 2 and isinstance(call[1], dict) else (call, {})
        twins, twin_kwargs = copy.deepcopy((args, kwargs))
        expected, got = twin(*twins, **twin_kwargs), made(*args, **kwargs)
        assert_same(flat(expected), flat(got), f"call {number}")
        assert layouts(expected) == layouts(got)
        assert_same(flat((twins, twin_kwargs)), flat((args, kwargs)), f"arguments {number}")
    if isinstance(code, torch.nn.Module):
        assert_same(twin.state_dict(), code.state_dict(), "state")
    return made


def flat(value: Any) -> list[Any]:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    return leaves


def layouts(value: Any) -> list[tuple]:
    return [
        (tuple(t.shape), t.stride(), t.requires_grad)
        for t in flat(value)
        if isinstance(t, torch.Tensor)
    ]
