"""torch.compile(..., backend="laneway") gives eager's bits: models of the benches, of torchvision
and of transformers, and arguments and results of odd forms. Every row compares with eager."""

import pytest
import torch
from torch import nn

from bench import models
from support.compiled import (
    compare,
    compiled,
    eager_reasons,
    own_service,  # noqa: F401
    running,
)

# Torch's Dynamo makes no graph of code with recurrent layers.
WITHOUT_GRAPH = ("lstm",)


def inputs_of(name, count):
    workload = models.make(name, 3)
    batches = [workload.batch(i) for i in range(count)]
    return workload.model.eval(), [b[:-1] if workload.loss_fn else b for b in batches]


@pytest.mark.parametrize("name", models.NAMES)
def test_the_models_of_the_benches(name):
    model, calls = inputs_of(name, 3)
    if name in WITHOUT_GRAPH:
        with torch.no_grad(), pytest.warns(RuntimeWarning, match="no graph"):
            compare(model, calls)
        return
    with torch.no_grad():
        compare(model, calls)
    assert running() and not eager_reasons()


def test_under_inference_mode_too():
    model, calls = inputs_of("mlp", 3)
    with torch.inference_mode():
        made = compare(model, calls)
        assert made(*calls[0]).is_inference()
    assert running() and not eager_reasons()


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5"])
def test_models_of_torchvision(name):
    import torchvision

    model = torchvision.models.get_model(name).eval()
    with torch.no_grad():
        compare(model, [(torch.randn(2, 3, 64, 64),), (torch.randn(1, 3, 64, 64),)])
    assert running() and not eager_reasons()


def test_a_model_of_transformers_with_a_mask_by_name():
    import transformers

    config = transformers.DistilBertConfig(
        vocab_size=64, dim=32, n_heads=4, n_layers=2, hidden_dim=64, max_position_embeddings=32
    )
    model = transformers.DistilBertForSequenceClassification(config).eval()
    ids = torch.randint(0, 64, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    with torch.no_grad():
        compare(model, [((), {"input_ids": ids, "attention_mask": mask})])
    assert running() and not eager_reasons()


def test_a_model_of_transformers_that_goes_on_from_a_cache():
    """A cache is given, and comes back longer: other shapes in each call."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=64,
        n_embd=32,
        n_head=4,
        n_layer=2,
        n_positions=32,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(1, 64, (1, 5))
    expected = model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
    model.forward = compiled(model.forward)
    got = model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert torch.equal(expected, got)


def view_and_base(x):
    y = x * 2
    return y, y.view(-1), y[0]


def kept_and_new(x):
    return x, x.t(), x + 1


def expanded(x):
    return (x * 2).unsqueeze(0).expand(3, *x.shape), (x + 1).transpose(0, 1)


def gappy(x):
    return (x * 2)[:, ::2]


def numbers(x, scale, *, shift=0, names=("a",)):
    return {"y": x * scale + shift, names[0]: (x.shape[0], [x.sum(), None, True])}


def scalars(x):
    return x.sum(), x.new_tensor(3.0), torch.zeros(0, 2) + x[0, 0]


def dtypes(x):
    return x.double(), x.long(), x > 0, x.to(torch.bfloat16), torch.complex(x, -x)


def no_gradients_inside(x):
    with torch.no_grad():
        return x * 2


def default_precision(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


ROW = torch.arange(12.0).reshape(3, 4) - 5


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        (view_and_base, [(ROW,)]),
        (kept_and_new, [(ROW,), (ROW.t(),)]),
        (expanded, [(ROW,)]),
        (gappy, [(ROW,)]),
        (numbers, [((ROW, 2), {}), ((ROW, 3), {"shift": 1}), ((ROW, 2.5), {"names": ("z",)})]),
        (scalars, [(ROW,)]),
        (dtypes, [(ROW,)]),
        (no_gradients_inside, [(ROW,)]),
        (default_precision, [(ROW,)]),
        (lambda x, y: (x + y, y), [(torch.tensor(1.5), torch.tensor(2))]),
        (lambda x: x.sum(0), [(ROW,), (ROW.t(),), (ROW[:, ::2],), (ROW.expand(2, 3, 4),)]),
        (
            lambda xs, d: xs[0] + d["a"] * xs[1],
            [(([ROW, ROW], {"a": ROW + 1}), {})],
        ),
        (lambda x: torch.nn.functional.pad(x, (1, 1))[..., None], [(ROW,), (ROW[:2],), (ROW[:1],)]),
        (lambda x: x.permute(0, 3, 1, 2).relu(), [(torch.randn(2, 3, 3, 2) - 0.5,)]),
    ],
    ids=lambda value: getattr(value, "__name__", "calls"),
)
def test_arguments_and_results_of_odd_forms(code, calls):
    with torch.no_grad():
        compare(code, calls)
    assert running() and not eager_reasons()


def test_results_that_share_memory_still_do():
    """What runs after the graph may write into one and look at the other."""
    made = compiled(view_and_base)
    with torch.no_grad():
        y, line, row = made(ROW)
        y.zero_()
        assert not line.any() and not row.any()
        x = ROW.clone()
        same, turned, _ = compiled(kept_and_new)(x)
    assert same is x and turned.data_ptr() == x.data_ptr()


def test_a_graph_break_makes_several_jobs_named_after_function_and_line():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x = self.first(x).relu()
            torch._dynamo.graph_break()
            return self.second(x)

    with torch.no_grad(), pytest.warns(RuntimeWarning, match="in part eagerly.*graph_break"):
        made = compare(Broken().eval(), [(torch.randn(2, 4),), (torch.randn(2, 4),)])
    names = running()
    assert len(names) == 2 and len(eager_reasons()) == 1 and made is not None
    first = Broken.forward.__code__.co_firstlineno
    assert names == [f"forward@test_compile_backend.py:{first + n}" for n in (2, 3)]


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_other_shapes_are_other_graphs_of_one_job(dynamic):
    """Whether torch compiles again for them or not, the weights are in the pool once."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    made = torch.compile(model, backend="laneway", dynamic=dynamic)
    with torch.no_grad():
        for rows in (3, 5, 2, 7, 5, 3):
            x = torch.randn(rows, 4)
            assert torch.equal(made(x), model(x)), rows
    assert not eager_reasons()
    assert len(running()) == 1
