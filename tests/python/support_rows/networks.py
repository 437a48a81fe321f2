"""Rows: whole networks of torchvision and Hugging Face, as their libraries make them but tiny."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from support.networks import HUGGING_FACE, VISION, vision_loss
from support.support_table import Group
from support.trial import Trial, adamw, sgd

CLASSES = 5


def pictures(side: int = 32, count: int = 2) -> tuple:
    return torch.randn(count, 3, side, side), torch.randint(0, CLASSES, (count,))


def clip() -> tuple:
    return torch.randn(2, 3, 4, 16, 16), torch.randint(0, CLASSES, (2,))


def of_torchvision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, **{"num_classes": CLASSES} | options)

    return make


def resnet(block: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision.models import resnet as library

        return library.ResNet(getattr(library, block), [1, 1, 1, 1], num_classes=CLASSES, **options)

    return make


def vgg() -> nn.Module:
    from torchvision.models import vgg as library

    features = library.make_layers([8, "M", 8, "M", 8, "M"], batch_norm=True)
    model = library.VGG(features, num_classes=CLASSES, init_weights=False)
    model.avgpool = nn.AdaptiveAvgPool2d(1)
    model.classifier = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 5))
    return model


def swin(version: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision.models import swin_transformer as library

        block = library.SwinTransformerBlock
        merge = library.PatchMerging
        if version == "v2":
            block, merge = library.SwinTransformerBlockV2, library.PatchMergingV2
        return library.SwinTransformer(
            [4, 4], 8, [1, 1], [2, 2], [4, 4],
            num_classes=CLASSES, block=block, downsample_layer=merge,
        )  # fmt: skip

    return make


def efficientnet(version: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision.models import efficientnet as library

        if version == 1:
            settings = [library.MBConvConfig(4, 3, 2, 8, 16, 2, 1.0, 1.0)]
        else:
            settings = [library.FusedMBConvConfig(4, 3, 2, 8, 16, 2)]
        return library.EfficientNet(settings, dropout=0.2, num_classes=CLASSES, last_channel=32)

    return make


def segmentation(head: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision.models import _utils
        from torchvision.models import resnet as residual
        from torchvision.models.segmentation import deeplabv3, fcn

        body = residual.ResNet(residual.BasicBlock, [1, 1, 1, 1])
        backbone = _utils.IntermediateLayerGetter(body, {"layer4": "out"})
        if head == "fcn":
            return fcn.FCN(backbone, fcn.FCNHead(512, CLASSES))
        return deeplabv3.DeepLabV3(backbone, deeplabv3.DeepLabHead(512, CLASSES, (1, 2)))

    return make


def pixels() -> tuple:
    return torch.randn(2, 3, 32, 32), torch.randint(0, CLASSES, (2, 32, 32))


def of_pixels(output: dict[str, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output["out"], target)


def video() -> nn.Module:
    from torchvision.models.video import resnet as library

    return library.VideoResNet(
        library.BasicBlock,
        [library.Conv3DSimple] * 4,
        [1, 1, 1, 1],
        library.BasicStem,
        num_classes=CLASSES,
    )


NOTE = "Small forms, two steps each; `./dev bench coverage` trains the full ones."
TORCHVISION = Group("torchvision's families", NOTE)
WAYS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple], Callable[..., Any]]] = {
    "AlexNet": (of_torchvision("alexnet"), lambda: pictures(64), vision_loss),
    "ConvNeXt": (VISION["convnext"], pictures, vision_loss),
    "DenseNet": (VISION["densenet"], pictures, vision_loss),
    "EfficientNet": (efficientnet(1), pictures, vision_loss),
    "EfficientNetV2": (efficientnet(2), pictures, vision_loss),
    "GoogLeNet, auxiliary classifiers": (VISION["googlenet"], pictures, vision_loss),
    "MaxViT": (VISION["maxvit"], pictures, vision_loss),
    "MNASNet": (VISION["mnasnet0_5"], pictures, vision_loss),
    "MobileNetV2": (of_torchvision("mobilenet_v2", width_mult=0.25), pictures, vision_loss),
    "MobileNetV3": (VISION["mobilenet_v3_small"], pictures, vision_loss),
    "RegNet": (VISION["regnet_y_400mf"], pictures, vision_loss),
    "ResNet, basic blocks": (resnet("BasicBlock"), pictures, vision_loss),
    "ResNet, bottlenecks (ResNeXt, wide)": (
        resnet("Bottleneck", groups=4, width_per_group=4),
        pictures,
        vision_loss,
    ),
    "ShuffleNetV2": (VISION["shufflenet_v2_x0_5"], pictures, vision_loss),
    "SqueezeNet": (VISION["squeezenet1_1"], pictures, vision_loss),
    "Swin": (swin("v1"), pictures, vision_loss),
    "Swin V2": (swin("v2"), pictures, vision_loss),
    "VGG with batch normalisation": (vgg, pictures, vision_loss),
    "Vision Transformer": (VISION["vit"], pictures, vision_loss),
    "FCN (segmentation)": (segmentation("fcn"), pixels, of_pixels),
    "DeepLabV3 (segmentation)": (segmentation("deeplab"), pixels, of_pixels),
    "R3D (video)": (video, clip, vision_loss),
}


def train(trial: Trial, way: tuple) -> None:
    make, batch, loss_fn = way
    trial.train(make, [batch(), batch()], loss_fn, sgd, evaluates=True)


TORCHVISION.each(WAYS, train)


def detector() -> nn.Module:
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=8), nn.ReLU())
    body.out_channels = 8
    return FasterRCNN(
        body,
        min_size=32,
        max_size=32,
        rpn_anchor_generator=AnchorGenerator(((8, 16),), ((1.0,),)),
        box_roi_pool=None,
        rpn_pre_nms_top_n_train=20,
        rpn_post_nms_top_n_train=10,
        box_detections_per_img=5,
        box_head=nn.Sequential(nn.Flatten(), nn.Linear(8 * 49, 16)),
        box_predictor=_Boxes(),
    )


class _Boxes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores, self.boxes = nn.Linear(16, CLASSES), nn.Linear(16, 4 * CLASSES)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.scores(x), self.boxes(x)


@TORCHVISION("Faster R-CNN (detection)")
def detection(trial: Trial) -> None:
    target = {"boxes": torch.tensor([[2.0, 2.0, 20.0, 20.0]]), "labels": torch.tensor([1])}

    def closure(model: Any, optimizer: Any, image: torch.Tensor, target: dict) -> Any:
        optimizer.zero_grad()
        loss = sum(model([image], [target]).values())
        loss.backward()
        optimizer.step()
        return loss

    trial.train(detector, [(torch.rand(3, 32, 32), target)] * 2, None, sgd, closure)


HUGGING = Group(
    "Hugging Face's families",
    "Trained with the model's own loss, `step(**batch)`; random networks of two layers.",
)
TITLES = {
    "bert": "BERT, classification",
    "bert_mlm": "BERT, masked words, tied decoder",
    "bert_eager_attention": "BERT, eager attention",
    "gpt2": "GPT-2",
    "gpt2_padded": "GPT-2, padded",
    "distilbert": "DistilBERT",
    "roberta": "RoBERTa",
    "t5": "T5",
    "bart": "BART",
    "llama": "Llama, grouped queries",
    "llama_tied": "Llama, tied words",
    "mixtral": "Mixtral, experts",
    "vit": "ViT",
    "whisper": "Whisper",
}


def train_text(trial: Trial, name: str) -> None:
    make, batch = HUGGING_FACE[name]
    trial.train(make, [batch(), batch()], None, adamw, evaluates=True)


HUGGING.each({TITLES.get(name, name): name for name in HUGGING_FACE}, train_text)

GROUPS = [TORCHVISION, HUGGING]
