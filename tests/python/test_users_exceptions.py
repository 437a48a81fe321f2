"""Shows that an exception that the user's own code raises comes out of a call as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from support.both import check_equal, sgd


class TooLong(Exception):
    pass


@pytest.mark.parametrize("order", [(8, 4, 8, 4), (4, 8, 4, 8)])
def test_the_users_own_exception_is_raised_at_every_form(order, service):
    class Picky(nn.Linear):
        def forward(self, x):
            if x.shape[0] > 6:
                raise TooLong(f"{x.shape[0]} rows")
            return super().forward(x)

    def job(lane):
        model, found = Picky(8, 4), []
        train = lane.train_step(model, F.cross_entropy, sgd(model))
        for rows in order:
            try:
                found.append(train(torch.ones(rows, 8), torch.zeros(rows, dtype=torch.long)))
            except TooLong as error:
                found.append(str(error))
        return found, model

    check_equal(job, service)
