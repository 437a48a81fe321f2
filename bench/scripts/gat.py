"""A graph attention network on a dense adjacency matrix: dropout on inputs and on attention."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Adam


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, n_heads, concat=False, dropout=0.4):
        super().__init__()
        self.n_heads, self.concat, self.dropout = n_heads, concat, dropout
        self.n_hidden = out_features // n_heads if concat else out_features
        self.W = nn.Parameter(torch.empty(in_features, self.n_hidden * n_heads))
        self.a = nn.Parameter(torch.empty(n_heads, 2 * self.n_hidden, 1))
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj_mat):
        n_nodes = h.shape[0]
        h = F.dropout(h @ self.W, self.dropout, training=self.training)
        h = h.view(n_nodes, self.n_heads, self.n_hidden).permute(1, 0, 2)
        source = h @ self.a[:, : self.n_hidden]
        target = h @ self.a[:, self.n_hidden :]
        e = F.leaky_relu(source + target.mT, 0.2)
        attention = torch.where(adj_mat > 0, e, -9e16 * torch.ones_like(e))
        attention = F.dropout(F.softmax(attention, dim=-1), self.dropout, training=self.training)
        h = attention @ h
        if self.concat:
            return h.permute(1, 0, 2).contiguous().view(n_nodes, -1)
        return h.mean(dim=0)


class GAT(nn.Module):
    def __init__(self, in_features, n_hidden, n_heads, num_classes):
        super().__init__()
        self.gat1 = GraphAttentionLayer(in_features, n_hidden, n_heads, concat=True)
        self.gat2 = GraphAttentionLayer(n_hidden, num_classes, 1)

    def forward(self, input_tensor, adj_mat):
        x = F.elu(self.gat1(input_tensor, adj_mat))
        return F.log_softmax(self.gat2(x, adj_mat), dim=1)


def main(record):
    torch.manual_seed(1)
    features = torch.randn(120, 64)
    adj_mat = ((torch.rand(120, 120) < 0.05) | torch.eye(120, dtype=torch.bool)).float()
    labels = torch.randint(7, (120,))
    idx = torch.randperm(120)
    idx_train, idx_val = idx[:80], idx[80:]
    model = GAT(in_features=64, n_hidden=32, n_heads=4, num_classes=7)
    optimizer = Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    criterion = nn.NLLLoss()

    def train_iter(input, target, mask):
        model.train()
        optimizer.zero_grad()
        output = model(*input)
        loss = criterion(output[mask], target[mask])
        loss.backward()
        optimizer.step()
        return loss

    def test(input, target, mask):
        model.eval()
        with torch.no_grad():
            output = model(*input)[mask]
            correct = (output.argmax(dim=1) == target[mask]).float().mean()
            return criterion(output, target[mask]).item(), correct.item()

    for _ in range(record.epochs):
        record.epoch()
        for _ in range(record.batches):
            record.loss(train_iter((features, adj_mat), labels, idx_train))
        record.metric(test((features, adj_mat), labels, idx_val))
    record.end([model], [optimizer])
