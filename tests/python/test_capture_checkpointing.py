"""Activation checkpointing with random layers: what is recomputed in the backward pass draws the
masks of the forward pass, and the job's random state afterwards is eager's. Model, optimizer and
random state are compared with eager after every step, bit for bit; and the same through the engine.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import laneway
from laneway.capture.capture import CapturedJobGraph, capture_inference, capture_train_step
from laneway.errors import CaptureError
from laneway.graph.graph_ir import GeneratorArgument
from support.eager import assert_same, check_training, eager_step

STATES = ("laneway::random_state", "laneway::restore_random_state")
ROWS, WIDTH, CLASSES = 4, 8, 5


def batches(count: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(ROWS, WIDTH), torch.randint(0, CLASSES, (ROWS,))) for _ in range(count)]


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-2)


class Around(nn.Module):
    """Layers around `middle(model, hidden)`, which is what each case checkpoints. There is a draw
    before it and one behind, so that every position of the generator matters."""

    def __init__(self, middle: Callable[[Around, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.inner, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.middle = middle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.dropout(self.first(x), 0.25)
        hidden = self.middle(self, hidden)
        return self.last(F.dropout(hidden, 0.25))

    def block(self, y: torch.Tensor) -> torch.Tensor:
        return F.dropout(torch.tanh(self.inner(y)), 0.5)

    def attention(self, y: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(y).view(ROWS, 2, 3, WIDTH // 2).unbind(2)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3).reshape(ROWS, WIDTH)


def once(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    return checkpoint(model.block, x, **options)


def twice(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    return once(model, once(model, x, **options), **options)


def nested(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    def outer(y: torch.Tensor) -> torch.Tensor:
        y = F.dropout(torch.relu(model.other(y)), 0.5)
        return F.dropout(checkpoint(model.block, y, **options), 0.1)

    return checkpoint(outer, x, **options)


def in_autocast(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return checkpoint(model.block, x, **options).float()


def with_attention(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    return checkpoint(model.attention, x, **options)


def with_normal_noise(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """An odd count of normal numbers leaves a second one kept in the generator."""

    def noisy(y: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(3).sum() + torch.empty(()).normal_()
        return torch.tanh(model.inner(y)) * noise

    return checkpoint(noisy, x, **options)


def with_batch_norm(model: Around, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Running statistics are updated by the recomputation as well, in eager and here."""
    return checkpoint(lambda y: F.dropout(model.norm(model.inner(y)), 0.5), x, **options)


CASES = [once, twice, nested, in_autocast, with_attention, with_normal_noise, with_batch_norm]


def drawing(captured: CapturedJobGraph) -> list[str]:
    """The operators of the graph that draw or move the generator, in order."""
    return [
        node.op
        for node in captured.graph.nodes
        if any(argument == GeneratorArgument() for _, argument in node.arguments)
    ]


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_checkpointed_step_equals_eager(case: Any, reentrant: bool, preserve: bool) -> None:
    """Without preserve_rng_state eager draws two masks that have nothing to do with each other,
    and so does the graph."""
    torch.manual_seed(1)
    options = {"use_reentrant": reentrant, "preserve_rng_state": preserve}
    model = Around(lambda m, x: case(m, x, **options))
    captured, _ = check_training(model, adam, F.cross_entropy, batches())
    found = drawing(captured)
    assert (STATES[0] in found and STATES[1] in found) == preserve
    assert sum(op not in STATES for op in found) > 3


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_sequential_equals_eager(reentrant: bool) -> None:
    torch.manual_seed(2)
    layers = [
        layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.5))
    ]
    model = Around(lambda m, x: checkpoint_sequential(m.sequence, 3, x, use_reentrant=reentrant))
    model.sequence = nn.Sequential(*layers)
    captured, _ = check_training(model, adam, F.cross_entropy, batches())
    assert STATES[1] in drawing(captured)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("layer", [torch.tanh, lambda y: F.dropout(y, 0.0)])
def test_a_checkpoint_without_draws_leaves_no_trace(layer: Any, reentrant: bool) -> None:
    """The graph is byte for byte that of the step which keeps no random state."""
    torch.manual_seed(3)

    def graph(preserve: bool) -> bytes:
        def middle(m: Around, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(
                lambda y: layer(m.inner(y)), x, use_reentrant=reentrant, preserve_rng_state=preserve
            )

        model = Around(middle)
        return capture_train_step(model, F.cross_entropy, adam(model), batches(1)[0]).encode()

    assert graph(True) == graph(False)


def test_masks_are_drawn_again_and_not_kept() -> None:
    """What the forward pass of a checkpointed block makes is gone before the backward pass: the
    masks too. Only the states stay, a few kilobytes each."""
    torch.manual_seed(4)
    model = Around(lambda m, x: twice(m, x, use_reentrant=False))
    captured = capture_train_step(model, F.cross_entropy, adam(model), batches(1)[0])
    found = drawing(captured)
    masks = [op for op in found if op not in STATES]
    assert len(masks) == 2 + 2 * 2  # around; each block twice
    # One read before each block and one behind the last draw; restores do not come in pairs.
    assert found.count(STATES[0]) == 3 and found.count(STATES[1]) == 3


def test_a_step_may_fork_seed_and_set_the_random_state() -> None:
    """torch.random.fork_rng, manual_seed and set_rng_state with a state from before the step mean
    in the graph what they mean in eager, and the user's own generator never moves."""
    torch.manual_seed(5)
    kept = torch.get_rng_state()
    torch.manual_seed(6)

    def middle(m: Around, x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            x = F.dropout(x, 0.5)
        now = torch.get_rng_state()
        torch.random.set_rng_state(kept)
        x = x + torch.rand(WIDTH)
        torch.set_rng_state(now.clone())
        return m.block(x)

    captured, _ = check_training(Around(middle), adam, F.cross_entropy, batches())
    # The fork's end is undone before anything is drawn.
    assert drawing(captured).count(STATES[1]) == 3


def test_a_state_that_the_step_changes_itself_is_no_longer_what_was_read() -> None:
    torch.manual_seed(8)

    def middle(m: Around, x: torch.Tensor) -> torch.Tensor:
        state = torch.get_rng_state()
        other = torch.Generator().manual_seed(9).get_state()
        state.copy_(other)
        torch.set_rng_state(state)
        return m.block(x)

    check_training(Around(middle), adam, F.cross_entropy, batches(3))


def test_an_inference_may_set_the_random_state() -> None:
    class Sampler(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = torch.get_rng_state()
            first = torch.bernoulli(torch.sigmoid(x))
            torch.set_rng_state(state)
            return first, torch.bernoulli(torch.sigmoid(x))

    torch.manual_seed(10)
    x = torch.randn(16)
    before = torch.get_rng_state()
    captured = capture_inference(Sampler(), (x,))
    assert torch.equal(before, torch.get_rng_state())
    assert drawing(captured).count(STATES[1]) == 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: torch.set_rng_state(torch.zeros(16, dtype=torch.uint8)), "no.*get_rng_state"),
        (lambda: torch.set_rng_state(torch.get_rng_state()[1:]), "no.*get_rng_state"),
        (lambda: torch.seed(), "torch.manual_seed"),
    ],
)
def test_states_that_are_none_are_refused(use: Any, message: str) -> None:
    def middle(m: Around, x: torch.Tensor) -> torch.Tensor:
        use()
        return m.block(x)

    model, batch = Around(middle), batches(1)[0]
    before = torch.get_rng_state()
    with pytest.raises(CaptureError, match=message) as refusal:
        capture_train_step(model, F.cross_entropy, adam(model), batch)
    assert "test_capture_checkpointing.py" in str(refusal.value)
    assert torch.random.default_generator is torch.default_generator
    assert torch.equal(before, torch.get_rng_state())


def test_other_threads_keep_their_random_state_while_a_step_is_captured() -> None:
    """A thread asks, seeds and draws while another stands in the middle of its capture."""
    inside, done = threading.Event(), threading.Event()
    found: list[torch.Tensor] = []

    def beside() -> None:
        inside.wait()
        state = torch.get_rng_state()
        torch.manual_seed(11)
        found.append(torch.rand(4))
        torch.set_rng_state(state)
        found.append(state)
        done.set()

    def middle(m: Around, x: torch.Tensor) -> torch.Tensor:
        state = torch.get_rng_state()
        inside.set()
        done.wait()
        torch.set_rng_state(state)
        return once(m, x, use_reentrant=False)

    model = Around(middle)
    batch = batches(1)[0]
    before = torch.get_rng_state()
    thread = threading.Thread(target=beside)
    thread.start()
    capture_train_step(model, F.cross_entropy, adam(model), batch)
    thread.join()
    assert torch.equal(found[0], torch.rand(4, generator=torch.Generator().manual_seed(11)))
    assert torch.equal(found[1], before) and torch.equal(torch.get_rng_state(), before)
    assert torch.random.default_generator is torch.default_generator


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_engine_equals_eager(case: Any, reentrant: bool) -> None:
    torch.manual_seed(12)
    model = Around(lambda m, x: case(m, x, use_reentrant=reentrant))
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = adam(model), adam(twin)
    data = batches()
    random = torch.get_rng_state()
    expected = [eager_step(twin, F.cross_entropy, twin_optimizer, b).detach() for b in data]
    after = torch.get_rng_state()
    torch.set_rng_state(random)
    with (
        laneway.embedded("64MiB") as service,
        laneway.train_step(model, F.cross_entropy, optimizer, service, name="job") as step,
    ):
        assert_same(expected, [step(*batch) for batch in data], "losses")
        state = step.state_dict()
        captured, job = step.ensure_job()
        _, job_random = job.read_state(captured.slots, random_state=True)
    assert_same(twin.state_dict(), state["model"], "model")
    assert_same(twin_optimizer.state_dict(), state["optimizer"], "optimizer")
    assert_same(after, job_random, "random state")


class Stack(nn.Module):
    """Blocks with dropout, each a checkpoint of its own or none; the result is the loss."""

    def __init__(self, blocks: int, width: int, checkpointed: bool) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(0.5))
            for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x.square().mean()


def test_a_checkpointed_job_keeps_no_masks() -> None:
    """Without checkpoints a block keeps its mask and what its tanh gave; with them neither, but a
    random state. The plans differ by as much, but for the block that is being recomputed."""
    rows, width, blocks = 256, 64, 8
    peaks = {}
    for checkpointed in (False, True):
        model = Stack(blocks, width, checkpointed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with (
            laneway.embedded("64MiB") as service,
            laneway.train_step(
                model, lambda loss, _: loss, optimizer, service, name="stack"
            ) as step,
        ):
            for _ in range(3):
                step(torch.randn(rows, width), torch.zeros(()))
            peaks[checkpointed] = step.report()["graphs"][0]["planned_peak_bytes"]
    kept = 2 * rows * width * 4
    states = (blocks + 1) * 8192
    assert peaks[True] + (blocks - 1) * kept < peaks[False] + states


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_of_hugging_face_equals_eager(reentrant: bool) -> None:
    """Dropout in embeddings, attention and blocks, switched on as its users do."""
    import transformers

    torch.manual_seed(14)
    config = transformers.GPT2Config(
        n_layer=3, n_head=2, n_embd=32, vocab_size=40, n_positions=16, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config).train()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})

    def closure(model: Any, optimizer: Any, tokens: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss

    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = adam(model), adam(twin)
    data = [torch.randint(0, 40, (2, 16)) for _ in range(5)]
    with (
        laneway.embedded("64MiB") as service,
        laneway.train_step(model, None, optimizer, service, closure=closure, random="own") as step,
    ):
        expected = [closure(twin, twin_optimizer, tokens).detach() for tokens in data]
        assert_same(expected, [step(tokens) for tokens in data], "losses")
        state = step.state_dict()
        assert STATES[1] in drawing(step.ensure_job()[0])
    assert_same(twin.state_dict(), state["model"], "model")
    assert_same(twin_optimizer.state_dict(), state["optimizer"], "optimizer")
