"""Torchvision's classification networks with 10 classes and random weights, on 64x64 images."""

from __future__ import annotations

from .workload import Workload, cross_entropy, dense_batches, sgd

NAMES = ("resnet18", "vgg11", "densenet121", "mobilenet_v3_small")


def vision(name: str, seed: int, form: str) -> Workload:
    import torchvision.models

    model = torchvision.models.get_model(name, weights=None, num_classes=10)
    batches = dense_batches(seed, (4, 3, 64, 64))
    return Workload(name, model, cross_entropy, sgd(model, form), batches)
