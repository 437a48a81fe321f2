"""Rows: layers without an order in time: linear, convolutions, normalisations, pooling, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from support.support_table import Group
from support.trial import Trial, adamw

Case = tuple[Callable[[], nn.Module], Callable[[], tuple]]


def dense() -> tuple:
    return torch.randn(8, 12), torch.randint(0, 5, (8,))


def line() -> tuple:
    return torch.randn(4, 4, 10), torch.randint(0, 5, (4,))


def image() -> tuple:
    return torch.randn(4, 4, 8, 8), torch.randint(0, 5, (4,))


def volume() -> tuple:
    return torch.randn(2, 4, 6, 6, 6), torch.randint(0, 5, (2,))


def channels_last() -> tuple:
    x, y = image()
    return x.to(memory_format=torch.channels_last), y


def between(layer: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The layer between two linear ones, on rows of 12."""
    return lambda: nn.Sequential(nn.Linear(12, 12), layer(), nn.Linear(12, 5))


def pooled(*layers: Callable[[], nn.Module], width: int = 4) -> Callable[[], nn.Module]:
    """Layers on maps of 4 channels, and a linear one on the mean of each."""

    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(2).mean(2)

    return lambda: nn.Sequential(*(make() for make in layers), Mean(), nn.Linear(width, 5))


def activation(name: str) -> nn.Module:
    return getattr(nn, name)(**({"dim": 1} if name in OVER_CLASSES else {}))


def train(trial: Trial, case: Case) -> None:
    make, batch = case
    trial.train(make, [batch(), batch()], make_optimizer=adamw)


LINEAR = Group("Linear layers, activations, dropout")
LINEAR.each(
    {
        "Linear": (lambda: nn.Linear(12, 5), dense),
        "Linear without bias": (lambda: nn.Linear(12, 5, bias=False), dense),
        "Bilinear": (lambda: _Twice(nn.Bilinear(12, 12, 5)), dense),
        "LazyLinear, after one eager call": (lambda: _materialised(), dense),
        "Identity, Flatten, Unflatten": (
            lambda: nn.Sequential(
                nn.Identity(), nn.Unflatten(1, (3, 4)), nn.Flatten(), nn.Linear(12, 5)
            ),
            dense,
        ),
        "ModuleList, ModuleDict, ParameterList": (lambda: _Containers(), dense),
        "float64 model": (lambda: _Wide(), dense),
        "bfloat16 model": (
            lambda: nn.Sequential(_Cast(torch.bfloat16), nn.Linear(12, 5)).bfloat16(),
            dense,
        ),
        "float16 model": (
            lambda: nn.Sequential(_Cast(torch.float16), nn.Linear(12, 5)).half(),
            dense,
        ),
    },
    train,
)
ACTIVATIONS = (
    "ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh LogSigmoid "
    "Softplus Softshrink Hardshrink Tanhshrink Hardtanh Hardsigmoid Hardswish Softsign Softmin "
    "Softmax LogSoftmax"
)
OVER_CLASSES = ("Softmin", "Softmax", "LogSoftmax")
LINEAR.each(
    {name: name for name in ACTIVATIONS.split()},
    lambda trial, name: train(trial, (between(lambda: activation(name)), dense)),
)
LINEAR.each(
    {
        "GLU": (lambda: nn.Sequential(nn.Linear(12, 24), nn.GLU(), nn.Linear(12, 5)), dense),
        "Threshold, ReLU in place": (
            between(lambda: nn.Sequential(nn.Threshold(0.1, 0.0), nn.ReLU(inplace=True))),
            dense,
        ),
        "GELU, tanh form": (between(lambda: nn.GELU("tanh")), dense),
        "Dropout": (between(lambda: nn.Dropout(0.3)), dense),
        "Dropout in place": (between(lambda: nn.Dropout(0.3, inplace=True)), dense),
        "AlphaDropout": (between(lambda: nn.AlphaDropout(0.3)), dense),
        "FeatureAlphaDropout": (pooled(lambda: nn.FeatureAlphaDropout(0.3)), image),
        "Dropout1d": (pooled(lambda: nn.Dropout1d(0.3)), line),
        "Dropout2d": (pooled(lambda: nn.Dropout2d(0.3)), image),
        "Dropout3d": (pooled(lambda: nn.Dropout3d(0.3)), volume),
    },
    train,
)

CONVOLUTIONS = Group("Convolutions")
CONVOLUTIONS.each(
    {
        "Conv1d": (pooled(lambda: nn.Conv1d(4, 4, 3)), line),
        "Conv2d": (pooled(lambda: nn.Conv2d(4, 4, 3)), image),
        "Conv3d": (pooled(lambda: nn.Conv3d(4, 4, 3)), volume),
        "Conv2d, strided, padded, dilated": (
            pooled(lambda: nn.Conv2d(4, 4, 3, stride=2, padding=2, dilation=2)),
            image,
        ),
        "Conv2d, grouped": (pooled(lambda: nn.Conv2d(4, 8, 3, groups=2), width=8), image),
        "Conv2d, depthwise": (pooled(lambda: nn.Conv2d(4, 4, 3, groups=4)), image),
        "Conv2d, 1×1 without bias": (pooled(lambda: nn.Conv2d(4, 4, 1, bias=False)), image),
        "Conv2d, padding same": (pooled(lambda: nn.Conv2d(4, 4, 3, padding="same")), image),
        "Conv2d, reflected borders": (
            pooled(lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")),
            image,
        ),
        "Conv2d, circular borders": (
            pooled(lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")),
            image,
        ),
        "Conv2d, channels last": (
            lambda: pooled(lambda: nn.Conv2d(4, 4, 3))().to(memory_format=torch.channels_last),
            channels_last,
        ),
        "Conv2d, bfloat16": (
            lambda: nn.Sequential(
                _Cast(torch.bfloat16), pooled(lambda: nn.Conv2d(4, 4, 3))()
            ).bfloat16(),
            image,
        ),
        "ConvTranspose1d": (pooled(lambda: nn.ConvTranspose1d(4, 4, 3)), line),
        "ConvTranspose2d": (pooled(lambda: nn.ConvTranspose2d(4, 4, 3, stride=2)), image),
        "ConvTranspose3d": (pooled(lambda: nn.ConvTranspose3d(4, 4, 3)), volume),
        "Fold, Unfold": (
            pooled(lambda: nn.Sequential(nn.Unfold(2, stride=2), nn.Fold((8, 8), 2, stride=2))),
            image,
        ),
    },
    lambda trial, case: train(trial, (_begun(case), case[1])),
)

NORMALISATIONS = Group("Normalisations")
NORMALISATIONS.each(
    {
        "BatchNorm1d": (between(lambda: nn.BatchNorm1d(12)), dense),
        "BatchNorm1d, no statistics": (
            between(lambda: nn.BatchNorm1d(12, track_running_stats=False)),
            dense,
        ),
        "BatchNorm1d, not affine": (between(lambda: nn.BatchNorm1d(12, affine=False)), dense),
        "BatchNorm1d, cumulative (momentum None)": (
            between(lambda: nn.BatchNorm1d(12, momentum=None)),
            dense,
        ),
        "BatchNorm1d, in evaluation mode while training": (
            between(lambda: _Frozen(nn.BatchNorm1d(12))),
            dense,
        ),
        "BatchNorm2d": (pooled(lambda: nn.Conv2d(4, 4, 1), lambda: nn.BatchNorm2d(4)), image),
        "BatchNorm2d, channels last": (
            pooled(lambda: nn.Conv2d(4, 4, 1), lambda: nn.BatchNorm2d(4)),
            channels_last,
        ),
        "BatchNorm3d": (pooled(lambda: nn.Conv3d(4, 4, 1), lambda: nn.BatchNorm3d(4)), volume),
        "SyncBatchNorm": (pooled(lambda: nn.SyncBatchNorm(4)), image),
        "LayerNorm": (between(lambda: nn.LayerNorm(12)), dense),
        "LayerNorm, not affine": (
            between(lambda: nn.LayerNorm(12, elementwise_affine=False)),
            dense,
        ),
        "RMSNorm": (between(lambda: nn.RMSNorm(12)), dense),
        "GroupNorm": (pooled(lambda: nn.GroupNorm(2, 4)), image),
        "InstanceNorm1d": (pooled(lambda: nn.InstanceNorm1d(4, affine=True)), line),
        "InstanceNorm2d, with statistics": (
            pooled(lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True)),
            image,
        ),
        "InstanceNorm3d": (pooled(lambda: nn.InstanceNorm3d(4, affine=True)), volume),
        "LocalResponseNorm": (
            pooled(lambda: nn.Conv2d(4, 4, 1), lambda: nn.LocalResponseNorm(2)),
            image,
        ),
        "CrossMapLRN2d": (
            pooled(lambda: nn.Conv2d(4, 4, 1), lambda: nn.CrossMapLRN2d(2)),
            image,
        ),
    },
    train,
)

POOLING = Group("Pooling, padding, resampling")


def shaped(make: Callable[[], nn.Module], kind: type, batch: Callable[[], tuple]) -> Case:
    return pooled(lambda: kind(4, 4, 1), make), batch


POOLING.each(
    {
        "MaxPool1d": shaped(lambda: nn.MaxPool1d(2), nn.Conv1d, line),
        "MaxPool2d": shaped(lambda: nn.MaxPool2d(2), nn.Conv2d, image),
        "MaxPool3d": shaped(lambda: nn.MaxPool3d(2), nn.Conv3d, volume),
        "MaxPool2d with MaxUnpool2d": shaped(lambda: _Unpooled(), nn.Conv2d, image),
        "AvgPool1d": shaped(lambda: nn.AvgPool1d(2), nn.Conv1d, line),
        "AvgPool2d": shaped(lambda: nn.AvgPool2d(2, padding=1), nn.Conv2d, image),
        "AvgPool3d": shaped(lambda: nn.AvgPool3d(2), nn.Conv3d, volume),
        "FractionalMaxPool2d": shaped(
            lambda: nn.FractionalMaxPool2d(2, output_size=3), nn.Conv2d, image
        ),
        "LPPool2d": shaped(lambda: nn.LPPool2d(2, 2), nn.Conv2d, image),
        "AdaptiveAvgPool1d": shaped(lambda: nn.AdaptiveAvgPool1d(3), nn.Conv1d, line),
        "AdaptiveAvgPool2d": shaped(lambda: nn.AdaptiveAvgPool2d(3), nn.Conv2d, image),
        "AdaptiveAvgPool3d": shaped(lambda: nn.AdaptiveAvgPool3d(2), nn.Conv3d, volume),
        "AdaptiveMaxPool2d": shaped(lambda: nn.AdaptiveMaxPool2d(3), nn.Conv2d, image),
        "ConstantPad, ZeroPad": shaped(
            lambda: nn.Sequential(nn.ConstantPad2d(1, 0.5), nn.ZeroPad2d(1)), nn.Conv2d, image
        ),
        "ReflectionPad2d": shaped(lambda: nn.ReflectionPad2d(2), nn.Conv2d, image),
        "ReplicationPad2d": shaped(lambda: nn.ReplicationPad2d(2), nn.Conv2d, image),
        "CircularPad2d": shaped(lambda: nn.CircularPad2d(2), nn.Conv2d, image),
        "PixelShuffle, PixelUnshuffle": shaped(
            lambda: nn.Sequential(nn.PixelUnshuffle(2), nn.PixelShuffle(2)), nn.Conv2d, image
        ),
        "ChannelShuffle": shaped(lambda: nn.ChannelShuffle(2), nn.Conv2d, image),
        "Upsample nearest": shaped(lambda: nn.Upsample(scale_factor=2), nn.Conv2d, image),
        "Upsample bilinear": shaped(
            lambda: nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d, image
        ),
        "Upsample bicubic": shaped(
            lambda: nn.Upsample(scale_factor=2, mode="bicubic"), nn.Conv2d, image
        ),
        "Upsample trilinear": shaped(
            lambda: nn.Upsample(scale_factor=2, mode="trilinear"), nn.Conv3d, volume
        ),
        "grid_sample, affine_grid": shaped(lambda: _Moved(), nn.Conv2d, image),
    },
    train,
)


class _Twice(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x, x.tanh())


class _Containers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(2))
        self.heads = nn.ModuleDict({"a": nn.Linear(12, 5), "b": nn.Linear(12, 5)})
        self.scales = nn.ParameterList([torch.ones(5), torch.ones(5) / 2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return self.heads["a"](x) * self.scales[0] + self.heads["b"](x) * self.scales[1]


class _Cast(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype)


class _Wide(nn.Linear):
    def __init__(self) -> None:
        super().__init__(12, 5, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.double())


class _Frozen(nn.Module):
    """A normalisation that stays in evaluation mode, as in fine-tuning."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def train(self, mode: bool = True) -> _Frozen:
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class _Unpooled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, indices = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values, indices, 2)


class _Moved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.tensor([[1.0, 0.1, 0.0], [-0.1, 1.0, 0.2]]).expand(len(x), 2, 3)
        return F.grid_sample(
            x, F.affine_grid(angle, x.shape, align_corners=False), align_corners=False
        )


def _materialised() -> nn.Module:
    model = nn.LazyLinear(5)
    model(torch.ones(1, 12))
    return model


def _begun(case: Case) -> Callable[[], nn.Module]:
    """Convolutions after an activation of the input, so that their input needs a gradient too."""
    make, _ = case

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.body = make()

        def forward(self, x: torch.Tensor) -> Any:
            return self.body(x * self.scale.to(x.dtype))

    return Scaled


GROUPS = [LINEAR, CONVOLUTIONS, NORMALISATIONS, POOLING]
