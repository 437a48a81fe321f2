"""ThreadKey: Laneway's kernels for some of torch's operators, on one thread while it captures.

The thread has one more dispatch key than others, one that this build of torch does not use. The
dispatcher handles it before autograd, and before a composite operator is decomposed, for every
caller. The key has no effect on other operators and on other threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

# A kernel: it gets the overload, then the call's arguments; its own calls do not reach it again.
Form = Callable[..., Any]


class ThreadKey:
    """`name` is the key's name; `forms()` gives the kernels by operator ("lstm.input": the overload
    behind the dot, if it has a name). Thread-safe. One object per key in a process."""

    def __init__(self, name: str, forms: Callable[[], dict[str, Form]]) -> None:
        self._name = name
        self._key = getattr(torch._C.DispatchKey, name)
        self._forms = forms
        self._registering = threading.Lock()
        self._libraries: list[torch.library.Library] = []  # they own the kernels

    @contextlib.contextmanager
    def included(self) -> Iterator[None]:
        """Inside, the kernels answer calls of this thread."""
        self._register()
        with self._set(True):
            yield

    @contextlib.contextmanager
    def _set(self, included: bool) -> Iterator[None]:
        dispatch, key = torch._C, self._key
        was_included = dispatch._dispatch_tls_is_dispatch_key_included(key)
        was_excluded = dispatch._dispatch_tls_is_dispatch_key_excluded(key)
        dispatch._dispatch_tls_set_dispatch_key_included(key, included)
        dispatch._dispatch_tls_set_dispatch_key_excluded(key, not included)
        try:
            yield
        finally:
            dispatch._dispatch_tls_set_dispatch_key_included(key, was_included)
            dispatch._dispatch_tls_set_dispatch_key_excluded(key, was_excluded)

    def _register(self) -> None:
        """Registers the kernels, once per process, when the first capture that needs the key
        begins."""
        with self._registering:
            if self._libraries:
                return
            every, ours = (torch.library.Library(of, "IMPL") for of in ("_", "aten"))
            every.fallback(torch.library.fallthrough_kernel, self._name)
            for name, form in self._forms().items():
                ours.impl(name, self._kernel(_overload(name), form), self._name)
            self._pass_by_higher_order_operators()
            self._libraries.extend((every, ours))

    def _pass_by_higher_order_operators(self) -> None:
        """Lets higher-order operators pass: torch.cond and similar ones have a dispatcher of their
        own, written in Python, that does not use the fallback."""
        torch._ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(self._key)
        for operator in torch._ops._higher_order_ops.values():
            operator.fallthrough(self._key)

    def _kernel(self, overload: torch._ops.OpOverload, form: Form) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            with self._set(False):
                return form(overload, *args, **kwargs)

        return kernel


def _overload(name: str) -> torch._ops.OpOverload:
    family, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, family), overload or "default")
