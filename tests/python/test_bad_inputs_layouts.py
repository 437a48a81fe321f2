"""Which tensors inferences and compiled code can be given, by their memory: shared, overlapping,
offset, negative and conjugate views, none at all, of 64 dimensions and 65, on other devices,
requiring gradients; and the same code called with all of them in turn. Each is compared with eager
execution: values, for compiled code layouts too, and the inputs afterwards. The numbers are small
integers, whose sums and products are exact: how a matrix product rounds depends in eager execution
itself on where its operands lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import laneway
from support.compiled import compiled, eager_reasons, flat, own_service, running
from support.eager import assert_same

__all__ = ["own_service"]

BASE = torch.arange(64.0) - 20
IMAGE = (torch.arange(216.0) % 11 - 5).reshape(2, 3, 6, 6)


def of(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> torch.Tensor:
    return BASE.clone().as_strided(shape, strides, offset)


# Inputs of shape [4, 6], by how they lie in memory.
LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: of((4, 6), (6, 1)),
    "an offset": lambda: of((4, 6), (6, 1), 9),
    "transposed": lambda: of((4, 6), (1, 4)),
    "transposed, an offset": lambda: of((4, 6), (1, 4), 5),
    "every second column": lambda: of((4, 6), (12, 2), 1),
    "every second row": lambda: of((4, 6), (12, 1)),
    "expanded rows": lambda: of((4, 6), (0, 1), 3),
    "expanded columns": lambda: of((4, 6), (1, 0)),
    "one number": lambda: of((4, 6), (0, 0), 7),
    "overlapping windows": lambda: of((4, 6), (2, 1)),
    "overlapping within a row": lambda: of((4, 6), (6, 0), 2),
    "a negative view": lambda: torch._neg_view(of((4, 6), (6, 1), 4)),
    "a negative transposed view": lambda: torch._neg_view(of((4, 6), (1, 4), 4)),
    "an imaginary part": lambda: torch.view_as_complex(of((4, 6, 2), (12, 2, 1))).imag,
    "of a conjugate view": lambda: torch.view_as_complex(of((4, 6, 2), (12, 2, 1))).conj().imag,
    "requiring a gradient": lambda: of((4, 6), (6, 1)).requires_grad_(),
    "a parameter": lambda: nn.Parameter(of((4, 6), (6, 1))),
    "made in inference mode": lambda: made_in_inference_mode(),
}


def made_in_inference_mode() -> torch.Tensor:
    with torch.inference_mode():
        return of((4, 6), (1, 4))


def several(x: torch.Tensor) -> Any:
    """Elementwise, reduced, matrix products, copies and changed shapes."""
    return x * 2 + 1, x.sum(0), x @ x.t(), x.reshape(6, 4), x.clone(), x.relu().t().contiguous()


def viewed(x: torch.Tensor) -> Any:
    """Results that share memory with the input."""
    return x, x.t(), x[1:], x[:, ::2].unsqueeze(0), x.expand(2, 4, 6)


def written(x: torch.Tensor) -> Any:
    """Into memory of its own."""
    y = torch.zeros(4, 6)
    y[1:] += x[1:]
    y.t()[2] = x[0, 0]
    return y.mul_(2), y.cumsum(1)


CODES = [several, viewed, written]


class Calls(nn.Module):
    def __init__(self, code: Callable[..., Any]) -> None:
        super().__init__()
        self.code = code

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.code(*inputs)


@pytest.fixture(scope="module")
def service() -> Iterator[laneway.Service]:
    with laneway.embedded("64MiB") as opened:
        yield opened


def plain(value: Any) -> list[torch.Tensor]:
    return [t.detach().resolve_conj().resolve_neg() for t in flat(value)]


def layouts(value: Any) -> list[tuple]:
    """Strides of dimensions that have any: of none or one element, every stride is the same."""
    return [
        (
            tuple(t.shape),
            [s for n, s in zip(t.shape, t.stride()) if n > 1] if t.numel() else [],
            (t.requires_grad, t.is_conj(), t.is_neg()),
        )
        for t in flat(value)
    ]


def shares(results: Any, inputs: Any) -> list[list[bool]]:
    """Which results lie in the memory of which inputs."""
    return [
        [r.untyped_storage().data_ptr() == i.untyped_storage().data_ptr() for i in flat(inputs)]
        for r in flat(results)
    ]


def check_compiled(code: Callable[..., Any], made: Any, make: Callable[[], tuple]) -> None:
    """One call, against eager's."""
    twins, inputs = make(), make()
    expected, got = code(*twins), made(*inputs)
    assert_same(plain(expected), plain(got))
    assert layouts(expected) == layouts(got)
    assert shares(expected, twins) == shares(got, inputs)
    assert_same(plain(twins), plain(inputs))


def check_inference(code: Callable[..., Any], predict: Any, make: Callable[[], tuple]) -> None:
    twins, inputs = make(), make()
    with torch.no_grad():
        expected = code(*twins)
    assert_same(plain(expected), flat(predict(*inputs)))
    assert_same(plain(twins), plain(inputs))


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.__name__)
def test_one_layout_after_the_other_through_compiled_code(code: Callable) -> None:
    """Each twice, so that a second call goes by what the first left."""
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=64):
        made = compiled(code)
        for name, layout in [*LAYOUTS.items(), *LAYOUTS.items()]:
            try:
                check_compiled(code, made, lambda layout=layout: (layout(),))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    assert running()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.__name__)
def test_each_layout_first_through_compiled_code(code: Callable, layout: str) -> None:
    with torch.no_grad():
        made = compiled(code)
        for _ in range(2):
            check_compiled(code, made, lambda: (LAYOUTS[layout](),))


@pytest.mark.parametrize("dynamic", [True, False])
def test_layouts_and_sizes_in_turn_of_dynamic_shapes(dynamic: bool) -> None:
    made = torch.compile(several, backend="laneway", dynamic=dynamic)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=64):
        for rows in (6, 4, 8):
            for change in (torch.clone, lambda x: x.t().contiguous().t(), lambda x: x[:, ::2]):
                x = change(torch.arange(24.0 * rows).reshape(24, rows)[:24])
                code = torch.nn.functional.relu
                assert_same(flat(code(x)), flat(compiled(code)(x)))
        for strides in ((6, 1), (1, 4), (12, 2), (0, 1)):
            check_compiled(several, made, lambda strides=strides: (of((4, 6), strides),))


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.__name__)
def test_one_layout_after_the_other_through_an_inference(code: Callable, service) -> None:
    with laneway.inference(Calls(code), service, max_variants=32) as predict:
        for layout in [*LAYOUTS, *LAYOUTS]:
            check_inference(code, predict, lambda layout=layout: (LAYOUTS[layout](),))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_first_through_an_inference(layout: str, service) -> None:
    with laneway.inference(Calls(several), service) as predict:
        refused = layout in ("a negative view", "a negative transposed view", "of a conjugate view")
        if refused:
            with pytest.raises(laneway.CaptureError, match=r"resolve_conj\(\).resolve_neg\(\)"):
                predict(LAYOUTS[layout]())
            resolved = LAYOUTS[layout]().resolve_conj().resolve_neg()
            check_inference(several, predict, lambda: (resolved,))
        check_inference(several, predict, lambda: (LAYOUTS[layout](),))


# Several inputs in one memory.


def sums(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + y, x * 2, (y - 1).t(), x @ y.t()


SHARED: dict[str, Callable[[], tuple[torch.Tensor, torch.Tensor]]] = {
    "the same tensor": lambda: (x := of((4, 6), (6, 1)), x),
    "the same memory": lambda: (x := of((4, 6), (6, 1)), x.view(4, 6)),
    "one behind the other": lambda: parts(of((8, 6), (6, 1)), slice(0, 4), slice(4, 8)),
    "overlapping parts": lambda: parts(of((6, 6), (6, 1)), slice(0, 4), slice(2, 6)),
    "columns between": lambda: parts(of((4, 12), (12, 1)).t(), slice(0, 12, 2), slice(1, 12, 2)),
    "rows and all": lambda: (x := of((4, 6), (6, 1)), x[:1].expand(4, 6)),
}


def parts(x: torch.Tensor, one: slice, other: slice) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = x[one], x[other]
    return (a, b) if a.shape == (4, 6) else (a.t(), b.t())


@pytest.mark.parametrize("kind", SHARED)
def test_inputs_that_share_memory(kind: str, service) -> None:
    with torch.no_grad():
        made = compiled(sums)
        for _ in range(2):
            check_compiled(sums, made, SHARED[kind])
    assert running() and not eager_reasons()
    with laneway.inference(Calls(sums), service) as predict:
        for _ in range(2):
            check_inference(sums, predict, SHARED[kind])


def test_inputs_that_share_memory_in_turn() -> None:
    """Torch guards which inputs are one tensor; what the job is given is copied each time."""
    with torch.no_grad():
        made = compiled(sums)
        for kind in [*SHARED, *SHARED]:
            check_compiled(sums, made, SHARED[kind])


# Complex numbers.

COMPLEX: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.view_as_complex(of((4, 6, 2), (12, 2, 1))),
    "conjugate": lambda: torch.view_as_complex(of((4, 6, 2), (12, 2, 1))).conj(),
    "conjugate, transposed": lambda: torch.view_as_complex(of((6, 4, 2), (8, 2, 1))).t().conj(),
    "conjugate, an offset": lambda: torch.view_as_complex(of((5, 6, 2), (12, 2, 1)))[1:].conj(),
    "negative": lambda: torch._neg_view(torch.view_as_complex(of((4, 6, 2), (12, 2, 1)))),
    "conjugate and negative": lambda: torch._neg_view(
        torch.view_as_complex(of((4, 6, 2), (12, 2, 1)))
    ).conj(),
}


def of_complex(x: torch.Tensor) -> Any:
    return x * x, x.abs(), (x + 1).t(), torch.view_as_real(x.resolve_conj().resolve_neg() * 2)


@pytest.mark.parametrize("kind", COMPLEX)
def test_conjugate_and_negative_views_through_compiled_code(kind: str) -> None:
    with torch.no_grad():
        made = compiled(of_complex)
        for each in (kind, "plain", kind):
            check_compiled(of_complex, made, lambda each=each: (COMPLEX[each](),))


def test_conjugate_and_negative_views_in_turn_through_an_inference(service) -> None:
    with laneway.inference(Calls(of_complex), service) as predict:
        for kind in ("plain", "conjugate", "negative", "conjugate and negative", "plain"):
            check_inference(of_complex, predict, lambda kind=kind: (COMPLEX[kind](),))


# Sizes.


def of_none(x: torch.Tensor) -> Any:
    return x * 2, x.sum(), x.t().contiguous(), torch.cat([x, x]), x.reshape(-1)


@pytest.mark.parametrize("shape", [(0, 6), (4, 0), (0, 0)])
@pytest.mark.parametrize("strides", [None, (0, 0), (1, 9), (30, 5)])
def test_inputs_without_elements(shape: tuple, strides: Any, service) -> None:
    def make() -> tuple:
        return (torch.empty(shape) if strides is None else of(shape, strides, 3),)

    with torch.no_grad():
        made = compiled(of_none)
        for _ in range(2):
            check_compiled(of_none, made, make)
    with laneway.inference(Calls(of_none), service) as predict:
        for _ in range(2):
            check_inference(of_none, predict, make)


def deep(dimensions: int) -> torch.Tensor:
    """Of size 2 in six of them."""
    shape = [2 if n % 11 == 5 else 1 for n in range(dimensions)]
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def of_deep(x: torch.Tensor) -> Any:
    return x * 2 + 1, x.sum(5), x.transpose(5, 16).contiguous(), x.relu()


@pytest.mark.parametrize("dimensions", [25, 63, 64])
def test_as_many_dimensions_as_torch_has(dimensions: int, service) -> None:
    for make in (
        lambda: (deep(dimensions),),
        lambda: (deep(dimensions).transpose(5, 16),),
    ):
        torch._dynamo.reset()
        with torch.no_grad():
            made = compiled(of_deep)
            for _ in range(2):
                check_compiled(of_deep, made, make)
        with laneway.inference(Calls(of_deep), service) as predict:
            for _ in range(2):
                check_inference(of_deep, predict, make)


def outcome(call: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return call(x)
    except Exception as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "code",
    [
        lambda x: x * 2,
        lambda x: x + x.clone(),
        lambda x: x.sum(3),
        lambda x: x.sum(),
        lambda x: x.reshape(1),
        lambda x: x.transpose(1, 2).contiguous(),
    ],
)
def test_one_dimension_more_does_what_eager_execution_does(code: Callable, service) -> None:
    """Torch makes tensors of more than 64 dimensions, and refuses some of what is done to them."""
    x = torch.ones([1] * 65)
    with torch.no_grad():
        expected, got = outcome(code, x), outcome(compiled(code), x)
    assert isinstance(got, tuple) == isinstance(expected, tuple), (expected, got)
    if isinstance(expected, tuple):
        assert got == expected
    else:
        assert_same(expected, got)
    with laneway.inference(Calls(code), service) as predict:
        found = outcome(predict, x)
    if isinstance(found, tuple) and not isinstance(expected, tuple):
        assert issubclass(found[0], laneway.Error) and "64" in found[1], found
    elif not isinstance(found, tuple):
        assert_same(expected, found)


# Devices and gradients.


@pytest.mark.filterwarnings("ignore")
def test_inputs_on_the_device_meta(service) -> None:
    x = torch.empty(4, 6, device="meta")
    with torch.no_grad():
        got = compiled(lambda x: x * 2)(x)
        assert got.device.type == "meta" and got.shape == (4, 6)
        assert "meta" in eager_reasons()[0] and running() == []
        assert_same(compiled(lambda x: x * 2)(BASE), BASE * 2)
    with (
        laneway.inference(Calls(several), service) as predict,
        pytest.raises(laneway.CaptureError, match=r"device meta.*\.cpu\(\)"),
    ):
        predict(x)


@pytest.mark.filterwarnings("ignore")
def test_inputs_that_require_gradients_get_them_outside_of_no_grad() -> None:
    twin, x = BASE.clone().requires_grad_(), BASE.clone().requires_grad_()
    made = compiled(lambda x: (x * x).sum())
    (twin * twin).sum().backward()
    made(x).backward()
    assert_same(twin.grad, x.grad)
    assert "require gradients" in eager_reasons()[0] and running() == []
    with torch.no_grad():
        assert_same(made(x), (x * x).sum())
    assert running()


@pytest.mark.parametrize("first", ["contiguous", "channels last", "sliced", "one for all"])
def test_images_of_several_formats_in_turn(first: str, service) -> None:
    kinds = {
        "contiguous": lambda: IMAGE.clone(),
        "channels last": lambda: IMAGE.contiguous(memory_format=torch.channels_last),
        "sliced": lambda: IMAGE.clone()[:, :, 1:],
        "one for all": lambda: IMAGE.clone()[:1].expand(2, 3, 6, 6),
    }
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)).eval()
    for parameter in model.parameters():
        parameter.data.mul_(8).round_()
    with torch.no_grad(), laneway.inference(model, service) as predict:
        made = compiled(model)
        for kind in [first, *kinds, first]:
            check_compiled(model, made, lambda kind=kind: (kinds[kind](),))
            check_inference(model, predict, lambda kind=kind: (kinds[kind](),))
    assert running() and not eager_reasons()
