"""Forward-forward: each layer has an optimizer of its own and learns without those behind it."""

from itertools import pairwise

import torch
from torch import nn
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

import laneway

CLASSES, THRESHOLD = 10, 2.0


def overlay(x, y):
    """The class is written into the first pixels."""
    x = x.clone()
    x[:, :CLASSES] *= 0.0
    x[torch.arange(x.shape[0]), y] = x.max()
    return x


class Layer(nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, out_features)
        self.relu = nn.ReLU()
        self.opt = Adam(self.parameters(), lr=0.03)

    def forward(self, x):
        x_direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(x_direction @ self.weight.T + self.bias.unsqueeze(0))


class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = nn.ModuleList(Layer(a, b) for a, b in pairwise(dims))

    def predict(self, x):
        goodness_per_label = []
        for label in range(CLASSES):
            h = overlay(x, torch.full((len(x),), label))
            goodness = []
            for layer in self.layers:
                h = layer(h)
                goodness += [h.pow(2).mean(1)]
            goodness_per_label += [sum(goodness).unsqueeze(1)]
        return torch.cat(goodness_per_label, 1).argmax(1)


def main(record):
    torch.manual_seed(1)
    count = 64 * record.batches
    dataset = TensorDataset(torch.rand(count, 196), torch.randint(CLASSES, (count,)))
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    net = Net([196, 128, 128])

    @laneway.step(net, [layer.opt for layer in net.layers])
    def train(x_pos, x_neg):
        losses = []
        for layer in net.layers:
            layer.opt.zero_grad()
            h_pos, h_neg = layer(x_pos), layer(x_neg)
            g_pos, g_neg = h_pos.pow(2).mean(1), h_neg.pow(2).mean(1)
            logits = torch.cat([-g_pos + THRESHOLD, g_neg - THRESHOLD])
            loss = torch.log(1 + torch.exp(logits)).mean()
            loss.backward()
            layer.opt.step()
            losses.append(loss)
            x_pos, x_neg = layer(x_pos).detach(), layer(x_neg).detach()
        return losses

    for _ in range(record.epochs):
        record.epoch()
        for x, y in loader:
            wrong = y[torch.randperm(len(y))]
            record.loss(*train(overlay(x, y), overlay(x, wrong)))
        with torch.no_grad():
            x, y = dataset[:100]
            record.metric((net.predict(x) == y).float().mean().item())
    record.end([net], [layer.opt for layer in net.layers])
