"""The trainings of the bench hyperparameter, as plain PyTorch and as jobs of a service, and the
processes in which they run.

    python -m bench.hyperparameter_jobs pool
        imports torch, says "ready", and then trains what each line of its input names: NUMBER
        ITERATIONS; one line of output each: the Result as JSON
    python -m bench.hyperparameter_jobs plain NUMBER ITERATIONS
    python -m bench.hyperparameter_jobs client ADDRESS NUMBER ITERATIONS
        the same for one training, in eager, or as a client of the service at ADDRESS"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .models import make
from .models.workload import Workload

MODEL = "gpt"


@dataclass(frozen=True)
class Result:
    number: int
    loss: float
    state: str  # a digest of the trained weights


def learning_rate(number: int) -> float:
    """No two trainings have the same."""
    return 1e-3 * (1 + number) / 8


def work_of(number: int) -> Workload:
    work = make(MODEL, seed=number)
    for group in work.optimizer.param_groups:
        group["lr"] = learning_rate(number)
    return work


def result_of(number: int, loss: torch.Tensor, work: Workload) -> Result:
    digest = hashlib.sha256()
    for name, tensor in sorted(work.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return Result(number, loss.item(), digest.hexdigest())


def train_plain(number: int, iterations: int) -> Result:
    work = work_of(number)
    assert work.loss_fn
    loss = torch.zeros(())
    for iteration in range(iterations):
        *inputs, target = work.batch(iteration)
        work.optimizer.zero_grad()
        loss = work.loss_fn(work.model(*inputs), target)
        loss.backward()
        work.optimizer.step()
        loss.item()
    return result_of(number, loss, work)


def step_of(work: Workload, service: Any, number: int, iterations: int, **options: Any) -> Any:
    import laneway

    return laneway.train_step(
        work.model,
        work.loss_fn,
        work.optimizer,
        service=service,
        name=f"lr-{number}",
        total_iterations=iterations,
        sync="manual",
        **options,
    )


def finish(number: int, step: Any, work: Workload, loss: torch.Tensor) -> Result:
    """The job ends; its weights are the model's."""
    step.sync_to(work.model)
    step.close()
    return result_of(number, loss, work)


def train_as_client(address: str, number: int, iterations: int) -> Result:
    import laneway

    work = work_of(number)
    with laneway.connect(address) as service:
        step = step_of(work, service, number, iterations)
        loss = torch.zeros(())
        for iteration in range(iterations):
            loss = step(*work.batch(iteration))
            loss.item()
        return finish(number, step, work, loss)


def main(words: list[str]) -> int:
    torch.set_num_threads(int(words[-1].removeprefix("--threads=")))
    what, *given = words[:-1]
    if what == "pool":
        print("ready", flush=True)
        for line in sys.stdin:
            number, iterations = (int(word) for word in line.split())
            print(json.dumps(asdict(train_plain(number, iterations))), flush=True)
        return 0
    if what == "plain":
        result = train_plain(int(given[0]), int(given[1]))
    else:
        result = train_as_client(given[0], int(given[1]), int(given[2]))
    print(json.dumps(asdict(result)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
