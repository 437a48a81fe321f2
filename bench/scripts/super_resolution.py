"""Super-resolution: convolutions and PixelShuffle, Adam, PSNR and the whole model saved each
epoch."""

import math

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, upscale_factor):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 16, 3, padding=1)
        self.conv4 = nn.Conv2d(16, upscale_factor**2, 3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        for conv in (self.conv1, self.conv2, self.conv3):
            nn.init.orthogonal_(conv.weight, nn.init.calculate_gain("relu"))

    def forward(self, x):
        x = self.relu(self.conv1(x))
        x = self.relu(self.conv2(x))
        x = self.relu(self.conv3(x))
        return self.pixel_shuffle(self.conv4(x))


def pictures(count):
    return TensorDataset(torch.rand(count, 1, 16, 16), torch.rand(count, 1, 32, 32))


def main(record):
    torch.manual_seed(1)
    training_loader = DataLoader(pictures(4 * record.batches), batch_size=4, shuffle=True)
    testing_loader = DataLoader(pictures(8), batch_size=4, shuffle=False)
    model = Net(upscale_factor=2)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def train():
        epoch_loss = 0
        for input, target in training_loader:
            optimizer.zero_grad()
            loss = criterion(model(input), target)
            epoch_loss += loss.item()
            loss.backward()
            optimizer.step()
            record.loss(loss)
        return epoch_loss / len(training_loader)

    def test():
        avg_psnr = 0
        with torch.no_grad():
            for input, target in testing_loader:
                mse = criterion(model(input), target)
                avg_psnr += 10 * math.log10(1 / mse.item())
        return avg_psnr / len(testing_loader)

    for epoch in range(record.epochs):
        record.epoch()
        record.metric(train())
        record.metric(test())
        torch.save(model, record.folder / f"model_epoch_{epoch}.pth")
    record.end([model], [optimizer])
