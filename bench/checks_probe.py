"""The process that the bench checks starts for a sample.

    python -m bench.checks_probe mlp|resnet18|encoder_12|gpt2_12

captures a training step and prints one JSON object: "guards", how many reads of Python a call of it
compares; "reads_us" and "model_us", what that and the rest of the check take."""

from __future__ import annotations

import os
import sys
import timeit
from collections.abc import Callable
from typing import Any

import torch

from .models import Workload, arguments, make, pool_for
from .probe import run_probe

CALLS, ROUNDS = 20, 300


def probe(name: str) -> dict[str, float]:
    import laneway

    work = _OWN[name]() if name in _OWN else make(name)
    args, named = arguments(work.batch(0))
    with laneway.embedded(pool=pool_for(work), lanes=1) as service:
        step = laneway.step(work.model, work.optimizer, service=service)(_iteration(work))
        step(*args, **named)
        variants = step._variants
        call, conditions = variants.current, variants._conditions
        halves = {
            "reads_us": call.holds,
            "model_us": lambda: conditions.hold(call.conditions),
        }
        found = {half: _shortest_us(check) for half, check in halves.items()}
        found["guards"] = step.report()["guards"][0]
        step.close()
    return found


def _iteration(work: Workload) -> Callable[..., torch.Tensor]:
    loss_of, optimizer = work.loss_of(), work.optimizer

    def iteration(*args: Any, **named: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(*args, **named)
        loss.backward()
        optimizer.step()
        return loss

    return iteration


def _shortest_us(check: Callable[[], bool]) -> float:
    if not check():
        raise RuntimeError("the call that follows is of another form")
    return min(timeit.repeat(check, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def _gpt2_12() -> Workload:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=48, n_head=4, n_layer=12, vocab_size=99, n_positions=32, use_cache=False
    )
    config.bos_token_id = config.eos_token_id = 0
    model = GPT2LMHeadModel(config)
    ids = torch.randint(99, (2, 16), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "labels": ids}
    return Workload("gpt2_12", model, None, torch.optim.AdamW(model.parameters()), lambda _: batch)


def _encoder_12() -> Workload:
    layer = torch.nn.TransformerEncoderLayer(48, 4, 96, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, 16, 48, generator=generator) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters())
    return Workload("encoder_12", model, torch.nn.functional.mse_loss, optimizer, lambda _: (x, y))


_OWN = {"encoder_12": _encoder_12, "gpt2_12": _gpt2_12}


def main(names: list[str]) -> int:
    return run_probe(lambda: probe(names[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
