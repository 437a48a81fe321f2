"""Networks of torchvision and Hugging Face, as their libraries make them but tiny, with batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers

WIDTH, VOCABULARY, TOKENS, BATCH, CLASSES = 32, 50, 12, 4, 5
SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 2 * WIDTH,
}


# Torchvision.


def vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None, num_classes=CLASSES, **options)

    return make


def maxvit() -> nn.Module:
    from torchvision.models.maxvit import MaxVit

    return MaxVit((32, 32), 8, 2, [8, 16], [1, 1], 8, 0.2, num_classes=CLASSES)


def convnext() -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, None, 1)], 0.3, num_classes=CLASSES)


def vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, WIDTH, 64, dropout=0.1, num_classes=CLASSES)


def densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(8, (2, 2), 8, drop_rate=0.1, num_classes=CLASSES)


VISION: dict[str, Callable[[], nn.Module]] = {
    "convnext": convnext,
    "densenet": densenet,
    "googlenet": vision("googlenet", aux_logits=True, init_weights=False),
    "maxvit": maxvit,
    "mnasnet0_5": vision("mnasnet0_5"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "regnet_y_400mf": vision("regnet_y_400mf"),
    "shufflenet_v2_x0_5": vision("shufflenet_v2_x0_5"),
    "squeezenet1_1": vision("squeezenet1_1"),
    "vit": vit,
}


def vision_loss(output: Any, target: torch.Tensor) -> torch.Tensor:
    """GoogLeNet returns its auxiliary classifiers' results too, as a named tuple."""
    logits = (output,) if isinstance(output, torch.Tensor) else output
    return torch.stack([F.cross_entropy(each, target) for each in logits]).sum()


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
