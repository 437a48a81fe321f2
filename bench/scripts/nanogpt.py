"""A small GPT: bfloat16 autocast, micro-batches, clipping, groups with and without weight decay, a
rate computed in each iteration, an evaluation before the first one."""

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, BLOCK, BATCH = 128, 64, 4, 2, 32, 4
ACCUMULATION, CLIP, WARM_UP, RATE, LEAST_RATE = 2, 1.0, 4, 1e-3, 1e-4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
        )

    def attend(self, x):
        b, t, _ = x.shape
        q, k, v = self.c_attn(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        dropout = 0.1 if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.size(1))))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.dim() >= 2]
        nodecay = [p for p in self.parameters() if p.dim() < 2]
        groups = [
            {"params": decay, "weight_decay": 0.1},
            {"params": nodecay, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95))


def get_lr(it, last):
    if it < WARM_UP:
        return RATE * (it + 1) / (WARM_UP + 1)
    coefficient = 0.5 * (1.0 + math.cos(math.pi * (it - WARM_UP) / max(1, last - WARM_UP)))
    return LEAST_RATE + coefficient * (RATE - LEAST_RATE)


def main(record):
    torch.manual_seed(1)
    data = {"train": torch.randint(VOCABULARY, (4000,)), "val": torch.randint(VOCABULARY, (800,))}
    ctx = torch.autocast("cpu", dtype=torch.bfloat16)
    model = GPT()
    optimizer = model.configure_optimizers()
    max_iters, eval_interval = record.epochs * record.batches, record.batches

    def get_batch(split):
        ix = torch.randint(len(data[split]) - BLOCK, (BATCH,))
        x = torch.stack([data[split][i : i + BLOCK] for i in ix])
        return x, torch.stack([data[split][i + 1 : i + 1 + BLOCK] for i in ix])

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        for split in ("train", "val"):
            for _ in range(2):
                x, y = get_batch(split)
                with ctx:
                    _, loss = model(x, y)
                record.metric(loss.item())
        model.train()

    for iter_num in range(max_iters):
        lr = get_lr(iter_num, max_iters)
        for param_group in optimizer.param_groups:
            param_group["lr"] = lr
        if iter_num % eval_interval == 0:
            estimate_loss()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"iter_num": iter_num}, record.folder / "ckpt.pt")
            record.epoch()
        for _ in range(ACCUMULATION):
            x, y = get_batch("train")
            with ctx:
                _, loss = model(x, y)
                loss = loss / ACCUMULATION
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        record.loss(loss)
    record.end([model], [optimizer])
