"""A language model: LSTM, dropout, hidden state kept, clipping, and weights that the loop itself
moves; the rate falls when validation gets no better."""

import torch
from torch import nn

import laneway

TOKENS, WIDTH, BPTT, BATCH = 200, 64, 16, 8


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(TOKENS, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.2)
        self.decoder = nn.Linear(WIDTH, TOKENS)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output))
        return torch.log_softmax(decoded.view(-1, TOKENS), dim=1), hidden

    def init_hidden(self):
        return torch.zeros(2, BATCH, WIDTH), torch.zeros(2, BATCH, WIDTH)


def repackage_hidden(hidden):
    return tuple(state.detach() for state in hidden)


def text(length):
    """Each word is the one after the word before it in the vocabulary, or the second after it."""
    return torch.randint(1, 3, (length, BATCH)).cumsum(0) % TOKENS


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def main(record):
    torch.manual_seed(1)
    train_data = text(BPTT * record.batches - 5)
    val_data = text(200)
    model = RNNModel()
    criterion = nn.NLLLoss()
    lr, best_val_loss = 4.0, None

    def evaluate(source):
        model.eval()
        total_loss, hidden = 0.0, model.init_hidden()
        with torch.no_grad():
            for i in range(0, len(source) - 1, BPTT):
                data, targets = get_batch(source, i)
                output, hidden = model(data, hidden)
                total_loss += len(data) * criterion(output, targets).item()
        return total_loss / (len(source) - 1)

    @laneway.step(model, None)
    def iteration(data, targets, hidden):
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        return loss, hidden

    for _ in range(record.epochs):
        record.epoch()
        model.train()
        hidden = model.init_hidden()
        for i in range(0, train_data.size(0) - 1, BPTT):
            data, targets = get_batch(train_data, i)
            loss, hidden = iteration(data, targets, hidden)
            record.loss(loss)
        val_loss = evaluate(val_data)
        record.metric(val_loss)
        if best_val_loss is None or val_loss < best_val_loss:
            torch.save(model, record.folder / "model.pt")
            best_val_loss = val_loss
        else:
            lr /= 4.0
    record.end([model], [])
