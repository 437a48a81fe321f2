"""BERT: word, position and token-type embeddings, post-norm encoder layers, a pooled classifier.

Dropout is 0.1 after the embeddings, on the attention weights and after each sub-layer, as BERT has
it. The head classifies the pooled first token into 10 classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .workload import Workload, adamw, cross_entropy, generator

DROPOUT = 0.1


class Embeddings(nn.Module):
    """Sum of word, position and token-type embeddings, normalised."""

    def __init__(self, width: int, vocabulary: int, tokens: int) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)
        self.token_type = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, ids: torch.Tensor, token_types: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.word(ids) + self.position(positions) + self.token_type(token_types)
        return self.dropout(self.norm(x))


class EncoderLayer(nn.Module):
    """Attention and a four times wider MLP; each is added to its input and then normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.projection = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(DROPOUT)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0)
        return self.projection(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attention_norm(x + self.dropout(self.attend(x)))
        return self.output_norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """Token ids and token types (batch, tokens) to class logits (batch, classes)."""

    def __init__(
        self, layers: int, width: int, heads: int, vocabulary: int, tokens: int, classes: int = 10
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(width, vocabulary, tokens)
        self.layers = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
        self.pooler = nn.Linear(width, width)
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: torch.Tensor, token_types: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.embeddings(ids, token_types))
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


def bert(seed: int, form: str) -> Workload:
    model = Bert(layers=4, width=256, heads=4, vocabulary=1000, tokens=128)

    def batch(i: int) -> tuple[torch.Tensor, ...]:
        g = generator(seed, i)
        ids = torch.randint(1000, (4, 128), generator=g)
        second_from = torch.randint(1, 128, (4, 1), generator=g)
        token_types = (torch.arange(128) >= second_from).long()
        return ids, token_types, torch.randint(10, (4,), generator=g)

    return Workload("bert", model, cross_entropy, adamw(model, form), batch)
