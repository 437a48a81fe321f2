"""Transformers as Hugging Face's library has them, small, with random weights: made from
configurations, so that nothing is fetched.

Structure and dropout are the library's defaults: tied embeddings, caches, masks made from the
attention mask, rotary positions. Batches are dictionaries, and the loss is the model's own:
`model(**batch).loss`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from .workload import Workload, adamw, generator

WIDTH, LAYERS, HEADS, VOCABULARY, TOKENS, BATCH, CLASSES = 192, 4, 6, 1000, 64, 4, 10
_PADDING = 0
_SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
}
Batch = dict[str, torch.Tensor]


def hugging_face(name: str, seed: int, form: str) -> Workload:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    make, fill = _MAKERS[name]
    model = make()

    def batch(i: int) -> Batch:
        return fill(generator(seed, i))

    return Workload(name, model, None, adamw(model, form), batch)


def _bert() -> torch.nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=VOCABULARY, num_labels=CLASSES, **_SIZES)
    return BertForSequenceClassification(config)


def _roberta() -> torch.nn.Module:
    from transformers import RobertaConfig, RobertaForMaskedLM

    return RobertaForMaskedLM(RobertaConfig(vocab_size=VOCABULARY, pad_token_id=_PADDING, **_SIZES))


def _gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY, n_positions=TOKENS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS
        )
    )


def _llama() -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, pad_token_id=0, **_SIZES)
    return LlamaForCausalLM(config)


def _t5() -> torch.nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=4 * WIDTH,
        num_layers=LAYERS // 2,
        num_heads=HEADS,
        decoder_start_token_id=_PADDING,
    )
    return T5ForConditionalGeneration(config)


def _whisper() -> torch.nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=20,
        d_model=WIDTH,
        encoder_layers=LAYERS // 2,
        decoder_layers=LAYERS // 2,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH,
        max_source_positions=TOKENS,
        max_target_positions=TOKENS,
        dropout=0.1,
        pad_token_id=_PADDING,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return WhisperForConditionalGeneration(config)


def _vit() -> torch.nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=64,
        patch_size=8,
        num_labels=CLASSES,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        **_SIZES,
    )
    return ViTForImageClassification(config)


def _ids(g: torch.Generator, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, tokens), generator=g)


def _padded(g: torch.Generator) -> Batch:
    """Sentences of different lengths, padded at the end."""
    ids = _ids(g)
    lengths = torch.randint(TOKENS // 2, TOKENS + 1, (BATCH, 1), generator=g)
    mask = (torch.arange(TOKENS) < lengths).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def _classes(g: torch.Generator) -> torch.Tensor:
    return torch.randint(CLASSES, (BATCH,), generator=g)


def _sentences(g: torch.Generator) -> Batch:
    return _padded(g) | {"labels": _classes(g)}


def _text(g: torch.Generator) -> Batch:
    ids = _ids(g)
    return {"input_ids": ids, "labels": ids.clone()}


def _padded_text(g: torch.Generator) -> Batch:
    """A language model's: what is padding does not count in the loss."""
    batch = _padded(g)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return batch | {"labels": labels}


def _pairs(g: torch.Generator) -> Batch:
    return _padded(g) | {"labels": _ids(g, TOKENS // 2)}


def _sounds(g: torch.Generator) -> Batch:
    features = torch.randn(BATCH, 20, 2 * TOKENS, generator=g)
    return {"input_features": features, "labels": _ids(g, TOKENS // 2)}


def _images(g: torch.Generator) -> Batch:
    return {"pixel_values": torch.randn(BATCH, 3, 64, 64, generator=g), "labels": _classes(g)}


# name -> (the model, what a batch is filled with)
_MAKERS: dict[str, tuple[Callable[[], Any], Callable[[torch.Generator], Batch]]] = {
    "hf_bert": (_bert, _sentences),
    "hf_roberta": (_roberta, _padded_text),
    "hf_gpt2": (_gpt2, _text),
    "hf_llama": (_llama, _padded_text),
    "hf_t5": (_t5, _pairs),
    "hf_whisper": (_whisper, _sounds),
    "hf_vit": (_vit, _images),
}
NAMES = tuple(_MAKERS)
