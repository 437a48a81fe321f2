"""One classification network of each of torchvision's families, with 10 classes and random weights.

Options are torchvision's defaults, dropout and stochastic depth included; images are about as small
as the network allows. Where the published size is too much for that (maxvit, vit), the network is a
smaller one of the same class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .workload import Workload, adamw, cross_entropy, dense_batches, sgd

BATCH = 4
AUXILIARY_WEIGHT = 0.3  # of the classifiers half way up, as GoogLeNet was published


@dataclass(frozen=True)
class Family:
    """How to make one: `image` is its side in pixels; `make` where torchvision's own function for
    the name does not give the network that is wanted."""

    image: int
    optimizer: Callable[[nn.Module, str], torch.optim.Optimizer] = adamw
    options: dict[str, Any] = field(default_factory=dict)
    make: Callable[[], nn.Module] | None = None


def _maxvit() -> nn.Module:
    from torchvision.models.maxvit import MaxVit

    return MaxVit(
        input_size=(64, 64),
        stem_channels=32,
        partition_size=2,
        block_channels=[32, 64, 128, 256],
        block_layers=[2, 2, 5, 2],
        head_dim=32,
        stochastic_depth_prob=0.2,
        num_classes=10,
    )


def _vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(
        image_size=64,
        patch_size=16,
        num_layers=6,
        num_heads=6,
        hidden_dim=384,
        mlp_dim=1536,
        dropout=0.1,
        num_classes=10,
    )


_FAMILIES = {
    "alexnet": Family(64, sgd),
    "convnext_tiny": Family(32),
    "efficientnet_b0": Family(32),
    "googlenet": Family(64, sgd, {"aux_logits": True, "init_weights": False}),
    "inception_v3": Family(96, sgd, {"aux_logits": False, "init_weights": False}),
    "maxvit": Family(64, make=_maxvit),
    "mnasnet0_5": Family(32, sgd),
    "mobilenet_v2": Family(32, sgd),
    "regnet_y_400mf": Family(32, sgd),
    "resnext50_32x4d": Family(32, sgd),
    "shufflenet_v2_x0_5": Family(32, sgd),
    "squeezenet1_0": Family(64, sgd),
    "swin_t": Family(32),
    "vit": Family(64, make=_vit),
}
NAMES = tuple(_FAMILIES)


def family(name: str, seed: int, form: str) -> Workload:
    import torchvision.models

    made = _FAMILIES[name]
    if made.make is not None:
        model = made.make()
    else:
        model = torchvision.models.get_model(name, weights=None, num_classes=10, **made.options)
    batches = dense_batches(seed, (BATCH, 3, made.image, made.image))
    return Workload(name, model, _loss, made.optimizer(model, form), batches)


def _loss(output: torch.Tensor | tuple, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy; of a network with auxiliary classifiers, theirs as well."""
    if isinstance(output, torch.Tensor):
        return cross_entropy(output, target)
    main, *auxiliary = (cross_entropy(logits, target) for logits in output)
    return main + AUXILIARY_WEIGHT * sum(auxiliary)
