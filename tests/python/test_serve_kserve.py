"""Requests in KServe's form over HTTP: a JSON head that is known already gives what it gave when it
was parsed, and hides nothing that is wrong."""

import json

import pytest

from laneway.serve import limits
from laneway.serve.kserve import answer, parsed, read_json, written
from laneway.serve.problem import Problem
from laneway.serve.spec import Spec, TensorSpec
from laneway.serve.tensors import Tensor

SPEC = Spec(
    (TensorSpec("a", "FP32", (-1,)), TensorSpec("b", "INT8", (2,))),
    (TensorSpec("y", "INT8", (-1,)), TensorSpec("z", "INT8", (-1,))),
)
A, B = bytes(range(8)), b"\1\2"


def head(**more):
    b = {"name": "b", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}}
    a = {"name": "a", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
    told = {"inputs": [b, a], "parameters": {"binary_data_output": True}, **more}
    return json.dumps(told).encode()


def read(heads, text, behind=B + A):
    return parsed(SPEC, text + behind, str(len(text)), heads)


def test_a_known_head_gives_what_it_gave():
    heads = {}
    first, text = read(heads, head()), head()
    assert len(heads) == 1
    again = read(heads, text, b"\7\7" + A)
    assert first.inputs == [Tensor("FP32", (2,), A), Tensor("INT8", (2,), B)]
    assert again.inputs == [Tensor("FP32", (2,), A), Tensor("INT8", (2,), b"\7\7")]
    assert again.outputs == first.outputs == [(0, True), (1, True)] and again.id is None


def test_bytes_that_do_not_fit_a_known_head_are_told_as_ever():
    heads = {}
    for _ in range(2):
        read(heads, head())
        with pytest.raises(Problem, match="1 bytes behind those of the inputs belong to none"):
            read(heads, head(), B + A + b"!")
        with pytest.raises(Problem, match="has 8 bytes, and 7 are left"):
            read(heads, head(), B + A[:-1])


def test_the_answer_is_the_same_and_follows_its_shapes():
    heads, told = {}, []
    for size in (1, 1, 3, 1):
        outputs = [Tensor("INT8", (size,), bytes([n] * size)) for n in (5, 6)]
        body, length = answer("m", "1", SPEC, read(heads, head()), outputs)
        told.append((json.loads(body[:length]), body[length:]))
    assert told[0] == told[1] == told[3] and told[0][1] == b"\5\6"
    assert [one["shape"] for one in told[2][0]["outputs"]] == [[3], [3]]
    assert told[2][1] == b"\5\5\5\6\6\6"


@pytest.mark.parametrize(
    "text", [head(id="a"), head(outputs=[{"name": "y", "parameters": {"binary_data": False}}])]
)
def test_what_differs_from_call_to_call_is_not_kept(text):
    heads = {}
    read(heads, text)
    assert heads == {}


def test_numbers_in_the_head_are_not_kept():
    heads = {}
    a = {"name": "a", "datatype": "FP32", "shape": [1], "data": [1.5]}
    b = {"name": "b", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}}
    text = json.dumps({"inputs": [a, b], "parameters": {"binary_data_output": True}}).encode()
    assert read(heads, text, B).inputs[1].data == B and heads == {}


@pytest.mark.parametrize("text", [b"", b"[" * 100_000, b'{"a": NaN}', b'{"a": 1e999}', b"\xff"])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(Problem, match="the body is no JSON"):
        read_json(text)


def test_a_text_that_is_no_utf_8_can_be_told():
    assert json.loads(written({"why": "a\udcffb", "n": 1.5})) == {"why": "a\udcffb", "n": 1.5}


def test_heads_are_bounded():
    heads = {}
    for number in range(limits.HEADS_KEPT + 2):
        read(heads, head(number=number))
    assert len(heads) == limits.HEADS_KEPT and head(number=1) not in heads
    read(heads, head(long="x" * limits.HEAD_KEPT_BYTES))
    assert len(heads) == limits.HEADS_KEPT
