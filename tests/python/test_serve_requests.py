"""Requests to `laneway serve` that are wrong: the answer says what is, and nobody else notices."""

import http.client

import pytest
import torch

from support.daemon import Lanewayd
from support.serving import Serve, binary, row, write_model

ONE = [0.5] * 8


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "linear")
    return folder


@pytest.fixture(scope="module")
def serve(models, daemon):
    with Serve(models, daemon.address) as running:
        yield running


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"shape": [1, 7], "data": ONE[:7]}, "[1, 7]; the model takes [-1, 8]"),
        ({"shape": [8], "data": ONE}, "[8]; the model takes [-1, 8]"),
        ({"shape": [0, 8], "data": []}, "[0, 8]; the model takes [-1, 8]"),
        ({"shape": [1 << 40, 8], "data": ONE}, "8796093022208 elements"),
        ({"shape": [1 << 70, 8], "data": ONE}, "give a list of at most"),
        ({"shape": [-1, 8], "data": ONE}, "give a list of at most"),
        ({"shape": "x", "data": ONE}, "give a list of at most"),
        ({"shape": [2, 8], "data": ONE}, "16 elements, and its data 8"),
        ({"shape": [1, 8], "data": "12345678"}, "its data is a str"),
        ({"shape": [1, 8], "data": [[1, 2], 3]}, "nested unevenly"),
        ({"shape": [1, 8], "data": ["1"] * 8}, "'x' is FP32"),
        ({"shape": [1, 8], "data": [1e39, *ONE[:7]]}, "beyond its range"),
        ({"shape": [1, 8], "data": ONE, "datatype": "FP64"}, "is FP64; the model takes FP32"),
        ({"shape": [1, 8], "data": ONE, "datatype": "BYTES"}, "datatype 'BYTES'"),
        ({"shape": [1, 8], "data": ONE, "name": "z"}, "there is no input 'z'"),
        ({"shape": [1, 8], "data": ONE, "name": None}, "an input's name is None"),
        ({"shape": [1, 8], "parameters": {"binary_data_size": 32}}, "and 0 are left"),
        ({"shape": [1, 8], "parameters": {"shared_memory_region": "a"}}, "shared memory"),
    ],
)
def test_a_wrong_tensor_is_answered_with_what_is_wrong(serve, given, words):
    reply = serve.infer("linear", [{"name": "x", "datatype": "FP32", **given}])
    assert reply.code == 400 and words in reply.error, reply.error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body is no JSON"),
        (b"[1]", "the body is a list"),
        (b"{}", "inputs: give a list"),
        (b"[" * 100_000, "the body is no JSON"),
        (b'{"inputs": []}', "input 'x' is missing"),
        (
            b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "data": [NaN]}]}',
            "no JSON",
        ),
        (b'{"inputs": [], "id": 7}', "id is 7"),
    ],
)
def test_a_wrong_body_is_answered_with_what_is_wrong(serve, body, words):
    reply = serve.ask("POST", "/v2/models/linear/infer", body)
    assert reply.code == 400 and words in reply.error, reply.error


@pytest.mark.parametrize("length", ["x", "-1", "99999999", "3", "\xb2", "1" * 5000])
def test_a_wrong_length_of_the_json_before_bytes(serve, length):
    body, _ = binary(torch.randn(1, 8))
    path = "/v2/models/linear/infer"
    assert serve.ask("POST", path, body, inference_header_content_length=length).code == 400


def test_outputs_are_objects_with_a_name(serve):
    asked = {"inputs": [row(torch.randn(1, 8))], "outputs": ["y"]}
    reply = serve.ask("POST", "/v2/models/linear/infer", asked)
    assert reply.code == 400 and "no object with name" in reply.error


def test_bytes_too_few_and_too_many(serve):
    body, headers = binary(torch.randn(1, 8))
    for wrong in (body[:-4], body + b"more"):
        reply = serve.ask("POST", "/v2/models/linear/infer", wrong, **headers)
        assert reply.code == 400 and "bytes" in reply.error


@pytest.mark.parametrize(
    "path", ["nobody", "..", "%2e%2e%2f", "linear/versions/9", "linear/versions/x", "a%00b"]
)
def test_what_there_is_not_is_404(serve, path):
    assert serve.infer(path, []).code == 404
    assert serve.get("/nothing").code == 404


def test_bodies_are_bounded_before_they_are_read(models, daemon):
    with Serve(models, daemon.address, limits={"BODY_BYTES": 1000, "BODY_S": 0.2}) as serve:
        connection = http.client.HTTPConnection(serve.host)
        connection.putrequest("POST", "/v2/models/linear/infer")
        connection.putheader("content-length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()
        connection = http.client.HTTPConnection(serve.host)
        connection.putrequest("POST", "/v2/models/linear/infer")
        connection.putheader("content-length", "100")
        connection.endheaders(b"{")  # and no more
        assert connection.getresponse().status == 408
        connection.close()
