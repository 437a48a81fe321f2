"""Lightning: a classifier with dropout, clipping, a scheduler and validation."""

import lightning
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from laneway.integrations.lightning import LanewayTrainer as Trainer


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]


class Log(lightning.Callback):
    def __init__(self, record):
        self.record = record

    def on_train_epoch_start(self, trainer, module):
        self.record.epoch()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.record.loss(outputs["loss"])

    def on_validation_end(self, trainer, module):
        self.record.metric(trainer.callback_metrics["val_loss"].item())


def points(count):
    return TensorDataset(torch.randn(count, 64), torch.randint(10, (count,)))


def main(record):
    torch.manual_seed(1)
    train_loader = DataLoader(points(32 * record.batches), batch_size=32, shuffle=True)
    val_loader = DataLoader(points(64), batch_size=32)
    model = Classifier()
    trainer = Trainer(
        max_epochs=record.epochs,
        accelerator="cpu",
        gradient_clip_val=0.5,
        default_root_dir=record.folder,
        callbacks=[Log(record)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, train_loader, val_loader)
    record.end([model], trainer.optimizers)
