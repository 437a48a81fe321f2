"""A GAN: two networks, two optimizers, and pictures from fixed noise in training mode."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

NOISE, WIDTH = 16, 8


def weights_init(m):
    if isinstance(m, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NOISE, WIDTH * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(WIDTH * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(WIDTH * 2, WIDTH, 4, 2, 1, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(True),
            nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, WIDTH, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(WIDTH, WIDTH * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(WIDTH * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(WIDTH * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def main(record):
    torch.manual_seed(1)
    dataset = TensorDataset(torch.rand(16 * record.batches, 3, 16, 16) * 2 - 1)
    dataloader = DataLoader(dataset, batch_size=16, shuffle=True)
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(8, NOISE, 1, 1)
    optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

    for _ in range(record.epochs):
        record.epoch()
        for (real,) in dataloader:
            # The discriminator: real pictures, then false ones.
            netD.zero_grad()
            errD_real = criterion(netD(real), torch.ones(real.size(0)))
            errD_real.backward()
            fake = netG(torch.randn(real.size(0), NOISE, 1, 1))
            errD_fake = criterion(netD(fake.detach()), torch.zeros(real.size(0)))
            errD_fake.backward()
            errD = errD_real + errD_fake
            optimizerD.step()
            # The generator: the discriminator should take its pictures for real.
            netG.zero_grad()
            errG = criterion(netD(fake), torch.ones(real.size(0)))
            errG.backward()
            optimizerG.step()
            record.loss(errD, errG)
        with torch.no_grad():
            record.metric(netG(fixed_noise))
        torch.save(netG.state_dict(), record.folder / "netG.pt")
        torch.save(netD.state_dict(), record.folder / "netD.pt")
    record.end([netG, netD], [optimizerG, optimizerD])
