"""Networks of many families, as their libraries make them but tiny: three steps through the engine
leave the bits of eager (losses, parameters, buffers, optimizer state), and so does an inference of
the trained step, against eager's forward pass in evaluation mode.

Hugging Face's models are trained with their own loss: as keywords (`step(**batch)`), or in a
closure that is given the batch as one dictionary.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from laneway.capture.opaque import take_apart
from support.eager import assert_same

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

STEPS = 3
WIDTH, VOCABULARY, TOKENS, BATCH, CLASSES = 32, 50, 12, 4, 5
SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 2 * WIDTH,
}


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def train_eagerly(
    model: nn.Module, optimizer: torch.optim.Optimizer, losses_of: list[Callable[[], Any]]
) -> dict[str, Any]:
    losses = []
    for loss_of in losses_of:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return state_of(losses, model.state_dict(), optimizer.state_dict())


def state_of(losses: list[float], model: Any, optimizer: Any) -> dict[str, Any]:
    return {"losses": losses, "model": dict(model), "optimizer": optimizer}


def assert_same_inference(step: Any, twin: nn.Module, args: tuple, named: dict[str, Any]) -> None:
    """The trained step's own weights, in evaluation mode, give what eager gives."""
    ours = laneway.inference(step)(*args, **named)
    twin.eval()
    with torch.no_grad():
        theirs = twin(*args, **named)
    assert type(ours) is type(theirs)
    # Language models return caches, which pytree does not look into.
    found = [take_apart(result)[1] for result in (theirs, ours)]
    assert found[0]
    assert_same(found[0], found[1], "inference")


# Torchvision.


def vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, num_classes=CLASSES, **options)

    return make


def maxvit() -> nn.Module:
    from torchvision.models.maxvit import MaxVit

    return MaxVit((32, 32), 8, 2, [8, 16], [1, 1], 8, 0.2, num_classes=CLASSES)


def swin() -> nn.Module:
    from torchvision.models.swin_transformer import SwinTransformer

    return SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=CLASSES)


def convnext() -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 1)], 0.3, num_classes=CLASSES)


def vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, WIDTH, 64, dropout=0.1, num_classes=CLASSES)


def densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(8, (2, 2), 8, drop_rate=0.1, num_classes=CLASSES)


VISION: dict[str, tuple[Callable[[], nn.Module], int, Callable]] = {
    "convnext": (convnext, 32, adamw),
    "densenet": (densenet, 32, momentum),
    "googlenet": (vision("googlenet", aux_logits=True, init_weights=False), 32, momentum),
    "maxvit": (maxvit, 32, adamw),
    "mnasnet0_5": (vision("mnasnet0_5"), 32, momentum),
    "mobilenet_v3_small": (vision("mobilenet_v3_small"), 32, momentum),
    "regnet_y_400mf": (vision("regnet_y_400mf"), 32, momentum),
    "shufflenet_v2_x0_5": (vision("shufflenet_v2_x0_5"), 32, adamw),
    "squeezenet1_1": (vision("squeezenet1_1"), 32, adamw),
    "swin": (swin, 32, adamw),
    "vit": (vit, 32, adamw),
}


def vision_loss(output: Any, target: torch.Tensor) -> torch.Tensor:
    """GoogLeNet returns its auxiliary classifiers' results too, as a named tuple."""
    logits = (output,) if isinstance(output, torch.Tensor) else output
    return torch.stack([F.cross_entropy(each, target) for each in logits]).sum()


@pytest.mark.parametrize("name", VISION)
def test_torchvision(name: str) -> None:
    make, side, make_optimizer = VISION[name]
    model = make()
    twin = copy.deepcopy(model)
    batches = [
        (torch.randn(BATCH, 3, side, side), torch.randint(CLASSES, (BATCH,))) for _ in range(STEPS)
    ]
    random = torch.get_rng_state()
    with (
        laneway.embedded("1GiB") as service,
        laneway.train_step(model, vision_loss, make_optimizer(model), service) as step,
    ):
        losses = [step(*batch).item() for batch in batches]
        state = step.state_dict()
        torch.set_rng_state(random)
        expected = train_eagerly(
            twin,
            make_optimizer(twin),
            [lambda x=x, y=y: vision_loss(twin(x), y) for x, y in batches],
        )
        assert_same(expected, state_of(losses, state["model"], state["optimizer"]), name)
        assert_same_inference(step, twin, batches[0][:1], {})


# Hugging Face.


def ids(tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, tokens))


def padded() -> dict[str, torch.Tensor]:
    lengths = torch.randint(TOKENS // 2, TOKENS + 1, (BATCH, 1))
    mask = (torch.arange(TOKENS) < lengths).long()
    return {"input_ids": ids() * mask, "attention_mask": mask}


def classified() -> dict[str, torch.Tensor]:
    return padded() | {"labels": torch.randint(CLASSES, (BATCH,))}


def text() -> dict[str, torch.Tensor]:
    tokens = ids()
    return {"input_ids": tokens, "labels": tokens.clone()}


def padded_text() -> dict[str, torch.Tensor]:
    batch = padded()
    return batch | {"labels": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)}


def pairs() -> dict[str, torch.Tensor]:
    return padded() | {"labels": ids(TOKENS // 2)}


def images() -> dict[str, torch.Tensor]:
    return {
        "pixel_values": torch.randn(BATCH, 3, 32, 32),
        "labels": torch.randint(CLASSES, (BATCH,)),
    }


def sounds() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(BATCH, 16, 40), "labels": ids(6)}


def configured(model: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        made = getattr(transformers, config)(**options)
        return getattr(transformers, model)(made)

    return make


_WORDS = SIZES | {"vocab_size": VOCABULARY}
_LABELLED = _WORDS | {"num_labels": CLASSES}
_GPT2 = {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": WIDTH, "n_layer": 2, "n_head": 4}
_SEQUENCES = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
HUGGING_FACE: dict[str, tuple[Callable[[], nn.Module], Callable[[], dict[str, Any]]]] = {
    "bert": (configured("BertForSequenceClassification", "BertConfig", **_LABELLED), classified),
    # Its decoder is its word embedding.
    "bert_mlm": (configured("BertForMaskedLM", "BertConfig", **_WORDS), padded_text),
    "bert_eager_attention": (
        configured("BertForMaskedLM", "BertConfig", **_WORDS, attn_implementation="eager"),
        padded_text,
    ),
    "gpt2": (configured("GPT2LMHeadModel", "GPT2Config", **_GPT2), text),
    "gpt2_padded": (configured("GPT2LMHeadModel", "GPT2Config", **_GPT2), padded_text),
    "distilbert": (
        configured(
            "DistilBertForSequenceClassification",
            "DistilBertConfig",
            vocab_size=VOCABULARY,
            dim=WIDTH,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            num_labels=CLASSES,
        ),
        classified,
    ),
    # Its positions are counted from the padding.
    "roberta": (
        configured("RobertaForMaskedLM", "RobertaConfig", **_WORDS, pad_token_id=0),
        padded_text,
    ),
    "t5": (
        configured(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
        pairs,
    ),
    "bart": (
        configured(
            "BartForConditionalGeneration",
            "BartConfig",
            **_SEQUENCES,
            max_position_embeddings=32,
        ),
        pairs,
    ),
    "llama": (
        configured("LlamaForCausalLM", "LlamaConfig", **_WORDS, num_key_value_heads=2),
        padded_text,
    ),
    "llama_tied": (
        configured("LlamaForCausalLM", "LlamaConfig", **_WORDS, tie_word_embeddings=True),
        text,
    ),
    # A token goes to the experts that its own values choose.
    "mixtral": (
        configured(
            "MixtralForCausalLM",
            "MixtralConfig",
            **_WORDS,
            num_key_value_heads=2,
            num_local_experts=4,
        ),
        text,
    ),
    "vit": (
        configured(
            "ViTForImageClassification",
            "ViTConfig",
            **SIZES,
            image_size=32,
            patch_size=8,
            num_labels=CLASSES,
            hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.1,
        ),
        images,
    ),
    "whisper": (
        configured(
            "WhisperForConditionalGeneration",
            "WhisperConfig",
            **_SEQUENCES,
            num_mel_bins=16,
            max_source_positions=20,
            max_target_positions=16,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            dropout=0.1,
        ),
        sounds,
    ),
}
WITH_A_CLOSURE = ("bert", "gpt2", "t5")


def own_loss(model: nn.Module, optimizer: torch.optim.Optimizer, batch: dict) -> torch.Tensor:
    """A step as people write it for these models."""
    optimizer.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    return loss


def check_hugging_face(name: str, closure: Callable[..., Any] | None) -> None:
    make, batch = HUGGING_FACE[name]
    model = make()
    twin = copy.deepcopy(model)
    batches = [batch() for _ in range(STEPS)]
    random = torch.get_rng_state()
    with (
        laneway.embedded("256MiB") as service,
        laneway.train_step(model, None, adamw(model), service, closure=closure) as step,
    ):
        if closure is None:
            losses = [step(**batch).item() for batch in batches]
        else:
            losses = [step(batch).item() for batch in batches]
        state = step.state_dict()
        torch.set_rng_state(random)
        expected = train_eagerly(twin, adamw(twin), [lambda b=b: twin(**b).loss for b in batches])
        assert_same(expected, state_of(losses, state["model"], state["optimizer"]), name)
        assert_same_inference(step, twin, (), batches[0])


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face_with_the_loss_of_the_model(name: str) -> None:
    check_hugging_face(name, None)


@pytest.mark.parametrize("name", WITH_A_CLOSURE)
def test_hugging_face_in_a_closure(name: str) -> None:
    check_hugging_face(name, own_loss)
