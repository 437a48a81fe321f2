"""A classifier of images: Adadelta, a rate that falls each epoch, dropout, a test each epoch."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

import laneway


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(2304, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def digits(count):
    return TensorDataset(torch.randn(count, 1, 28, 28), torch.randint(10, (count,)))


def test(model, loader):
    model.eval()
    loss = correct = 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    return loss / len(loader.dataset), correct


def main(record):
    torch.manual_seed(1)
    train_loader = DataLoader(digits(32 * record.batches - 8), batch_size=32, shuffle=True)
    test_loader = DataLoader(digits(64), batch_size=64)

    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    step = laneway.train_step(model, F.nll_loss, optimizer)
    for _ in range(record.epochs):
        record.epoch()
        model.train()
        for data, target in train_loader:
            loss = step(data, target)
            record.loss(loss)
        record.metric(test(model, test_loader))
        scheduler.step()
        torch.save(model.state_dict(), record.folder / "mnist.pt")
    record.end([model], [optimizer])
