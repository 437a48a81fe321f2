"""torch's own databases for its tests: operators, modules, optimizers."""

from __future__ import annotations

import sys
import types
import unittest
from typing import Any


def _import_test_support() -> None:
    """torch's test support imports a package of assertions that nothing here calls."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in


def seed(number: int) -> None:
    """Seeds every generator that samples are drawn from."""
    _import_test_support()
    from torch.testing._internal.common_utils import set_rng_seed

    set_rng_seed(number)


def operators() -> list[Any]:
    """torch's OpInfos."""
    _import_test_support()
    from torch.testing._internal.common_methods_invocations import op_db

    _draw_as_users_do()
    return list(op_db)


def _draw_as_users_do() -> None:
    """Operators that draw random numbers set a seed of their own in every call, which is not what
    is judged here: each case is seeded once."""

    def plain(operator: Any, *args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = plain  # type: ignore[attr-defined]


def modules() -> list[Any]:
    """torch's ModuleInfos."""
    _import_test_support()
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def optimizers() -> list[Any]:
    """torch's OptimizerInfos."""
    _import_test_support()
    from torch.testing._internal.common_optimizers import optim_db

    return list(optim_db)
