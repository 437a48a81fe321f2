"""Nothing that torch.compile(backend="laneway") runs eagerly is silent: it warns once, by function
and line, stands in report() with the reason, and is a laneway.Error with strict; the results are
eager's. Each case is called three times and compared with eager execution."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import laneway
from laneway.compile import compile_notices, compiled_graph, graph_results
from laneway.compile.graph_job import GraphJob
from support.compiled import (
    compiled,
    flat,
    layouts,
    own_service,  # noqa: F401
    running,
)
from support.eager import assert_same
from support.lying_fakes import refusing

X = torch.linspace(-1, 1, 15).reshape(3, 5)


def breaks_first(x):
    torch._dynamo.graph_break()
    return x + 1


def breaks_in_the_middle(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1


def breaks_in_a_loop(x):
    for _ in range(2):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def reads_a_number(x):
    return x * x.sum().item()


def decides(x):
    return x if x.sum() > 0 else -x


def disabled_inside(x):
    return of_its_own(x) * 2


@torch.compiler.disable
def of_its_own(x):
    return x + 1


def split(x):
    return torch.tensor_split(x, torch.tensor([1, 2]))


def gaussian(x):
    return F.gaussian_nll_loss(x, x + 1, x.abs() + 1)


def ctc(x):
    scores = x.log_softmax(1)[:, None]
    return F.ctc_loss(scores, torch.tensor([[1, 2]]), (3,), (2,))


def flat_copy(x):
    """The fake kernel refuses what the real one takes, and so does Dynamo."""
    return torch.ops.aten.view_copy(x.t(), (15,))


def keeps_memory_of_a_lane(x):
    return torch.ops.aten._unsafe_masked_index(x, X > 0, [torch.arange(3)], 0.0)


def spectrum(x):
    """A copy is made, a view refused: what the graph holds depends on the layout."""
    return torch.fft.rfft(x[None], dim=1).abs().flatten(1)


CASES = [
    breaks_first,
    breaks_in_the_middle,
    breaks_in_a_loop,
    reads_a_number,
    decides,
    disabled_inside,
    split,
    gaussian,
    ctc,
    flat_copy,
    keeps_memory_of_a_lane,
    lambda x: torch.unique(x),
    lambda x: torch.nonzero(x > 0),
    lambda x: torch.masked_select(x, x > 0),
    lambda x: x[x > 0],
    lambda x: torch.tensor(torch.allclose(x, x)),
    lambda x: torch.tensor(torch.equal(x, x)),
    lambda x: x.to_sparse().to_dense(),
    lambda x: x.clone().resize_(2, 3),
    lambda x: torch.linalg.lstsq(torch.eye(3), x).rank,
    lambda x: torch.linalg.eigvals(x @ x.t()),
]


@pytest.fixture(autouse=True)
def the_fake_of_flat_copy_refuses():
    """As that of torch 2.11 does; that of 2.15 takes what the kernel takes."""
    with refusing(torch.ops.aten.view_copy.default):
        yield


def told(caught):
    return [str(w.message) for w in caught if "Laneway" in str(w.message)]


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
def test_what_runs_eagerly_is_said_once_and_reported(code):
    made = compiled(code)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            expected, got = code(X), made(X)
            assert_same(flat(expected), flat(got))
            assert layouts(expected) == layouts(got)
    rows = [row for row in laneway.compile_backend.report() if row["eager"]]
    assert len(told(caught)) == len(rows), (told(caught), rows)
    assert len(rows) == 1 or "sparse" in rows[1]["eager"], "what is behind the break, again"
    for row, text in zip(rows, told(caught)):
        assert row["name"].startswith(f"{code.__name__}@test_compile_notices.py:")
        assert text.startswith(row["name"]) and row["eager"] in text
    torch._dynamo.reset()
    assert laneway.compile_backend.report() == []


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.__name__)
@pytest.mark.filterwarnings("ignore")
def test_strict_makes_each_of_them_an_error(code):
    made = compiled(code, strict=True)
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(laneway.Error):
                made(X)
    assert running() == []


def test_only_what_is_between_two_graphs_runs_eagerly():
    made = compiled(breaks_in_the_middle)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="in part eagerly.*graph_break"):
        made(X)
    assert len(running()) == 2
    rows = laneway.compile_backend.report()
    assert [bool(row["jobs"]) for row in rows] == [True, True, False]


def test_generators_are_said():
    def rows(x):
        yield x + 1
        yield x * 2

    made = compiled(rows)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="rows@.*generator"):
        assert_same(list(rows(X)), list(made(X)))


def test_code_without_an_operator_is_nothing_to_tell(recwarn):
    with torch.no_grad():
        assert compiled(lambda x: 3)(X) == 3
    assert not told(recwarn) and laneway.compile_backend.report() == []


@pytest.mark.parametrize("code", [breaks_first, nn.Linear(5, 2)], ids=["function", "module"])
def test_a_dispatch_mode_under_which_torch_compiles_nothing_is_said(code):
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    made = compiled(code)
    with torch.no_grad(), Mode(), pytest.warns(RuntimeWarning, match=r"eagerly.*DispatchMode"):
        assert_same(code(X), made(X))
    assert len(laneway.compile_backend.report()) == 1


def test_a_compiled_function_in_a_captured_model_is_part_of_its_graph(recwarn):
    """Under a dispatch mode of our own: nothing runs eagerly."""

    class Model(nn.Module):
        def forward(self, x):
            return made(x) + 1

    made = compiled(lambda x: x * 2)
    with laneway.inference(Model()) as predict:
        assert_same(X * 2 + 1, predict(X))
    assert not told(recwarn) and laneway.compile_backend.report() == []


@torch._dynamo.config.patch(recompile_limit=3)
def test_the_limit_of_recompilations_is_said():
    def scaled(x, how):
        return x * len(how)

    made = compiled(scaled)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="recompile_limit") as caught:
        for how in ("a", "bb", "ccc", "dddd", "eeeee", "dddd"):
            assert torch.equal(scaled(X, how), made(X, how))
    assert len(told(caught)) == 1
    rows = laneway.compile_backend.report()
    assert [bool(row["jobs"]) for row in rows] == [True, True, True, False]


def test_fullgraph_raises_as_torch_does_and_strict_in_our_words():
    made = torch.compile(breaks_first, backend="laneway", fullgraph=True)
    with torch.no_grad(), pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        made(X)
    torch._dynamo.reset()
    strict = torch.compile(
        breaks_first, backend="laneway", fullgraph=True, options={"strict": True}
    )
    with torch.no_grad(), pytest.raises(laneway.CaptureError, match="graph_break"):
        strict(X)


def test_a_module_of_torchs_own_is_said_by_its_class():
    with torch.no_grad(), pytest.warns(RuntimeWarning, match=r"^LSTM runs eagerly"):
        compiled(nn.LSTM(5, 3))(X)
    assert [row["name"] for row in laneway.compile_backend.report()] == ["LSTM"]


def test_strict_in_training_is_an_error_of_ours():
    with pytest.raises(laneway.CaptureError, match="require gradients"):
        compiled(nn.Linear(5, 2), strict=True)(X)


def test_wrong_options_are_an_error_of_ours():
    with torch.no_grad(), pytest.raises(laneway.InvalidInput, match="nmae"):
        compiled(nn.Linear(5, 2), nmae="x")(X)


# What a job fails on and eager execution does not.

ERRORS = [
    laneway.InvalidInput("view size is not compatible"),
    laneway.Error("left 160 B of its lane in use"),
    laneway.JobFailed("an operator failed"),
    RuntimeError("out of a fake kernel"),
    ValueError("Cannot view a tensor"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_call_that_only_its_job_fails_on_runs_eagerly_and_is_said(error, monkeypatch):
    def fail(job, arguments):
        raise error

    monkeypatch.setattr(GraphJob, "run", fail)
    model = nn.Linear(5, 2)
    made, strict = compiled(model), compiled(model, strict=True)
    with torch.no_grad():
        with pytest.warns(RuntimeWarning, match=str(error)) as caught:
            for _ in range(3):
                assert torch.equal(model(X), made(X))
        assert len(told(caught)) == 1
        assert str(error) in laneway.compile_backend.report()[0]["eager"]
        with pytest.raises(laneway.Error, match=str(error)):
            strict(X)


@pytest.mark.parametrize("kind", compiled_graph._OF_THE_SERVICE)
def test_what_the_service_lacks_is_raised(kind, monkeypatch):
    def fail(job, arguments):
        raise kind("no")

    monkeypatch.setattr(GraphJob, "run", fail)
    monkeypatch.setattr(compiled_graph, "forget_service", lambda service: None)
    with torch.no_grad(), pytest.raises(kind):
        compiled(nn.Linear(5, 2))(X)


def test_ctrl_c_in_a_capture_is_raised(monkeypatch):
    def interrupt(job, arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(GraphJob, "run", interrupt)
    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        compiled(nn.Linear(5, 2))(X)


def test_results_that_cannot_be_put_together_are_said(monkeypatch):
    monkeypatch.setattr(graph_results.ResultPlan, "put_together", lambda *_: None)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="view of an argument") as caught:
        model = nn.Linear(5, 2)
        made = compiled(model)
        for _ in range(2):
            assert torch.equal(model(X), made(X))
    assert len(told(caught)) == 1


def test_a_buffer_was_written_twice_where_results_could_not_be_put_together(monkeypatch):
    """By the job, and by the eager execution that followed."""
    monkeypatch.setattr(graph_results.ResultPlan, "put_together", lambda *_: None)
    model = nn.BatchNorm1d(5).train()
    made = compiled(model)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="view of an argument"):
        made(X)
    assert model.num_batches_tracked == 1


def test_an_error_of_eagers_leaves_the_job_as_it_is(recwarn):
    """Nothing is said of it but eager's own words."""
    table = nn.Embedding(5, 3)
    made = compiled(table)
    with torch.no_grad():
        for wrong in (torch.tensor([9]), torch.tensor([-1])):
            with pytest.raises(IndexError):
                made(wrong)
        assert torch.equal(made(torch.tensor([3])), table(torch.tensor([3])))
    assert running() and not told(recwarn)


def test_a_wrong_shape_is_eagers_error_and_the_next_call_is_a_job():
    """Dynamo cannot trace the first; it looks again at the second."""

    def plus(x, y):
        return x + y

    made = compiled(plus)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="must match the size"):
            made(X, torch.ones(7))
        assert torch.equal(made(X, X), X + X)
    assert running()


OPTION = "Set torch._dynamo.config.allow_rnn=True to enable experimental support for RNN"


@pytest.mark.parametrize(
    "said",
    [
        f"Attempted to wrap RNN\n  Explanation: no RNN.\n  Hint: {OPTION}\n",  # torch 2.11
        f"Unsupported call\n  Explanation: calling `fn`. Reason: no RNN. {OPTION}\n",  # torch 2.15
    ],
)
def test_an_option_that_torch_names_is_a_hint_in_each_version(said):
    hint = "; torch._dynamo.config.allow_rnn = True lets torch try"
    assert hint in compile_notices._said([said], has_graph=False)
    assert "allow_rnn" not in compile_notices._said(["graph break"], has_graph=False)
