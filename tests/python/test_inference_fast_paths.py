"""torch.nn's attention modules run as one fused operator when nobody wants gradients: their
inferences leave the bits of eager, whichever masks they get."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import laneway
from laneway.errors import CaptureError
from support.eager import assert_same

TOKENS, WIDTH, HEADS = 6, 16, 4
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    """Attention of a sequence with itself."""

    def __init__(self, mask: torch.Tensor | None = None, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.options = options
        self.mask = mask

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> Any:
        return self.attention(
            x, x, x, attn_mask=self.mask, key_padding_mask=padding, **self.options
        )


class Encoder(nn.Module):
    """Two encoder layers."""

    def __init__(self, nested: bool = False, **options: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


def padding() -> torch.Tensor:
    return torch.arange(TOKENS) >= torch.tensor([[4], [6], [1]])


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention(need_weights=False),
        lambda: Attention(average_attn_weights=False),
        lambda: Attention(CAUSAL),
        lambda: Encoder(),
        lambda: Encoder(norm_first=True, activation="gelu"),
    ],
    ids=["attention", "weights", "mask", "encoder", "norm first"],
)
def test_fused_attention_equals_eager(make: Any, padded: bool) -> None:
    model = make().eval()
    inputs = [(torch.randn(3, TOKENS, WIDTH), *((padding(),) if padded else ())) for _ in range(2)]
    with torch.no_grad():
        expected = [model(*each) for each in inputs]
    with laneway.embedded("64MiB") as service, laneway.inference(model, service) as infer:
        assert_same(expected, [infer(*each) for each in inputs])


def test_nested_tensors_are_refused_with_the_option_that_avoids_them() -> None:
    with (
        laneway.embedded("64MiB") as service,
        laneway.inference(Encoder(nested=True).eval(), service) as infer,
        pytest.raises(CaptureError, match="enable_nested_tensor=False"),
    ):
        infer(torch.randn(3, TOKENS, WIDTH), padding())
