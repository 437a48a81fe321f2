"""The judging of bench/corpus: that it sees what is wrong, and lives through workers that do not;
and the figures that the bench makes of rows."""

from __future__ import annotations

import sys

import pytest
import torch

import laneway
from bench import operators
from bench.corpus import bits, calls, exclusions, outcomes, parts, pool
from bench.corpus import operators as judging
from bench.corpus.layouts import LAYOUTS, laid_out
from bench.corpus.outcomes import Case, Outcome, Row
from bench.report import Report
from laneway.compile.compiled_graph import CompiledGraph
from laneway.compile.graph_job import GraphJob


def example(operator=torch.sin):
    values = [[torch.randn(3, 4)], [torch.randn(3, 4)]]
    return judging.Example(calls.Call(operator, (values[0][0],), {}), values)


def difference(expected, found, inputs=()):
    return bits.difference(bits.seen(expected, list(inputs)), bits.seen(found, list(inputs)))


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([0.0, -0.0, float("nan")]),
        torch.tensor([0.0, 0.0, 1.0]),
        torch.tensor([0, 0, float("nan")], dtype=torch.float64),
        torch.tensor([[0.0, 0.0, float("nan")]]),
        [torch.tensor([0.0, 0.0, float("nan")])] * 2,
        None,
    ],
)
def test_other_values_are_seen_to_the_last_bit(other):
    one = torch.tensor([0.0, 0.0, float("nan")])
    assert difference(one, other).real
    assert difference(one, one.clone()) == bits.Difference()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_is_not_a_number_has_no_bits(dtype):
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    one = torch.tensor([0.0, float("nan")]).to(dtype)
    other = one.clone()
    other.view(whole)[1] ^= 1
    found = difference(one, other)
    assert found.small and not found.real and not found.laid
    other[0] = -0.0
    assert difference(one, other).real


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64, torch.bfloat16])
def test_bytes_of_a_dimension_of_one_element_with_an_odd_stride(dtype):
    """It was taken for a case that eager refuses: torch looks at such a stride for a view of
    bytes."""
    one = torch.ones(1, 1, dtype=dtype)
    assert bits.bytes_of(one.as_strided((1, 1), (7, 0))) == bits.bytes_of(one)


def test_other_strides_and_shared_memory_are_seen_apart():
    x = torch.randn(3, 4)
    assert difference(x.t(), x.t().contiguous()).laid
    assert not difference(x.t(), x.t().contiguous()).real
    narrow = torch.zeros(1, 3)
    assert difference(narrow, narrow.as_strided((1, 3), (7, 1))).small
    assert difference(x[0], x[0].clone(), [x]).laid == (
        "result 0: shares memory with result 0 instead of input 0 at 0"
    )
    assert difference(x[0], x[1], [x]).real
    z = torch.randn(3, dtype=torch.complex64)
    assert difference(z.conj(), z.conj().resolve_conj()).laid


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_keeps_values_and_gives_memory_of_its_own(layout):
    """But for `expanded`, which repeats a dimension's first element."""
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    made, again = laid_out([x, x], layout)
    assert made is again and made.requires_grad and made.is_leaf
    assert torch.equal(made, x if layout != "expanded" else x[:1].expand(2, -1, -1, -1))
    copy = calls.replicas([made])[0]
    assert copy.stride() == made.stride() and copy.storage_offset() == made.storage_offset()
    assert copy.untyped_storage().data_ptr() != made.untyped_storage().data_ptr()
    strides = {name: laid_out([x], name)[0].stride() for name in LAYOUTS}
    assert len(set(strides.values())) == len(LAYOUTS)
    assert laid_out([torch.tensor(1.0)], layout) is None or layout == "contiguous"


def test_an_inference_that_is_wrong_is_found(monkeypatch):
    class Wrong:
        def __init__(self, model, service):
            self.model = model

        def __enter__(self):
            return lambda *tensors: self.model(*tensors) + 1e-6

        def __exit__(self, *_):
            pass

    with laneway.embedded("64MiB") as service:
        assert judging.inference(example(), service).kind == outcomes.EQUAL
        monkeypatch.setattr(laneway, "inference", Wrong)
        found = judging.inference(example(), service)
    assert found.kind == outcomes.DIFFERENT and "12 of 12 elements differ" in found.message


def test_an_inference_that_is_wrong_from_the_second_call_on_is_found(monkeypatch):
    """What was a value of the first call has become a constant."""
    run = laneway.inference

    class Constant:
        def __init__(self, model, service):
            self.predict = run(model, service)

        def __enter__(self):
            results = []
            return lambda *tensors: results[0] if results else self._first(results, tensors)

        def _first(self, results, tensors):
            results.append(self.predict(*tensors))
            return results[0]

        def __exit__(self, *_):
            self.predict.close()

    with laneway.embedded("64MiB") as service:
        monkeypatch.setattr(laneway, "inference", Constant)
        found = judging.inference(example(), service)
    assert found.kind == outcomes.DIFFERENT and found.message.startswith("call 2")


def test_refusals_and_unclear_errors_are_told_apart():
    with laneway.embedded("64MiB") as service:
        found = judging.inference(example(torch.nonzero), service)
        assert found.kind == outcomes.REFUSED and "aten::nonzero" in found.message
    assert outcomes.of_error(RuntimeError("x")).kind == outcomes.UNCLEAR
    assert outcomes.of_error(laneway.JobFailed("x")).kind == outcomes.UNCLEAR


def test_compiled_code_is_a_job_only_when_nothing_ran_eagerly(monkeypatch):
    """A graph whose job gives nothing runs its eager code and says so; one that does not say so is
    found."""
    assert judging.compiled(example(), None).kind == outcomes.EQUAL
    assert judging.compiled(example(torch.rand_like), None).kind == outcomes.EAGER_WARNED
    run = GraphJob.run

    def nothing(self, arguments):
        run(self, arguments)

    with monkeypatch.context() as patched:
        patched.setattr(GraphJob, "run", nothing)
        assert judging.compiled(example(), None).kind == outcomes.EAGER_WARNED
    monkeypatch.setattr(CompiledGraph, "__call__", lambda self, *arguments: self._code(*arguments))
    found = judging.compiled(example(), None)
    assert found.kind == outcomes.EAGER_SILENT
    assert "called its eager code 2 times" in found.message


def test_a_compiled_write_that_is_lost_is_found(monkeypatch):
    run = GraphJob.run

    def overwriting(self, arguments):
        results = run(self, arguments)
        arguments[0].zero_()
        return results

    monkeypatch.setattr(GraphJob, "run", overwriting)
    found = judging.compiled(example(), None)
    assert found.kind == outcomes.DIFFERENT and "result 1" in found.message


def test_a_compiled_error_that_eager_does_not_raise_is_found(monkeypatch):
    def failing(self, *arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(CompiledGraph, "__call__", failing)
    assert judging.compiled(example(), None).kind == outcomes.RAISED


_FAKE_WORKER = """
import json, os, sys, time
for line in sys.stdin:
    for number in range(json.loads(line)["skip"], 4):
        case = {"part": "p", "name": "n", "dtype": "float32", "sample": number, "form": "f"}
        print(json.dumps({"begin": case}), flush=True)
        if number == 1:
            os.abort()
        if number == 2:
            sys.stdin.readline()
        row = case | {"class": "bit-equal as a job", "message": "", "notes": [], "dynamic": False}
        print(json.dumps({"row": row}), flush=True)
    print(json.dumps({"done": True}), flush=True)
"""


def test_a_crash_and_a_hang_cost_one_case_each():
    units = [pool.Unit("p", "n", "float32", None, ("f",))] * 2
    rows = pool.judge(units, 2, timeout_s=1.0, command=[sys.executable, "-c", _FAKE_WORKER])
    kinds = [row.outcome.kind for row in rows]
    assert kinds == [outcomes.EQUAL, outcomes.CRASH, outcomes.HANG, outcomes.EQUAL] * 2
    assert [row.case.sample for row in rows] == [0, 1, 2, 3] * 2


def test_the_real_worker_judges_a_unit_of_each_part():
    chosen = {"modules": "nn.Linear", "optimizers": "SGD"}
    units = [
        pool.Unit(part, chosen.get(part, "sin"), "float32", 1, parts.forms(part)[:1])
        for part in parts.PARTS
    ]
    assert [row.outcome.kind for row in pool.judge(units)] == [outcomes.EQUAL] * len(units)


def row(kind, name="add", part="compile", **more):
    return Row(Case(part, name, "float32", 0, "sliced"), Outcome(kind, "words", **more))


def test_figures_of_rows(monkeypatch):
    """Three count: two equal, one eager with words. What is n/a, tagged, drawing or excluded does
    not."""
    monkeypatch.setitem(exclusions.EXCLUDED, "left_out", "a reason")
    rows = [row(outcomes.EQUAL), row(outcomes.EQUAL), row(outcomes.EAGER_WARNED)]
    rows += [row(outcomes.NOT_APPLICABLE), row(outcomes.EAGER_WARNED, dynamic=True)]
    rows += [row(outcomes.EAGER_WARNED, draws=True), row(outcomes.EAGER_WARNED, "left_out")]
    report = Report("operators")
    operators.report_part("compile", rows, report)
    found = {row["metric"]: row for row in report.rows}
    assert found["bit_equal_share"]["value"] == pytest.approx(2 / 3)
    assert found["bit_equal_share"]["holds"] is False
    assert found["share_with_random"]["value"] == pytest.approx(2 / 4)
    assert all(found[kind]["holds"] for kind in (outcomes.DIFFERENT, outcomes.RAISED))
    listed = report.samples[f"compile/{outcomes.EAGER_WARNED}"]
    assert "add float32: #0 sliced, #0 sliced, #0 sliced: words" in listed


def test_what_is_wrong_misses_its_target():
    report = Report("operators")
    operators.report_part("inference", [row(outcomes.DIFFERENT), row(outcomes.CRASH)], report)
    missed = {row["metric"] for row in report.missed()}
    assert missed >= {outcomes.DIFFERENT, outcomes.CRASH, "bit_equal_share"}


def test_at_most_twenty_are_left_out_each_with_a_reason():
    assert len(exclusions.EXCLUDED) <= exclusions.MOST
    assert all(exclusions.EXCLUDED.values())
    assert exclusions.EXCLUDED.keys() | exclusions.UNINITIALIZED <= set(parts.names("inference"))
