"""Which values a captured step can be fed: what eager PyTorch takes leaves the state that eager
leaves, bit for bit; an index that it refuses is refused before anything has run, by name, and the
job and its neighbours go on."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import laneway
from support.eager import assert_same, eager_step
from support.pair import Pair, batch


@pytest.fixture(scope="module")
def service():
    with laneway.embedded("128MiB") as opened:
        yield opened


# Values.


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FC12345, -0x003EDCBB, 0x7F812345, 0x7F800000])
def test_nan_with_its_payload_and_infinity_go_through_as_in_eager(service, bits: int) -> None:
    x, y = batch()
    odd = x.clone()
    odd.view(torch.int32)[1, 3] = bits
    with Pair(service) as pair:
        pair.train(x, y)
        pair.train(odd, y)
        pair.train(x, y)
        pair.check()


def test_state_set_to_nan_keeps_its_payload(service) -> None:
    with Pair(service) as pair:
        pair.train(*batch())
        state = pair.step.state_dict()
        state["model"]["0.bias"].view(torch.int32)[2] = 0x7FC0BEEF
        pair.step.load_state_dict(state)
        read = pair.step.state_dict()["model"]["0.bias"].view(torch.int32)[2]
        assert read.item() == 0x7FC0BEEF


@pytest.mark.parametrize("label", [3, -1, -101, 2**40, -(2**63), 2**63 - 1])
def test_a_label_out_of_range_is_refused_by_place_and_the_job_goes_on(service, label: int) -> None:
    x, y = batch()
    wrong = y.clone()
    wrong[2] = label
    with Pair(service, name="labels") as pair:
        pair.train(x, y)
        text = pair.refuse("input 1 ", x, wrong)
        assert f"(int64[4]) of graph 'train' has {label} at [2]" in text
        assert "aten::nll_loss_forward takes 0 to 2, or -100" in text
        assert "pair.py:" in text and "more classes" in text
        with pytest.raises(IndexError):
            eager_step(pair.model, pair.loss, pair.optimizer, (x, wrong))
        pair.train(x, y)
        pair.check()


def test_ignored_labels_count_as_in_eager(service) -> None:
    x, y = batch()
    with Pair(service) as pair:
        for ignored in (1, 4):
            some = y.clone()
            some[:ignored] = -100
            pair.train(x, some)
        pair.check()
    with Pair(service, loss=nn.CrossEntropyLoss(ignore_index=7)) as pair:
        pair.train(x, y.masked_fill(y == 1, 7))
        pair.refuse("takes 0 to 2, or 7", x, torch.full_like(y, -100))
        pair.check()


class Tokens(nn.Module):
    """A table looked up by ids, which come as any integers."""

    def __init__(self, cast: torch.dtype | None = None) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table = nn.Embedding(10, 6, padding_idx=0)
        self.out = nn.Linear(6, 10)
        self.cast = cast

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids if self.cast is None else ids.to(self.cast)
        return self.out(self.table(ids[:, :-1]))


def next_token(scores: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.reshape(-1, 10), ids[:, 1:].reshape(-1).long())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int16])
def test_token_ids_of_any_integer_are_looked_at_through_views_and_casts(service, dtype) -> None:
    cast = None if dtype in (torch.int64, torch.int32) else torch.int64
    torch.manual_seed(3)
    ids = torch.randint(0, 10, (3, 5)).to(dtype)
    with Pair(service, lambda: Tokens(cast), next_token) as pair:
        pair.train(ids, ids)
        wrong = ids.clone()
        wrong[1, 2] = 10
        assert "has 10 at [1, 2], where aten::embedding" in pair.refuse("input 0 ", wrong, ids)
        assert "has 10 at [1, 2], where aten::nll_loss" in pair.refuse("input 1 ", ids, wrong)
        # Nobody looks at the last id of an input, nor at the first of the labels.
        unused = ids.clone()
        unused[:, -1] = 99
        unseen = ids.clone()
        unseen[:, 0] = 99
        pair.train(unused, unseen)
        pair.check()


@pytest.mark.parametrize(
    ("index", "wrong", "rule"),
    [
        (lambda x, i: x.gather(1, i), -1, "takes 0 to 2"),
        (lambda x, i: x.gather(1, i), 3, "takes 0 to 2"),
        (lambda x, i: x.index_select(1, i[0]), 3, "takes 0 to 2"),
        (lambda x, i: x[:, i[0]], 3, "takes -3 to 2"),
        (lambda x, i: x[:, i[0]], -4, "takes -3 to 2"),
        (lambda x, i: torch.take(x, i), 12, "takes -12 to 11"),
        (lambda x, i: torch.zeros_like(x).scatter_add(1, i, x[:, :2]), 3, "takes 0 to 2"),
        (lambda x, i: torch.zeros_like(x).scatter(1, i, x[:, :2]), -1, "takes 0 to 2"),
        (lambda x, i: torch.zeros(4, 3).index_add(1, i[0], x[:, :2]), 5, "takes 0 to 2"),
        (lambda x, i: torch.zeros(4, 3).index_copy(1, i[0], x[:, :2]), 5, "takes 0 to 2"),
        (lambda x, i: x.index_fill(1, i[0], 0.5), -4, "takes -3 to 2"),
        (lambda x, i: x.index_put((i[0] * 0, i[0]), torch.ones(2)), -4, "takes -3 to 2"),
    ],
)
def test_every_way_to_index_has_its_own_range(service, index, wrong: int, rule: str) -> None:
    """What is refused here is refused by eager, and what is taken there is taken here."""

    def loss(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return index(scores, indices).square().mean()

    x, _ = batch()
    right = torch.tensor([[0, 2], [1, 0], [2, 1], [0, 0]])
    bad = right.clone()
    bad[0, 1] = wrong
    with Pair(service, loss=loss) as pair:
        pair.train(x, right)
        pair.refuse(rule, x, bad)
        with pytest.raises((IndexError, RuntimeError)):
            loss(pair.model(x), bad)
        pair.train(x, right)
        pair.check()


def test_negative_indices_that_count_from_the_end_are_taken(service) -> None:
    def loss(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return scores[:, indices].square().mean()

    with Pair(service, loss=loss) as pair:
        pair.train(batch()[0], torch.tensor([0, -1]))
        pair.train(batch()[0], torch.tensor([-3, 2]))
        pair.check()


def test_indices_that_the_graph_computes_are_the_operators_own_to_check(service) -> None:
    def loss(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return scores.index_select(1, indices * 2).square().mean()

    x, _ = batch()
    with Pair(service, loss=loss) as pair:
        pair.train(x, torch.tensor([0, 1]))
        pair.refuse("aten::index_select", x, torch.tensor([0, 2]))
        pair.train(x, torch.tensor([1, 0]))
        pair.check()


def test_other_jobs_do_not_notice(service) -> None:
    x, y = batch()
    with Pair(service) as disturbed, Pair(service) as neighbour:
        for round_ in range(3):
            disturbed.train(x, y)
            neighbour.train(*batch(round_))
            pending = [disturbed.step.submit(x, y + 3), neighbour.step.submit(*batch(round_))]
            with pytest.raises(laneway.InvalidInput, match="input 1 "):
                pending[0].result()
            expected = eager_step(
                neighbour.model, neighbour.loss, neighbour.optimizer, batch(round_)
            )
            assert_same(expected.detach(), pending[1].result(), "loss")
        disturbed.check()
        neighbour.check()
