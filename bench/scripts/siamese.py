"""A siamese network: one backbone called on both pictures of a pair, Adadelta, StepLR."""

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    """Pairs of pictures, half of them of one class; drawn anew each time, as the index says."""

    def __init__(self, count):
        self.pictures = torch.randn(count, 1, 28, 28)
        self.classes = torch.randint(4, (count,))

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        alike = self.classes == self.classes[index]
        others = (alike if index % 2 == 0 else ~alike).nonzero().flatten()
        other = others[torch.randint(len(others), ())]
        return self.pictures[index], self.pictures[other], torch.tensor(float(index % 2 == 0))


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 16, 3, stride=2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(3),
        )
        self.fc = nn.Sequential(nn.Linear(288, 64), nn.ReLU(inplace=True), nn.Linear(64, 1))
        self.sigmoid = nn.Sigmoid()

    def forward_once(self, x):
        return self.backbone(x).view(x.size(0), -1)

    def forward(self, input1, input2):
        output = torch.cat((self.forward_once(input1), self.forward_once(input2)), 1)
        return self.sigmoid(self.fc(output))


def test(model, loader, criterion):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for images_1, images_2, targets in loader:
            outputs = model(images_1, images_2).squeeze(1)
            test_loss += criterion(outputs, targets).sum().item()
            correct += ((outputs > 0.5) == targets).sum().item()
    return test_loss, correct


def main(record):
    torch.manual_seed(1)
    train_loader = DataLoader(Pairs(16 * record.batches), batch_size=16, shuffle=True)
    test_loader = DataLoader(Pairs(32), batch_size=32)
    model = SiameseNetwork()
    criterion = nn.BCELoss()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)

    for _ in range(record.epochs):
        record.epoch()
        model.train()
        for images_1, images_2, targets in train_loader:
            optimizer.zero_grad()
            outputs = model(images_1, images_2).squeeze(1)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
            record.loss(loss)
        record.metric(test(model, test_loader, criterion))
        scheduler.step()
    record.end([model], [optimizer])
