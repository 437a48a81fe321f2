"""GPT: pre-norm decoder blocks, causal attention, learned positions.

Dropout is 0 (as nanoGPT trains by default) and the head is not tied to the token embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .workload import Workload, adamw, cross_entropy, generator


class Block(nn.Module):
    """Attention and a four times wider MLP, each after a layer norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Gpt(nn.Module):
    """Token ids (batch, tokens) to logits over the vocabulary (batch, tokens, vocabulary)."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, tokens: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.token(ids) + self.position(positions)
        return self.head(self.norm(self.blocks(x)))


def _next_token_batches(seed: int, batch_size: int, tokens: int, vocabulary: int):
    def batch(i: int) -> tuple[torch.Tensor, ...]:
        text = torch.randint(vocabulary, (batch_size, tokens + 1), generator=generator(seed, i))
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    return batch


def gpt(seed: int, form: str) -> Workload:
    model = Gpt(layers=2, width=128, heads=4, vocabulary=256, tokens=64)
    batches = _next_token_batches(seed, 8, 64, 256)
    return Workload("gpt", model, cross_entropy, adamw(model, form), batches)


def gpt_large(seed: int, form: str) -> Workload:
    """GPT-2's smallest: for GPUs, which the others leave idle most of the time."""
    model = Gpt(layers=12, width=768, heads=12, vocabulary=50304, tokens=512)
    batches = _next_token_batches(seed, 4, 512, 50304)
    return Workload("gpt_large", model, cross_entropy, adamw(model, form), batches)


def gpt6(seed: int, form: str) -> Workload:
    model = Gpt(layers=6, width=256, heads=8, vocabulary=1000, tokens=128)
    batches = _next_token_batches(seed, 4, 128, 1000)
    return Workload("gpt6", model, cross_entropy, adamw(model, form), batches)
