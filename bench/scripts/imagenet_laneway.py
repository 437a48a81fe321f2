"""resnet18: SGD with momentum, the accuracy of each batch, validation, checkpoints, StepLR."""

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from torchvision import models

import laneway


def images(count):
    return TensorDataset(torch.randn(count, 3, 64, 64), torch.randint(10, (count,)))


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1))
        return [correct[:k].float().sum().item() * 100 / len(target) for k in topk]


def main(record):
    torch.manual_seed(1)
    train_loader = DataLoader(images(4 * record.batches), batch_size=4, shuffle=True)
    val_loader = DataLoader(images(8), batch_size=4)
    model = models.resnet18(num_classes=10)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.1)
    step = laneway.train_step(model, lambda out, y: (criterion(out, y), out), optimizer)

    def train():
        model.train()
        for images, target in train_loader:
            loss, output = step(images, target)
            record.metric(accuracy(output, target, topk=(1, 5)))
            record.loss(loss)

    def validate():
        model.eval()
        with torch.no_grad():
            for images, target in val_loader:
                output = model(images)
                record.metric(accuracy(output, target, topk=(1, 5)))
                record.metric(criterion(output, target).item())

    for epoch in range(record.epochs):
        record.epoch()
        train()
        validate()
        scheduler.step()
        checkpoint = {
            "epoch": epoch + 1,
            "state_dict": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
        }
        torch.save(checkpoint, record.folder / "checkpoint.pth.tar")
    record.end([model], [optimizer])
