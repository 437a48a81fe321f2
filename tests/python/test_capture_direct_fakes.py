"""Holds every operator that capture runs past the fake mode's dispatch against that dispatch:
sizes, strides, offsets, dtypes, storages and which argument is handed back, over many layouts and
dtypes. The plain case must have gone past it, else the comparison would say nothing."""

import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from laneway.operators import direct_fakes
from laneway.operators.direct_fakes import BY_META_KERNEL, ELEMENTWISE, IN_PLACE, DirectFakes

aten = torch.ops.aten
LAYOUTS = {
    "row_major": lambda dtype: torch.empty(2, 3, 4, 5, dtype=dtype),
    "transposed": lambda dtype: torch.empty(2, 3, 5, 4, dtype=dtype).transpose(2, 3),
    "channels_last": lambda dtype: torch.empty(2, 3, 4, 5, dtype=dtype).to(
        memory_format=torch.channels_last
    ),
    "sliced": lambda dtype: torch.empty(2, 6, 4, 5, dtype=dtype)[:, 1:4],
    "expanded": lambda dtype: torch.empty(2, 1, 4, 5, dtype=dtype).expand(2, 3, 4, 5),
    "ones": lambda dtype: torch.empty_strided((2, 1, 1, 5), (5, 7, 9, 1), dtype=dtype),
    "nothing": lambda dtype: torch.empty(2, 0, 4, 5, dtype=dtype),
    "number": lambda dtype: torch.empty((), dtype=dtype),
    "row": lambda dtype: torch.empty(5, dtype=dtype),
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)


def described(value, known):
    """What a graph would see of it; tensors of `known` by their position."""
    if isinstance(value, (tuple, list)):
        return [described(element, known) for element in value]
    if not isinstance(value, torch.Tensor):
        return value
    for position, tensor in enumerate(known):
        if tensor is value:
            return ("handed back", position, value.shape, value.stride())
    storages = [tensor.untyped_storage()._cdata for tensor in known]
    storage = value.untyped_storage()
    alias = storages.index(storage._cdata) if storage._cdata in storages else None
    layout = (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype)
    return (*layout, str(value.device), alias, storage.nbytes(), value.requires_grad)


def compare(func, args, kwargs=None):
    """Runs both ways; whether the direct one took it. An error of the fake mode's must be one here
    as well, or be left to it; one that only the direct way finds must be eager's."""
    kwargs = kwargs or {}
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode.cache_enabled = False

    def faked():
        known = []

        def fake(value):
            if isinstance(value, (list, tuple)):
                return [fake(element) for element in value]
            if not isinstance(value, torch.Tensor):
                return value
            known.append(mode.from_tensor(value))
            return known[-1]

        return [fake(value) for value in args], known

    ours_args, ours_known = faked()
    theirs_args, theirs_known = faked()
    with mode:
        try:
            theirs = described(func(*theirs_args, **kwargs), theirs_known)
        except Exception as error:  # many kinds, all of them the caller's mistake
            theirs = type(error)
        try:
            result = DirectFakes(mode).run(func, tuple(ours_args), kwargs)
        except Exception as error:
            if not isinstance(theirs, type):  # then eager must refuse it too
                with _disable_current_modes(), pytest.raises(type(error)):
                    func(*args, **kwargs)
            return True
        if result is NotImplemented:
            return False
        assert described(result, ours_known) == theirs, func
    return True


def arguments(func, tensors):
    """One argument for each that the schema does not default, tensors from `tensors` in turn."""
    given = itertools.cycle(tensors)
    others = {"number": 0.5, "Scalar": 0.5, "float": 0.5, "int": 1, "bool": True}
    found = []
    for argument in func._schema.arguments:
        kind = str(argument.type)
        if kind == "Tensor":
            found.append(next(given))
        elif argument.kwarg_only or argument.has_default_value():
            break
        else:
            found.append(others[kind])
    return found


@pytest.mark.parametrize("func", sorted(ELEMENTWISE | IN_PLACE, key=str), ids=str)
def test_elementwise_operators_give_what_the_fake_mode_gives(func):
    assert compare(func, arguments(func, [LAYOUTS["row_major"](torch.float32)]))
    tensors = [a for a in func._schema.arguments if str(a.type) == "Tensor"]
    each = min(len(tensors), 2)  # layouts and dtypes of two tensors, in all combinations
    for layouts in itertools.product(LAYOUTS.values(), repeat=each):
        compare(func, arguments(func, [layout(torch.float32) for layout in layouts]))
    for dtypes in itertools.product(DTYPES, repeat=each):
        compare(func, arguments(func, [LAYOUTS["row_major"](dtype) for dtype in dtypes]))


@pytest.mark.parametrize("number", [2, 2.5, True, 2.5j])
def test_a_number_changes_the_dtype_only_where_it_does_for_the_fake_mode(number):
    for dtype in DTYPES:
        tensor = LAYOUTS["row_major"](dtype)
        for func in (aten.mul.Tensor, aten.mul.Scalar, aten.pow.Tensor_Scalar, aten.add.Tensor):
            compare(func, [tensor, number])
        compare(aten.add.Tensor, [tensor, tensor], {"alpha": number})


VIEW_ARGUMENTS = {
    aten.alias.default: [()],
    aten.as_strided.default: [([2, 2], [1, 2], 0), ([2], [1])],
    aten.detach.default: [()],
    aten.expand.default: [([7, -1, -1, -1, -1],)],
    aten.permute.default: [([3, 1, 0, 2],)],
    aten.select.int: [(1, 0), (-1, -1), (0, 9)],
    aten.slice.Tensor: [(0,), (1, 1, 3), (1, -2, 2**62), (0, 0, 2, 2)],
    aten.squeeze.dim: [(1,), (-1,)],
    aten.t.default: [()],
    aten.transpose.int: [(0, 1), (-1, 1)],
    aten.unsqueeze.default: [(0,), (-1,), (2,)],
    aten.view.default: [([-1],), ([6, -1],), ([2, 3, 20],)],
    aten._unsafe_view.default: [([-1],), ([6, -1],)],
}


@pytest.mark.parametrize("func", sorted(VIEW_ARGUMENTS, key=str), ids=str)
def test_views_give_what_the_fake_mode_gives(func):
    """A matrix for t(), which takes nothing larger."""
    plain = torch.empty(4, 5) if func is aten.t.default else LAYOUTS["row_major"](torch.float32)
    for rest in VIEW_ARGUMENTS[func]:
        assert compare(func, [plain, *rest])
        for layout, dtype in itertools.product(LAYOUTS.values(), DTYPES):
            compare(func, [layout(dtype), *rest])


def test_products_and_joins_give_what_the_fake_mode_gives():
    a, b = torch.empty(3, 4), torch.empty(4, 5)
    batch = torch.empty(2, 3, 4)
    assert compare(aten.mm.default, [a, b])
    assert compare(aten.bmm.default, [batch, batch.transpose(1, 2)])
    assert compare(aten.cat.default, [[a, a]])
    for x, y in itertools.product((a, b, a.t(), b.t(), a[::2], batch, a.double()), repeat=2):
        compare(aten.mm.default, [x, y])
        compare(aten.bmm.default, [batch, y])
        compare(aten.cat.default, [[x, y, x]])
        compare(aten.cat.default, [[x, y], -1])
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        compare(aten.cat.default, [[first(torch.float32), second(torch.float64)], 1])


def test_every_listed_operator_is_tested():
    others = {aten.mm.default, aten.bmm.default, aten.cat.default}
    assert others | set(VIEW_ARGUMENTS) == BY_META_KERNEL


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtypes", list(itertools.product(DTYPES[:3], repeat=2)), ids=str)
def test_batch_norm_gives_what_the_fake_mode_gives(training, dtypes):
    """Forward and backward, all layouts; only training on plain floats is taken directly."""
    taken = []
    for name, layout in LAYOUTS.items():
        image = layout(dtypes[0])
        if image.dim() < 2:
            continue
        vectors = [torch.empty(image.shape[1], dtype=dtypes[1]) for _ in range(6)]
        forward = [image, *vectors[:4], training, 0.1, 1e-5]
        backward = [image, image, vectors[0], *vectors[2:6], training, 1e-5]
        took = [compare(aten._native_batch_norm_legit.default, forward)]
        for wanted in itertools.product([True, False], repeat=3):
            took.append(compare(aten.native_batch_norm_backward.default, [*backward, list(wanted)]))
        if any(took):
            taken.append(name)
    plain = training and dtypes in [(torch.float32,) * 2, (torch.float64,) * 2]
    assert taken == (["row_major"] if plain else [])


def test_constants_and_foreign_tensors_are_left_to_the_fake_mode():
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        constant = torch.tensor(2.0)
        plain = torch.empty(())
    direct = DirectFakes(mode)
    other = FakeTensorMode().from_tensor(torch.empty(()))
    for func in (aten.add.Tensor, aten.add_.Tensor, aten.mm.default):
        for strange in (constant, other, torch.empty(())):
            assert direct.run(func, (plain, strange), {}) is NotImplemented
            assert direct.run(func, (strange, plain), {}) is NotImplemented
    assert direct_fakes.aten.sin.default not in ELEMENTWISE
    assert direct.run(aten.sin.default, (plain,), {}) is NotImplemented
