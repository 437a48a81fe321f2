"""Rows: layers over sequences and tokens: recurrent, attention, embeddings; and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import rnn

from support.support_table import Group
from support.trial import Trial, adamw


def sequence() -> tuple:
    return torch.randn(3, 6, 8), torch.randint(0, 5, (3,))


def tokens() -> tuple:
    return torch.randint(0, 11, (3, 6)), torch.randint(0, 5, (3,))


class Body(nn.Module):
    """A layer, a function that makes one vector per example of its result, a linear head."""

    def __init__(self, layer: nn.Module, call: Callable[[nn.Module, torch.Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.call(self.layer, x))


def train(trial: Trial, case: tuple) -> None:
    make, call, batch = case
    trial.train(lambda: Body(make(), call), [batch(), batch()], make_optimizer=adamw)


def last(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x)[0][:, -1]


def recurrent(kind: type, width: int = 8, **options: Any) -> tuple:
    return lambda: kind(8, width, batch_first=True, **options), last, sequence


def unrolled(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    state = None
    for part in x.unbind(1):
        state = layer(part, state)
    return state[0] if isinstance(state, tuple) else state


def packed(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    lengths = torch.tensor([6, 4, 2])
    output, _ = layer(rnn.pack_padded_sequence(x, lengths, batch_first=True))
    return rnn.pad_packed_sequence(output, batch_first=True)[0].sum(1)


def packed_and_sorted(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    lengths = torch.tensor([2, 6, 4])
    given = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return layer(given)[1][0][-1]


RECURRENT = Group("Recurrent layers")
RECURRENT.each(
    {
        "RNN": recurrent(nn.RNN),
        "RNN, relu": recurrent(nn.RNN, nonlinearity="relu"),
        "LSTM": recurrent(nn.LSTM),
        "LSTM without biases": recurrent(nn.LSTM, num_layers=2, bias=False),
        "GRU": recurrent(nn.GRU),
        "LSTM, two layers with dropout": recurrent(nn.LSTM, num_layers=2, dropout=0.2),
        "LSTM, bidirectional": recurrent(nn.LSTM, width=4, bidirectional=True),
        "LSTM with projection": recurrent(nn.LSTM, width=10, proj_size=8),
        "GRU, two layers, bidirectional": recurrent(
            nn.GRU, width=4, num_layers=2, bidirectional=True
        ),
        "RNNCell": (lambda: nn.RNNCell(8, 8), unrolled, sequence),
        "LSTMCell": (lambda: nn.LSTMCell(8, 8), unrolled, sequence),
        "GRUCell": (lambda: nn.GRUCell(8, 8), unrolled, sequence),
        "LSTM on packed sequences": (lambda: nn.LSTM(8, 8, batch_first=True), packed, sequence),
        "LSTM on packed sequences that torch sorts": (
            lambda: nn.LSTM(8, 8, batch_first=True),
            packed_and_sorted,
            sequence,
        ),
    },
    train,
)


def attended(layer: nn.Module, x: torch.Tensor, **options: Any) -> torch.Tensor:
    return layer(x, x, x, need_weights=False, **options)[0].mean(1)


def weighted(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    output, weights = layer(x, x, x)
    return (weights @ output).mean(1)


def padded(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    mask = torch.arange(6).expand(3, 6) >= torch.tensor([[6], [4], [2]])
    return layer(x, x, x, key_padding_mask=mask, need_weights=False)[0].mean(1)


def fused(backend: SDPBackend | None = None, **options: Any) -> Callable[..., torch.Tensor]:
    def call(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        q, k, v = layer(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        if backend is None:
            output = F.scaled_dot_product_attention(q, k, v, **options)
        else:
            with sdpa_kernel(backend):
                output = F.scaled_dot_product_attention(q, k, v, **options)
        return output.transpose(1, 2).flatten(2).mean(1)

    return call


def grouped(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    heads = layer(x).unflatten(-1, (6, 4)).transpose(1, 2)
    output = F.scaled_dot_product_attention(
        heads[:, :4], heads[:, 4:5], heads[:, 5:], enable_gqa=True
    )
    return output[:, :2].transpose(1, 2).flatten(2).mean(1)


def attention(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.MultiheadAttention(8, 2, batch_first=True, **options)


def encoder(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options), 2
    )


def mean(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).mean(1)


def project() -> nn.Module:
    return nn.Linear(8, 24)


def flexible(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = layer(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
    return flex_attention(q, k, v).transpose(1, 2).flatten(2).mean(1)


CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()

ATTENTION = Group("Attention")
ATTENTION.each(
    {
        "MultiheadAttention": (attention(), attended, sequence),
        "MultiheadAttention with dropout": (attention(dropout=0.2), attended, sequence),
        "MultiheadAttention, weights asked for": (attention(), weighted, sequence),
        "MultiheadAttention, padded keys": (attention(), padded, sequence),
        "MultiheadAttention, bias_k, zero attention": (
            attention(add_bias_kv=True, add_zero_attn=True),
            attended,
            sequence,
        ),
        "scaled_dot_product_attention": (project, fused(), sequence),
        "scaled_dot_product_attention, causal": (project, fused(is_causal=True), sequence),
        "scaled_dot_product_attention, with a mask": (
            project,
            fused(attn_mask=CAUSAL),
            sequence,
        ),
        "scaled_dot_product_attention with dropout": (project, fused(dropout_p=0.2), sequence),
        "scaled_dot_product_attention, flash": (
            project,
            fused(SDPBackend.FLASH_ATTENTION),
            sequence,
        ),
        "scaled_dot_product_attention, math": (project, fused(SDPBackend.MATH), sequence),
        "scaled_dot_product_attention, grouped queries": (project, grouped, sequence),
        "flex_attention": (project, flexible, sequence),
        "TransformerEncoder": (encoder(dropout=0.0), mean, sequence),
        "TransformerEncoder with dropout": (encoder(dropout=0.1), mean, sequence),
        "TransformerEncoder, norm first, gelu": (
            encoder(norm_first=True, activation="gelu"),
            mean,
            sequence,
        ),
        "TransformerDecoder": (
            lambda: nn.TransformerDecoder(
                nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1
            ),
            lambda layer, x: layer(x, x.tanh(), tgt_is_causal=False).mean(1),
            sequence,
        ),
        "Transformer": (
            lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
            lambda layer, x: layer(x, x.flip(1)).mean(1),
            sequence,
        ),
    },
    train,
)


def bag(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.EmbeddingBag(11, 8, **options)


def identity(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x)


def offset(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x.flatten(), torch.tensor([0, 5, 9]))


EMBEDDINGS = Group("Embeddings")
EMBEDDINGS.each(
    {
        "Embedding": (lambda: nn.Embedding(11, 8), mean, tokens),
        "Embedding, padding index": (lambda: nn.Embedding(11, 8, padding_idx=0), mean, tokens),
        "Embedding, scaled by frequency": (
            lambda: nn.Embedding(11, 8, scale_grad_by_freq=True),
            mean,
            tokens,
        ),
        "Embedding, rows kept below a norm": (
            lambda: nn.Embedding(11, 8, max_norm=1.0),
            mean,
            tokens,
        ),
        "Embedding, int32 tokens": (
            lambda: nn.Embedding(11, 8),
            lambda layer, x: layer(x.int()).mean(1),
            tokens,
        ),
        "EmbeddingBag, sum": (bag(mode="sum"), identity, tokens),
        "EmbeddingBag, mean": (bag(mode="mean"), identity, tokens),
        "EmbeddingBag, max": (bag(mode="max"), identity, tokens),
        "EmbeddingBag with offsets": (bag(mode="sum"), offset, tokens),
        "EmbeddingBag with weights": (
            bag(mode="sum"),
            lambda layer, x: layer(x, per_sample_weights=torch.linspace(0, 1, 18).view(3, 6)),
            tokens,
        ),
        "one_hot": (
            lambda: nn.Linear(11, 8),
            lambda layer, x: layer(F.one_hot(x, 11).float()).mean(1),
            tokens,
        ),
    },
    train,
)


def classes() -> torch.Tensor:
    return torch.randint(0, 5, (8,))


def numbers() -> torch.Tensor:
    return torch.randn(8, 5)


def signs() -> torch.Tensor:
    return torch.randint(0, 2, (8,)) * 2.0 - 1


def zeros_and_ones() -> torch.Tensor:
    return torch.randint(0, 2, (8, 5)).float()


def connectionist(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    frames = output.unsqueeze(1).expand(8, 2, 5).log_softmax(2)
    lengths = torch.tensor([8, 6]), torch.tensor([3, 2])
    return F.ctc_loss(frames, 1 + target[:6].remainder(4).view(2, 3), *lengths)


def connectionist_flat(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    frames = output.unsqueeze(1).expand(8, 2, 5).log_softmax(2)
    lengths = torch.tensor([8, 6]), torch.tensor([3, 2])
    return F.ctc_loss(frames, 1 + target[:5].remainder(4), *lengths, zero_infinity=True)


LOSS_CASES: dict[str, tuple[Callable[..., Any], Callable[[], torch.Tensor]]] = {
    "CrossEntropyLoss": (nn.CrossEntropyLoss(), classes),
    "CrossEntropyLoss, label smoothing": (nn.CrossEntropyLoss(label_smoothing=0.1), classes),
    "CrossEntropyLoss, class weights": (nn.CrossEntropyLoss(torch.arange(1.0, 6.0)), classes),
    "CrossEntropyLoss, ignored labels": (nn.CrossEntropyLoss(ignore_index=0), classes),
    "CrossEntropyLoss, soft targets": (
        lambda o, y: F.cross_entropy(o, y.softmax(1)),
        numbers,
    ),
    "NLLLoss": (lambda o, y: F.nll_loss(o.log_softmax(1), y), classes),
    "MSELoss": (nn.MSELoss(), numbers),
    "L1Loss": (nn.L1Loss(), numbers),
    "SmoothL1Loss": (nn.SmoothL1Loss(), numbers),
    "HuberLoss": (nn.HuberLoss(), numbers),
    "BCELoss": (lambda o, y: F.binary_cross_entropy(o.sigmoid(), y), zeros_and_ones),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss(), zeros_and_ones),
    "KLDivLoss": (
        lambda o, y: F.kl_div(o.log_softmax(1), y.softmax(1), reduction="batchmean"),
        numbers,
    ),
    "PoissonNLLLoss": (lambda o, y: F.poisson_nll_loss(o, y.abs()), numbers),
    "GaussianNLLLoss": (lambda o, y: F.gaussian_nll_loss(o, y, o.exp()), numbers),
    "CTCLoss": (connectionist, classes),
    "CTCLoss, targets one behind the other": (connectionist_flat, classes),
    "MarginRankingLoss": (lambda o, y: F.margin_ranking_loss(o[:, 0], o[:, 1], y), signs),
    "HingeEmbeddingLoss": (lambda o, y: F.hinge_embedding_loss(o[:, 0], y), signs),
    "CosineEmbeddingLoss": (lambda o, y: F.cosine_embedding_loss(o, o.tanh().flip(0), y), signs),
    "SoftMarginLoss": (lambda o, y: F.soft_margin_loss(o[:, 0], y), signs),
    "MultiMarginLoss": (nn.MultiMarginLoss(), classes),
    "MultiLabelMarginLoss": (
        lambda o, y: F.multilabel_margin_loss(o, torch.stack([y] + [y * 0 - 1] * 4, 1)),
        classes,
    ),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss(), zeros_and_ones),
    "TripletMarginLoss": (lambda o, y: F.triplet_margin_loss(o, y, y.flip(0)), numbers),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda o, y: nn.AdaptiveLogSoftmaxWithLoss(5, 5, [2, 4])(o, y).loss,
        classes,
    ),
}


def train_loss(trial: Trial, case: tuple) -> None:
    loss_fn, target = case
    batches = [(torch.randn(8, 12), target()) for _ in range(2)]
    trial.train(lambda: nn.Linear(12, 5), batches, loss_fn)


LOSSES = Group("Losses")
LOSSES.each(LOSS_CASES, train_loss)


@EMBEDDINGS("Embedding, sparse gradients")
def sparse_gradients(trial: Trial) -> None:
    trial.train(
        lambda: Body(nn.Embedding(11, 8, sparse=True), mean),
        [tokens(), tokens()],
        make_optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    )


@LOSSES("CTCLoss, lengths as Python numbers")
def connectionist_numbers(trial: Trial) -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        frames = output.unsqueeze(1).expand(8, 2, 5).log_softmax(2)
        labels = 1 + target[:6].remainder(4).view(2, 3)
        return F.ctc_loss(frames, labels, (8, 6), (3, 2))

    batches = [(torch.randn(8, 12), classes()) for _ in range(2)]
    trial.train(lambda: nn.Linear(12, 5), batches, loss_fn)


GROUPS = [RECURRENT, ATTENTION, EMBEDDINGS, LOSSES]
