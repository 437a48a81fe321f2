"""Which operators' fake results are laid out otherwise than the real ones?

    python -m bench.corpus.fakes [--only TEXT] [--samples N] [--layouts …]

Runs op_db, forward and backward, and every call of an operator that it comes down to also on fakes
of the same sizes and strides. What counts are the sizes, dtype, strides, storage offset and
aliasing of results. `insignificant` are differences in the strides of dimensions of size <= 1 or of
empty tensors only. One line for each overload that lies, or that does not run on fakes.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import sys
import time
import warnings
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from laneway.capture.fake_job import new_fake_mode
from laneway.graph.target import Target
from laneway.operators import layouts, operators

from . import databases
from .layouts import LAYOUTS, laid_out

SAME, INSIGNIFICANT, LIES, RAISES, UNKNOWN = "same", "insignificant", "lies", "raises", "unknown"
MEASURED = "measured"  # the fakes lie, and capture measures the real layouts
_UNKNOWN_SHAPE = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
)


@dataclasses.dataclass
class Found:
    """What came of the calls of one overload, by verdict and by whether all operands were
    row-major; and an example of each."""

    counts: collections.Counter[tuple[str, bool]] = dataclasses.field(
        default_factory=collections.Counter
    )
    examples: dict[tuple[str, bool], str] = dataclasses.field(default_factory=dict)


class Scan(TorchDispatchMode):
    """Judges every call of an operator inside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Found] = collections.defaultdict(Found)
        self.case = ""  # what examples are named after
        self._seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
            return func(*args, **kwargs)
        operands = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided or type(t) not in _PLAIN for t in operands):
            return func(*args, **kwargs)
        key = f"{func}{pytree.tree_map(_described, (args, kwargs))}"
        if key in self._seen:
            return func(*args, **kwargs)
        self._seen.add(key)
        row_major = all(_row_major(t) for t in operands)
        mode = new_fake_mode()
        fake_args, fake_kwargs, fakes = fakes_of(mode, args, kwargs)
        result = func(*args, **kwargs)
        verdict, words = UNKNOWN, ""
        try:
            with mode:
                fake = func(*fake_args, **fake_kwargs)
        except _UNKNOWN_SHAPE:
            pass
        except Exception as error:
            verdict, words = RAISES, f"{type(error).__name__}: {str(error)[:100]}"
        else:
            verdict, words = compared(described(result, operands), described(fake, fakes))
        if verdict in (LIES, RAISES) and layouts.is_measured(func, fake_args, Target.cpu):
            verdict, words = self._measured(func, fake_args, fake_kwargs, result, operands, fakes)
        found = self.found[operators.name_of(func)]
        found.counts[verdict, row_major] += 1
        shapes = [f"{tuple(t.shape)}/{t.stride()}" for t in operands[:3]]
        text = f"{self.case}: operands {' '.join(shapes)}: {words}"
        found.examples.setdefault((verdict, row_major), text.replace("\n", " "))
        return result

    def _measured(
        self,
        func: torch._ops.OpOverload,
        args: tuple,
        kwargs: dict[str, Any],
        result: Any,
        operands: list[torch.Tensor],
        fakes: list[torch.Tensor],
    ) -> tuple[str, str]:
        """The verdict on what a capture takes instead of the fakes."""
        mode = next(fake.fake_mode for fake in fakes)
        with _disable_current_modes():
            found = layouts.measured(mode, func, args, kwargs)
        if found is NotImplemented:
            return LIES, "it takes no stand-ins"
        verdict, words = compared(described(result, operands), described(found, fakes))
        return (verdict, words) if verdict == LIES else (MEASURED, words)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        about = (value.dtype, tuple(value.shape), value.stride(), value.storage_offset())
        return (*about, value.is_conj(), value.is_neg())
    return value


def _row_major(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous()


def fakes_of(mode: FakeTensorMode, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments with fakes for tensors, which share memory as these do, and the fakes."""
    storages: dict[int, torch.Tensor] = {}
    fakes: list[torch.Tensor] = []
    made: dict[int, torch.Tensor] = {}

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            storage = value.untyped_storage()
            with _disable_current_modes(), mode:
                if storage._cdata not in storages:
                    storages[storage._cdata] = torch.empty(storage.nbytes(), dtype=torch.uint8)
                whole = storages[storage._cdata]
                fake = torch.empty(0, dtype=value.dtype)
                fake.set_(
                    whole.untyped_storage(), value.storage_offset(), value.shape, value.stride()
                )
                torch._C._set_conj(fake, value.is_conj())
                torch._C._set_neg(fake, value.is_neg())
            made[id(value)] = fake
        fakes.append(made[id(value)])
        return made[id(value)]

    fake_args, fake_kwargs = pytree.tree_map(one, (args, kwargs))
    return fake_args, fake_kwargs, fakes


def described(result: Any, operands: list[torch.Tensor]) -> list[Any]:
    """What is compared, of every result and of the operands afterwards."""
    places: dict[int, str] = {}
    for index, tensor in enumerate(operands):
        places.setdefault(tensor.untyped_storage()._cdata, f"operand {index}")
    parts = []
    leaves = pytree.tree_leaves(result)
    for index, value in enumerate([*leaves, *operands]):
        if not isinstance(value, torch.Tensor):
            parts.append(type(value).__name__)
            continue
        place = "nowhere"
        if value.numel():
            place = places.setdefault(value.untyped_storage()._cdata, f"result {index}")
        bits = (value.is_conj(), value.is_neg())
        parts.append(
            {
                "shape": tuple(value.shape),
                "dtype": value.dtype,
                "place": place,
                "bits": bits,
                "offset": value.storage_offset(),
                "stride": value.stride(),
            }
        )
    return parts


def compared(real: list[Any], fake: list[Any]) -> tuple[str, str]:
    """The verdict, and what differs."""
    if len(real) != len(fake):
        return LIES, f"{len(real)} results, not {len(fake)}"
    verdict, words = SAME, ""
    for index, (a, b) in enumerate(zip(real, fake)):
        if isinstance(a, str) or isinstance(b, str):
            if isinstance(a, dict) or isinstance(b, dict):
                return LIES, f"result {index} is {a}, not {b}"
            continue
        for name in ("shape", "dtype", "place", "bits", "offset"):
            if a[name] != b[name]:
                return LIES, f"{name} of result {index} is {a[name]}, fake {b[name]}"
        if a["stride"] != b["stride"]:
            words = f"stride of result {index} {a['shape']} is {a['stride']}, fake {b['stride']}"
            if 0 not in a["shape"] and any(
                x != y for n, x, y in zip(a["shape"], a["stride"], b["stride"]) if n > 1
            ):
                return LIES, words
            verdict = INSIGNIFICANT
    return verdict, words


def run(operator: Any, scan: Scan, samples: int | None, layouts: list[str]) -> None:
    """All of one operator of op_db under the scan."""
    gradients = operator.supports_autograd and torch.float32 in operator.dtypes
    for number, sample in enumerate(
        operator.sample_inputs("cpu", torch.float32, requires_grad=gradients)
    ):
        if samples is not None and number >= samples:
            break
        for layout in layouts:
            call = laid_out((sample.input, sample.args, sample.kwargs), layout)
            if call is not None:
                scan.case = f"{operator.full_name}#{number} {layout}"
                _run_call(operator, scan, call)


def _run_call(operator: Any, scan: Scan, call: tuple) -> None:
    given, args, kwargs = call
    leaves = [t for t in pytree.tree_leaves(call) if isinstance(t, torch.Tensor)]
    leaves = list({id(t): t for t in leaves if t.requires_grad}.values())
    with scan:
        try:
            result = operator(given, *args, **kwargs)
            outs = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
            outs = [t for t in outs if t.requires_grad]
            if not outs or not leaves:
                return
            dense = [torch.ones_like(out) for out in outs]
            torch.autograd.grad(outs, leaves, dense, retain_graph=True, allow_unused=True)
            for out in outs:
                total = out.sum()
                total = total.real if total.is_complex() else total
                torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            pass  # eager refuses it in this layout


def lines(found: dict[str, Found]) -> list[str]:
    """One line per overload that lies or that fakes cannot run, the gravest first."""
    text = []
    for name, each in found.items():
        bad = {k: n for k, n in each.counts.items() if k[0] in (LIES, RAISES, INSIGNIFICANT)}
        if not bad:
            continue
        lies = [each.counts[LIES, True], each.counts[LIES, False]]
        small = [each.counts[INSIGNIFICANT, True], each.counts[INSIGNIFICANT, False]]
        raises = [each.counts[RAISES, True], each.counts[RAISES, False]]
        calls = [sum(n for (_, r), n in each.counts.items() if r is side) for side in (True, False)]
        kind = "LIES" if sum(lies) else "RAISES" if sum(raises) else "insignificant-only"
        examples = [
            f"[{verdict}, {'row-major' if r else 'other'}] {each.examples[verdict, r]}"
            for verdict, r in bad
        ]
        text.append(
            f"{kind} {name}: of {calls[0]} row-major and {calls[1]} other calls, lies "
            f"{lies[0]} row-major {lies[1]} other; only in dims<=1/empty {small[0]} {small[1]}; "
            f"fake raises {raises[0]} {raises[1]} | " + " || ".join(examples)
        )
    return sorted(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    scan, begun = Scan(), time.monotonic()
    for operator in databases.operators():
        if torch.float32 not in operator.dtypes or "jiterator" in operator.name:
            continue
        if options.only and options.only not in operator.full_name:
            continue
        torch.manual_seed(0)
        try:
            run(operator, scan, options.samples, options.layouts)
        except Exception as error:
            print(f"{operator.full_name}: {type(error).__name__}: {error}", file=sys.stderr)
    print("\n".join(lines(scan.found)))
    seconds = time.monotonic() - begun
    calls = sum(each.counts.total() for each in scan.found.values())
    print(f"{len(scan.found)} overloads, {calls} different calls, {seconds:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
