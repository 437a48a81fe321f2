"""Families of transformers that no row of the support table has: a small random network of each is
trained for three steps, dropout and all, and has eager's bits. No step is refused."""

import pytest
import torch

from support.both import check_equal

transformers = pytest.importorskip("transformers")

WORDS = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SEVERAL = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": 2,
}
PICTURES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 16,
    "patch_size": 8,
}
KEYS = {"num_key_value_heads": 1}

# By the family: the model's class, its configuration's, the options of that, and the batch.
FAMILIES = {
    "ALBERT": ("AlbertForMaskedLM", "AlbertConfig", {**WORDS, "embedding_size": 8}, "words"),
    "BLOOM": (
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": 60, "hidden_size": 16, "n_layer": 2, "n_head": 2},
        "words",
    ),
    "DeBERTa": ("DebertaV2ForMaskedLM", "DebertaV2Config", WORDS, "words"),
    "DeiT": ("DeiTForImageClassification", "DeiTConfig", PICTURES, "pictures"),
    "ELECTRA": ("ElectraForMaskedLM", "ElectraConfig", {**WORDS, "embedding_size": 8}, "words"),
    "Falcon": ("FalconForCausalLM", "FalconConfig", WORDS, "words"),
    "FNet": ("FNetForMaskedLM", "FNetConfig", WORDS, "words"),
    "Gemma": ("GemmaForCausalLM", "GemmaConfig", {**WORDS, **KEYS, "head_dim": 8}, "words"),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", WORDS, "words"),
    "mBART": ("MBartForConditionalGeneration", "MBartConfig", SEVERAL, "words"),
    "Mistral": ("MistralForCausalLM", "MistralConfig", {**WORDS, **KEYS}, "words"),
    "ModernBERT": (
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        {**WORDS, "cls_token_id": 1, "sep_token_id": 2, "reference_compile": False},
        "words",
    ),
    "OPT": (
        "OPTForCausalLM",
        "OPTConfig",
        {**WORDS, "ffn_dim": 24, "word_embed_proj_dim": 16},
        "words",
    ),
    "Pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", SEVERAL, "words"),
    "Phi": ("PhiForCausalLM", "PhiConfig", WORDS, "words"),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**WORDS, **KEYS}, "words"),
    "RoFormer": ("RoFormerForMaskedLM", "RoFormerConfig", WORDS, "words"),
    "SegFormer": (
        "SegformerForImageClassification",
        "SegformerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [8, 16],
            "patch_sizes": [3, 3],
            "strides": [2, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        "pictures",
    ),
    "XLM-RoBERTa": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", WORDS, "words"),
}


def _batches(kind):
    for _ in range(3):
        if kind == "pictures":
            yield {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
        else:
            words = torch.randint(3, 60, (2, 12))
            mask = torch.ones_like(words)
            mask[0, 9:] = 0
            yield {"input_ids": words, "attention_mask": mask, "labels": words}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_trains(family, service):
    model_class, config_class, options, kind = FAMILIES[family]

    def job(lane):
        config = getattr(transformers, config_class)(**options)
        model = getattr(transformers, model_class)(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

        @lane.step(model, optimizer)
        def train(**batch):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        return [train(**batch) for batch in _batches(kind)], model, optimizer

    check_equal(job, service)
