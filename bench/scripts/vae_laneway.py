"""A variational autoencoder: Adam, draws in the model, a sample from the decoder each epoch."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

import laneway


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.mean = nn.Linear(128, 16)
        self.log_variance = nn.Linear(128, 16)
        self.fc3 = nn.Linear(16, 128)
        self.fc4 = nn.Linear(128, 784)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.mean(h), self.log_variance(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def main(record):
    torch.manual_seed(1)
    train_data = TensorDataset(torch.rand(64 * record.batches, 1, 28, 28))
    train_loader = DataLoader(train_data, batch_size=64, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.rand(96, 1, 28, 28)), batch_size=64)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    step = laneway.train_step(model, lambda out, x: loss_function(out[0], x, *out[1:]), optimizer)

    def train():
        model.train()
        for (data,) in train_loader:
            loss = step(data, data)
            record.loss(loss)

    def test():
        model.eval()
        test_loss = 0
        with torch.no_grad():
            for (data,) in test_loader:
                recon_batch, mu, logvar = model(data)
                test_loss += loss_function(recon_batch, data, mu, logvar).item()
        return test_loss / len(test_loader.dataset)

    for _ in range(record.epochs):
        record.epoch()
        train()
        record.metric(test())
        with torch.no_grad():
            sample = model.decode(torch.randn(8, 16))
        record.metric(sample)
    record.end([model], [optimizer])
