"""A language model: Transformer with a cached mask, AdamW, clipping, a short last batch."""

import math

import torch
from torch import nn, optim

TOKENS, WIDTH, BPTT, BATCH = 200, 64, 16, 8


class PositionalEncoding(nn.Module):
    def __init__(self, max_len=64):
        super().__init__()
        self.dropout = nn.Dropout(0.2)
        position = torch.arange(max_len).float().unsqueeze(1)
        rates = torch.exp(torch.arange(0, WIDTH, 2).float() * (-math.log(10000.0) / WIDTH))
        waves = torch.zeros(max_len, 1, WIDTH)
        waves[:, 0, 0::2] = torch.sin(position * rates)
        waves[:, 0, 1::2] = torch.cos(position * rates)
        self.register_buffer("waves", waves)

    def forward(self, x):
        return self.dropout(x + self.waves[: x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.src_mask = None
        self.input_emb = nn.Embedding(TOKENS, WIDTH)
        self.pos_encoder = PositionalEncoding()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.2)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(WIDTH, TOKENS)
        nn.init.uniform_(self.input_emb.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        x = self.pos_encoder(self.input_emb(src) * math.sqrt(WIDTH))
        return self.decoder(self.encoder(x, mask=self.src_mask))


def text(length):
    """Each word is the one after the word before it in the vocabulary, or the second after it."""
    return torch.randint(1, 3, (length, BATCH)).cumsum(0) % TOKENS


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def main(record):
    torch.manual_seed(1)
    train_data = text(BPTT * record.batches - 5)
    val_data = text(40)
    model = TransformerModel()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.95)

    def train_batch(data, targets):
        optimizer.zero_grad()
        loss = criterion(model(data).view(-1, TOKENS), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return loss

    def evaluate(source):
        model.eval()
        total_loss = 0.0
        with torch.no_grad():
            for i in range(0, len(source) - 1, BPTT):
                data, targets = get_batch(source, i)
                output = model(data).view(-1, TOKENS)
                total_loss += len(data) * criterion(output, targets).item()
        return total_loss / (len(source) - 1)

    for _ in range(record.epochs):
        record.epoch()
        model.train()
        for i in range(0, train_data.size(0) - 1, BPTT):
            data, targets = get_batch(train_data, i)
            record.loss(train_batch(data, targets))
        record.metric(evaluate(val_data))
        scheduler.step()
        torch.save(model.state_dict(), record.folder / "model.pt")
    record.end([model], [optimizer])
