"""Attention captured for CUDA is CUDA's efficient kernel where its conditions hold, else plain
operators, and never a CPU's kernel; on stand-ins for the kernel it gives what eager gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from laneway.capture.capture import capture_inference, capture_train_step
from laneway.errors import CaptureError
from laneway.graph.graph_ir import NO_VALUE
from laneway.graph.target import Target
from support.both import sgd
from support.cuda_stand_ins import cuda_on_cpu  # noqa: F401
from support.for_cuda import check_inference, check_training, operators_of

EFFICIENT = "aten::_scaled_dot_product_efficient_attention"
BACKWARD = "aten::_scaled_dot_product_efficient_attention_backward"


class Attention(nn.Module):
    """Self-attention over [batch, position, feature] with anything that F's function takes."""

    def __init__(self, width: int = 32, heads: int = 4, groups: int | None = None, **options: Any):
        super().__init__()
        self.heads, self.groups, self.options = heads, groups or heads, options
        self.size = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, self.groups * self.size)
        self.value = nn.Linear(width, self.groups * self.size)
        self.mask: torch.Tensor | None = None

    def split(self, projected: torch.Tensor, heads: int) -> torch.Tensor:
        return projected.view(*projected.shape[:2], heads, self.size).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answers = F.scaled_dot_product_attention(
            self.split(self.query(x), self.heads),
            self.split(self.key(x), self.groups),
            self.split(self.value(x), self.groups),
            attn_mask=self.mask,
            **self.options,
        )
        return answers.transpose(1, 2).reshape(x.shape).mean(1)


class LearntMask(Attention):
    """Adds a bias that is trained to the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(1, 4, 12, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mask = self.bias
        try:
            return super().forward(x)
        finally:
            self.mask = None


def batches(count: int = 2, length: int = 12, width: int = 32) -> list[tuple]:
    return [(torch.randn(3, length, width), torch.randint(0, 8, (3,))) for _ in range(count)]


def boolean_mask(length: int = 12) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


MASKS = {
    "none": None,
    "boolean": boolean_mask(),
    "added": torch.randn(12, 12),
    "of-each-batch": torch.randn(3, 1, 12, 12),
    "aligned": torch.randn(3, 4, 12, 16)[..., :12],
}


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize("mask", MASKS)
def test_masks_reach_the_kernel(mask: str) -> None:
    model = Attention()
    model.mask = MASKS[mask]
    captured = check_training(model, sgd, F.cross_entropy, batches())
    assert operators_of(captured).count(EFFICIENT) == 1
    assert operators_of(captured).count(BACKWARD) == 1


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"is_causal": True}, 1),
        ({"scale": 0.3}, 1),
        ({"groups": 2, "enable_gqa": True}, 1),
        ({"width": 24}, 0),  # heads of 6 elements are not aligned
    ],
    ids=str,
)
def test_forms_of_attention(options: dict[str, Any], count: int) -> None:
    model = Attention(**options)
    captured = check_training(model, sgd, F.cross_entropy, batches(width=options.get("width", 32)))
    assert operators_of(captured).count(EFFICIENT) == count
    assert operators_of(captured).count(BACKWARD) == count


@pytest.mark.usefixtures("cuda_on_cpu")
def test_a_bias_that_is_trained_gets_its_gradient() -> None:
    captured = check_training(LearntMask(), sgd, F.cross_entropy, batches())
    assert operators_of(captured).count(BACKWARD) == 1


@pytest.mark.usefixtures("cuda_on_cpu")
def test_inference_keeps_no_log_sum() -> None:
    captured = check_inference(Attention(), batches()[0][:1])
    node = next(n for n in captured.graph.nodes if n.op == EFFICIENT)
    assert [a for _, a in node.arguments][4] is False
    assert node.results[1].values == [NO_VALUE]


def test_what_the_kernel_keeps_for_its_backward_is_rounded_to_32_rows() -> None:
    model = Attention()
    captured = capture_train_step(
        model, F.cross_entropy, sgd(model), batches(length=33)[0], target=Target.cuda
    )
    node = next(n for n in captured.graph.nodes if n.op == EFFICIENT)
    assert captured.graph.values[node.results[1].values[0]].sizes == (3, 4, 64)
    # No value is made of the generator's state, and none is read.
    assert [r.values for r in node.results[2:]] == [[NO_VALUE]] * 2


def test_the_form_that_the_user_asks_for() -> None:
    for backend, count in (("MATH", 0), ("FLASH_ATTENTION", 1), ("EFFICIENT_ATTENTION", 1)):
        with nn.attention.sdpa_kernel(getattr(nn.attention.SDPBackend, backend)):
            captured = capture_inference(Attention(), batches()[0][:1], target=Target.cuda)
        assert operators_of(captured).count(EFFICIENT) == count


def test_dropout_is_drawn_from_the_jobs_generator() -> None:
    model = Attention(dropout_p=0.5)
    captured = capture_train_step(
        model, F.cross_entropy, sgd(model), batches()[0], target=Target.cuda
    )
    assert EFFICIENT not in operators_of(captured)
    assert "aten::bernoulli_" in operators_of(captured)


@pytest.mark.parametrize(("dtype", "size", "count"), [("bfloat16", 8, 1), ("bfloat16", 4, 0)])
def test_heads_of_16_bit_numbers(dtype: str, size: int, count: int) -> None:
    kind = getattr(torch, dtype)
    model = Attention(4 * size).to(kind)
    captured = capture_inference(
        model, (torch.randn(2, 5, 4 * size, dtype=kind),), target=Target.cuda
    )
    assert operators_of(captured).count(EFFICIENT) == count


@pytest.mark.usefixtures("cuda_on_cpu")
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_modules_in_evaluation(need_weights: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(x, x, x, need_weights=need_weights)[0]

    captured = check_inference(Model().eval(), (torch.randn(3, 12, 32),))
    assert "aten::_native_multi_head_attention" not in operators_of(captured)
    assert operators_of(captured).count(EFFICIENT) == (0 if need_weights else 1)


@pytest.mark.usefixtures("cuda_on_cpu")
def test_a_transformer_encoder() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.encoder(x).mean(1)

    captured = check_training(Model(), sgd, F.cross_entropy, batches())
    assert operators_of(captured).count(EFFICIENT) == 2
    check_inference(Model(), batches()[0][:1])


def test_what_no_device_takes_is_refused_as_eager_refuses_it() -> None:
    model = Attention(is_causal=True)
    model.mask = boolean_mask()
    with pytest.raises((RuntimeError, CaptureError), match="is_causal"):
        capture_train_step(model, F.cross_entropy, sgd(model), batches()[0], target=Target.cuda)


def test_a_capture_for_the_cpu_keeps_the_cpus_kernel() -> None:
    model = Attention()
    capture_inference(model, batches()[0][:1], target=Target.cuda)
    captured = capture_inference(model, batches()[0][:1])
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in operators_of(captured)
