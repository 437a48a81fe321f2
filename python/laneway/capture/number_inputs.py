"""Numbers that are inputs of a graph: learning rates, and float arguments that change from call to
call."""

from __future__ import annotations

import torch
from torch.optim import Optimizer

from laneway.capture.border import expected_strides
from laneway.capture.recorder import Recorder
from laneway.capture.signature import InputSignature, NumberInput, TensorInput
from laneway.graph.graph_ir import ValueKind


def learning_rate_inputs(
    recorder: Recorder, copies: list[Optimizer], signature: InputSignature, inputs: list[int]
) -> None:
    """Makes each group's learning rate a graph input of its own and puts its symbol in the group.

    A number where the optimizer computes with it in Python; a 0-dimensional float64 tensor for
    fused optimizers, which take it as an operator's argument and give the same bits for both.
    """
    for index, group in enumerate(group for copied in copies for group in copied.param_groups):
        rate = group.get("lr")
        source = ("param_group", index, "lr")
        is_number = isinstance(rate, (int, float))
        if isinstance(rate, torch.Tensor) or (group.get("fused") and is_number):
            dtype = rate.dtype if isinstance(rate, torch.Tensor) else torch.float64
            sizes = tuple(rate.shape) if isinstance(rate, torch.Tensor) else ()
            strides = expected_strides(rate) if isinstance(rate, torch.Tensor) else ()
            with recorder.fake_mode:
                fake = torch.empty_strided(sizes, strides, dtype=dtype)
            signature.specs.append(TensorInput(dtype, sizes, strides, False, source))
            inputs.append(recorder.table.add_input(fake, len(inputs)))
            group["lr"] = fake
        elif is_number:
            value, symbol = recorder.add_number(ValueKind.real, "a learning rate")
            signature.specs.append(NumberInput(ValueKind.real, source))
            inputs.append(value)
            group["lr"] = symbol
