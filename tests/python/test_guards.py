"""Shows that a step may decide in Python by the values of its inputs: the bits are eager's, a call
whose inputs decide otherwise is captured again, what depends on weights stays refused, the caller's
tensors stay as they are, and graphs without such decisions ask nothing.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode

import laneway
from laneway.capture import fake_questions
from laneway.capture.capture import capture_train_step
from laneway.capture.guards import Program
from laneway.errors import CaptureError, InvalidInput
from support.eager import assert_same

ONES = torch.ones(4, 6, dtype=torch.int64)
PADDED = torch.tensor([[0] * n + [1] * (6 - n) for n in (2, 0, 5, 1)])
LATE = torch.tensor([[1] * n + [0] * (6 - n) for n in (2, 6, 5, 3)])


class Model(nn.Module):
    """A linear layer over (batch, time, channel), and what each case does with it and an input."""

    def __init__(self, after: Callable[[Model, torch.Tensor, torch.Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.table = torch.tensor([1, 2, 3])  # no buffer: a constant
        self.after = after

    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return self.after(self, self.linear(x), given)


def left_out(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.mean() if mask.all() else (x * mask[..., None]).sum() / mask.sum()


def compared(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if (mask == 1).all():
        return x.sum()
    return -x[mask.shape[0] // 2 :].sum() * mask.sum()


def shortened(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    longest = int(mask.sum(1).max())
    return x[:, :longest].square().mean()


def lengths(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A guard for each row, and reads of them in one list."""
    counts = mask.sum(1)
    rows = [x[i, : int(n)].sum() for i, n in enumerate(counts)]
    return torch.stack(rows).sum() * sum(counts.tolist())


def truth(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if mask[0, 0].item() else x.mean()


def equal(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if torch.equal(mask, torch.ones_like(mask)) else x.mean()


def close(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if torch.allclose(mask.double(), torch.ones(6).double()) else x.mean()


def several(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The later reads happen on one way only."""
    if mask.all():
        return x.sum()
    if mask[:, 0].any() and mask[:, -1].sum().item() > 2:
        return x[:, 0].sum()
    return x[: int(mask[0].sum())].mean()


def with_constants(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x[..., : int((model.table * mask[0, :3]).sum()) // 2].sum()


def arithmetic(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Numbers that meet numbers before they are compared."""
    half = mask.sum().item() * 2 - 12
    return x.sum() if half / 3 >= 12 else x.mean() * 3


def split(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """torch.tensor_split reads the tensor that says where, one of several and a number."""
    at = mask.sum(1)[:2] % 6
    parts = torch.tensor_split(x, at, 1)
    return sum(p.sum() * n for n, p in enumerate(parts)) + torch.tensor_split(x, at[0] + 1)[0].sum()


def written_first(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The input is changed in place, through a view, before it is read."""
    mask = mask.clone() if mask.shape[0] == 1 else mask
    mask.view(-1)[1:].mul_(2)
    mask[0] += 1
    return x[:, : int(mask.sum()) % 5 + 1].sum()


CASES = [
    left_out,
    compared,
    shortened,
    lengths,
    truth,
    equal,
    close,
    several,
    with_constants,
    arithmetic,
    split,
    written_first,
]


def inputs() -> torch.Tensor:
    return torch.randn(4, 6, 3)


def eagerly(model: nn.Module, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(x.clone(), given.clone())


class Training:
    """A step and plain eager training of the same model."""

    def __init__(self, model: nn.Module, service: Any, **options: Any) -> None:
        self.twin, self.model = copy.deepcopy(model), model
        self.optimizer = torch.optim.AdamW(self.twin.parameters(), lr=0.01)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        self.step = laneway.train_step(model, None, optimizer, service, **options)

    def check(self, *given: Any, submitted: bool = False, **named: Any) -> None:
        self.optimizer.zero_grad()
        loss = self.twin(*copy.deepcopy(given), **named)
        loss = loss if isinstance(loss, torch.Tensor) else loss["loss"]
        loss.backward()
        self.optimizer.step()
        call = self.step.submit if submitted else self.step
        result = call(*given, **named)
        result = result.result() if submitted else result
        result = result if isinstance(result, torch.Tensor) else result["loss"]
        assert_same(loss.detach(), result, "loss")

    def check_state(self) -> None:
        state = self.step.state_dict()
        assert_same(dict(self.twin.state_dict()), state["model"], "model")
        assert_same(self.optimizer.state_dict()["state"], state["optimizer"]["state"], "optimizer")

    def graphs(self) -> int:
        return len(self.step.report()["graphs"])


@pytest.mark.parametrize("after", CASES)
def test_decisions_by_inputs_are_those_of_eager(after: Callable[..., Any], service: Any) -> None:
    model = Model(after)
    infer = laneway.inference(model, service)
    training = Training(copy.deepcopy(model), service)
    for mask in (ONES, PADDED, LATE, ONES, PADDED, LATE):
        x, given, twin = inputs(), mask.clone(), mask.clone()
        with torch.no_grad():
            expected = model(x.clone(), twin)
        assert_same(expected, infer(x, given), "inference")
        assert_same(twin, given, "the caller's mask")
        training.check(x, mask.clone())
    training.check_state()


def test_masks_that_alternate_are_captured_once_each(service: Any) -> None:
    training = Training(Model(left_out), service)
    for turn in range(12):
        training.check(inputs(), (ONES, PADDED, LATE)[turn % 3], submitted=turn % 2 == 1)
    assert training.graphs() == 2  # PADDED and LATE decide alike
    training.check_state()


def test_an_inference_of_a_step_decides_by_its_own_inputs(service: Any) -> None:
    training = Training(Model(left_out), service)
    training.check(inputs(), ONES)
    predict = laneway.inference(training.step)
    for mask in (PADDED, ONES, PADDED):
        x = inputs()
        training.check(x, mask)
        assert_same(eagerly(training.twin, x, mask), predict(x, mask), "prediction")


def test_no_more_variants_are_kept_than_asked_for(service: Any) -> None:
    training = Training(Model(shortened), service, max_variants=2)
    with mock.patch(
        "laneway.jobs.step_capture.capture_train_step", wraps=capture_train_step
    ) as capture:
        for longest in (1, 2, 2, 1, 3, 1, 2):
            mask = torch.zeros(4, 6, dtype=torch.int64)
            mask[:, :longest] = 1
            training.check(inputs(), mask)
            assert training.graphs() <= 2
    assert capture.call_count == 4  # 1, 2, 3, and 2 that had to go for 3
    training.check_state()


def test_capturing_again_and_again_is_warned_of_with_the_number_and_its_line(service: Any) -> None:
    model = Model(lambda model, x, given: x * float(given))
    infer = laneway.inference(model, service)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for turn in range(32):
            x, number = inputs(), torch.tensor(turn / 7)
            assert_same(eagerly(model, x, number), infer(x, number), "scaled")
    (message,) = (str(w.message) for w in caught if "captured 32 times" in str(w.message))
    assert "what it reads from its inputs at test_guards.py:" in message
    assert f"is {torch.tensor(31 / 7).item()} and was {torch.tensor(30 / 7).item()}" in message


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float32, torch.bfloat16, torch.float64]
)
def test_inputs_of_every_kind_of_number(dtype: torch.dtype, service: Any) -> None:
    model = Model(shortened)
    infer = laneway.inference(model, service)
    for mask in (ONES, PADDED, ONES):
        x = inputs()
        assert_same(eagerly(model, x, mask.to(dtype)), infer(x, mask.to(dtype)), str(dtype))


def test_numbers_are_told_apart_that_compare_as_equal_and_those_that_do_not_are_not(
    service: Any,
) -> None:
    """A zero's sign goes into what is computed; NaN is what it was before."""
    model = Model(lambda model, x, given: x + math.copysign(1.0, float(given)))
    infer = laneway.inference(model, service)
    for number in (0.0, -0.0, math.nan, math.nan, 0.0, math.inf):
        x, given = inputs(), torch.tensor(number)
        assert_same(eagerly(model, x, given), infer(x, given), str(number))
    assert len(infer.job.report()["graphs"]) == 4


def test_a_comparison_is_guarded_and_not_the_number(service: Any) -> None:
    model = Model(lambda model, x, given: x * 2 if given.mean().item() > 0.5 else x)
    infer = laneway.inference(model, service)
    for number in (0.1, 0.2, 0.3, 0.7, 0.9, math.nan, 0.8):
        x, given = inputs(), torch.full((2,), number)
        assert_same(eagerly(model, x, given), infer(x, given), str(number))
    assert len(infer.job.report()["graphs"]) == 2


def test_inputs_of_other_layouts(service: Any) -> None:
    """What is not dense is copied; guards see what the graph sees."""
    model = Model(left_out)
    infer = laneway.inference(model, service)
    wide = torch.zeros(4, 12, dtype=torch.int64)
    wide[:, ::2] = PADDED
    turned = torch.empty_strided((4, 6), (1, 4), dtype=torch.int64)
    given = [ONES, wide[:, ::2], turned.copy_(PADDED), turned.copy_(ONES), ONES[:1].expand(4, 6)]
    for mask in given:
        x = inputs()
        assert_same(eagerly(model, x, mask), infer(x, mask), str(mask.stride()))
        assert_same(eagerly(model, x, mask), infer(x, given=mask), "by name")


def test_guards_are_asked_in_the_mode_of_the_call(service: Any) -> None:
    model = Model(lambda m, x, given: x * 2 if (given @ given.T).sum() > 100.25 else x)
    infer = laneway.inference(model, service)
    given = torch.full((10, 1), 1.0019)
    x = inputs()
    expected = eagerly(model, x, given)
    assert_same(expected, infer(x, given), "first")
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        rounded = eagerly(model, x, given)
        assert not torch.equal(expected, rounded)
        assert_same(rounded, infer(x, given), "under autocast")
    assert_same(expected, infer(x, given), "again")
    assert_same(expected, infer(x, given.clone().requires_grad_()), "with a gradient")


def test_what_a_guard_raises_is_what_eager_raises(service: Any) -> None:
    model = Model(lambda m, x, given: x if m.table[given].sum() > 3 else -x)
    infer = laneway.inference(model, service)
    x = inputs()
    for indices in (torch.tensor([0, 1]), torch.tensor([1, 2])):
        assert_same(eagerly(model, x, indices), infer(x, indices), "within")
    with pytest.raises(InvalidInput, match=r"as eager execution would: IndexError: .*7"):
        infer(x, torch.tensor([0, 7]))
    assert_same(eagerly(model, x, indices), infer(x, indices), "after the error")


def by_weights(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if x.sum() > 0 else -x.sum()


def by_both(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x[: int((model.linear.bias * 0 + mask[0, :3]).sum())].sum()


def by_chance(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if (torch.rand(4, 6) * mask).sum() > 2 else x.mean()


def equal_to_weights(model: Model, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.sum() if torch.equal(mask, x) else x.mean()


@pytest.mark.parametrize("after", [by_weights, by_both, by_chance, equal_to_weights])
def test_what_depends_on_weights_or_chance_is_refused(
    after: Callable[..., Any], service: Any
) -> None:
    model = Model(after)
    step = Training(model, service).step
    for call in (laneway.inference(model, service), step):
        with pytest.raises(CaptureError, match=f"only known when it runs.* in {after.__name__}"):
            call(inputs(), ONES)


def test_numbers_that_nobody_decides_by_stay_numbers_of_the_graph(service: Any) -> None:
    model = Model(lambda model, x, given: x * given.max().item())
    infer = laneway.inference(model, service)
    for number in (1.0, 2.0, 3.0):
        x, given = inputs(), torch.full((2,), number)
        assert_same(eagerly(model, x, given), infer(x, given), str(number))
    assert len(infer.job.report()["graphs"]) == 1


def test_nothing_is_worked_out_for_graphs_without_guards(service: Any) -> None:
    """And once per call for those that have some."""
    plain = laneway.inference(Model(lambda model, x, given: x * given.max().item()), service)
    guarded = laneway.inference(Model(left_out), service)
    ones = torch.ones(4)
    plain(inputs(), ones), guarded(inputs(), ONES)
    with mock.patch.object(Program, "answers", autospec=True, side_effect=Program.answers) as asked:
        plain(inputs(), ones * 2)
        plain(inputs(), ones[:2])  # another form
        assert asked.call_count == 0
        guarded(inputs(), ONES)
        guarded.submit(inputs(), ONES).result()
        assert asked.call_count == 2


def test_libraries_take_fakes_for_plain_tensors_inside_a_capture_alone() -> None:
    with FakeTensorMode():
        fake = torch.ones(2)
    with fake_questions.denied():
        asked = torch._subclasses.FakeTensor
        assert not isinstance(fake, asked) and not isinstance(torch.ones(2), asked)
        assert issubclass(FakeTensor, asked)
    assert torch._subclasses.FakeTensor is FakeTensor
    assert isinstance(fake, asked) and not isinstance(torch.ones(2), asked)


SMALL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32,
}


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_hugging_faces_models_leave_out_a_mask_of_ones_as_in_eager(
    family: str, service: Any
) -> None:
    """With grouped keys the last bits tell whether the mask was left out."""
    import transformers

    config = getattr(transformers, f"{family}Config")(**SMALL)
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    training = Training(model, service)
    infer = laneway.inference(copy.deepcopy(model).eval(), service)
    reference = copy.deepcopy(model).eval()
    ids = torch.randint(0, 32, (4, 6))
    for mask in (ONES, PADDED, ONES, LATE, ONES[:, :1].expand(4, 6)):
        named = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        with torch.no_grad():
            expected = reference(**named).logits
        assert_same(expected, infer(**named).logits, "logits")
        training.check(**named, labels=ids)
    training.check_state()
    assert training.graphs() == 3  # with a mask and without; and with one that is expanded
