"""A small classifier of texts from transformers, for tests of trainers."""

import torch
import transformers


def classifier() -> torch.nn.Module:
    """The same weights in each call. Dropout 0.1 is the default of its configuration."""
    transformers.set_seed(1)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=3,
    )
    return transformers.BertForSequenceClassification(config)
