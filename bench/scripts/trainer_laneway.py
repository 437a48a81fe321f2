"""transformers.Trainer: a tiny BERT with dropout, accumulation 2, clipping, evaluation and a
checkpoint each epoch."""

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    TrainerCallback,
    TrainingArguments,
)

from laneway.integrations.transformers import LanewayTrainer as Trainer


class Sentences(Dataset):
    def __init__(self, count):
        self.ids = torch.randint(100, (count, 16))
        self.labels = torch.randint(2, (count,))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


class Log(TrainerCallback):
    def __init__(self, record):
        self.record = record

    def on_epoch_begin(self, args, state, control, **kwargs):
        self.record.epoch()

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            self.record.loss(logs["loss"])
            self.record.metric((logs["grad_norm"], logs["learning_rate"]))

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        self.record.metric(metrics["eval_loss"])


def main(record):
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        output_dir=str(record.folder),
        num_train_epochs=record.epochs,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Sentences(8 * record.batches),
        eval_dataset=Sentences(16),
        callbacks=[Log(record)],
    )
    trainer.train()
    record.end([model], [trainer.optimizer])
