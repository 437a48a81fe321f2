"""Which form runs a request: the smallest of those that a model has been captured for, none above
max_batch, which need not be a power of two; and which shapes a model takes at all."""

import pytest

from laneway.serve.batch import all_forms, form_rows, form_shapes
from laneway.serve.problem import Problem
from laneway.serve.spec import Spec, TensorSpec


def spec(max_batch):
    tensor = TensorSpec("x", "FP32", (-1, 8))
    return Spec(inputs=(tensor,), outputs=(tensor,), max_batch=max_batch)


@pytest.mark.parametrize("most", [2, 6, 8])
def test_a_request_runs_in_the_smallest_form_that_holds_it(most):
    forms = [shapes[0][0] for shapes in all_forms(spec(most), ((1, 8),))]
    assert forms == sorted(set(forms)) and forms[-1] == most
    for rows in range(1, most + 1):
        assert form_rows(rows, most) == min(form for form in forms if form >= rows)
        assert form_shapes(spec(most), ((rows, 8),)) == ((form_rows(rows, most), 8),)


@pytest.mark.parametrize("shape", [(), (3,), (3, 7), (0, 8), (3, 8, 1)])
def test_a_shape_that_the_model_does_not_take_is_refused_by_name(shape):
    with pytest.raises(Problem, match="input 'x' has shape"):
        TensorSpec("x", "FP32", (-1, 8)).check(shape)


def test_any_size_above_zero_stands_for_minus_one():
    TensorSpec("x", "FP32", (-1, 8)).check((3, 8))
