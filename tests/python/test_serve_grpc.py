"""`laneway serve` over gRPC: tritonclient as it is gets the bits of eager execution, what is wrong
is answered in gRPC's codes with the sentence that HTTP has, and who goes away cancels."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
triton = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
from tritonclient.grpc import service_pb2, service_pb2_grpc  # noqa: E402

from laneway.serve import messages  # noqa: E402
from support.cli import run  # noqa: E402
from support.daemon import Lanewayd, wait_until  # noqa: E402
from support.serving import LINEAR, Serve, row, write_model  # noqa: E402
from test_serve import TWO, TWO_TOML, eager  # noqa: E402
from test_serve_faults import counts, full_pool  # noqa: E402

GRPC = ("--grpc", "127.0.0.1:0")
PROMPT_S = 120.0  # a deadline that only a hang meets


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "linear")
    write_model(folder, "two", TWO, TWO_TOML)
    write_model(folder, "raises", "def load():\n    raise ValueError('no luck')")
    return folder


@pytest.fixture(scope="module")
def serve(models, daemon):
    with Serve(models, daemon.address, *GRPC) as running:
        wait_until(lambda: running.get("/v2/health/ready").code == 200, "the service")
        yield running


@pytest.fixture(scope="module")
def stub(serve):
    with grpc.insecure_channel(serve.rpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(x, name="linear", **more):
    """An inference of this tensor, its bytes apart."""
    asked = service_pb2.ModelInferRequest(model_name=name, **more)
    asked.inputs.add(name="x", datatype="FP32", shape=x.shape)
    asked.raw_input_contents.append(x.numpy().tobytes())
    return asked


def refused(call, *given, **more):
    """Code and sentence."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*given, timeout=PROMPT_S, **more)
    return caught.value.code(), caught.value.details()


def tensor_of(answer, index=0, dtype=torch.float32):
    made = torch.frombuffer(bytearray(answer.raw_output_contents[index]), dtype=dtype)
    return made.reshape(tuple(answer.outputs[index].shape))


def test_the_ready_line_names_both_addresses(serve):
    wanted = rf"laneway serve ready: {serve.url} grpc://127\.0\.0\.1:\d+ models linear,raises,two "
    assert re.fullmatch(rf"{wanted}pid {serve.process.pid}", serve.ready)


def test_our_messages_are_the_protocols():
    """Each field that ours have is tritonclient's of the same message: number, name, type, list."""
    seen = set()

    def compare(own, theirs):
        if own.name in seen:
            return
        seen.add(own.name)
        by_number = {field.number: field for field in theirs.fields}
        for field in own.fields:
            other = by_number[field.number]
            assert (field.name, field.type) == (other.name, other.type), own.name
            assert field.is_repeated == other.is_repeated, (own.name, field.name)
            if field.message_type is not None:
                compare(field.message_type, other.message_type)
            if field.enum_type is not None:
                theirs_of = {one.name: one.number for one in other.enum_type.values}
                for one in field.enum_type.values:
                    assert theirs_of[one.name] == one.number

    for name, made in messages.CLASSES.items():
        if name.endswith(("Request", "Response")):
            compare(made.DESCRIPTOR, getattr(service_pb2, name).DESCRIPTOR)
    assert seen == set(messages.CLASSES)


def test_tritonclient_as_it_is(serve):
    client = triton.InferenceServerClient(serve.rpc)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("linear")
    told = client.get_server_metadata()
    assert told.name == "laneway" and list(told.extensions) == ["model_repository", "statistics"]
    (given,) = client.get_model_metadata("linear").inputs
    assert (given.name, given.datatype, list(given.shape)) == ("x", "FP32", [-1, 8])
    config = client.get_model_config("linear", as_json=True)["config"]
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    client.load_model("linear")
    x = torch.randn(5, 8)
    given = triton.InferInput("x", [5, 8], "FP32")
    given.set_data_from_numpy(x.numpy())
    wanted = [triton.InferRequestedOutput("y")]
    answer = client.infer("linear", [given], outputs=wanted, request_id="a 1", model_version="1")
    assert torch.equal(torch.from_numpy(answer.as_numpy("y").copy()), eager(LINEAR, x))
    assert answer.get_response().id == "a 1" and answer.get_response().model_version == "1"
    index = {one.name: one.state for one in client.get_model_repository_index().models}
    assert index["linear"] == "READY" and index["two"] == "UNAVAILABLE"
    (stats,) = client.get_inference_statistics("linear").model_stats
    over_http = serve.get("/v2/models/linear/stats").json()["model_stats"][0]
    assert stats.inference_count == over_http["inference_count"] >= 1
    assert stats.inference_stats.success.ns == over_http["inference_stats"]["success"]["ns"] > 0
    client.unload_model("linear")
    assert len(client.get_model_repository_index().models) == 3
    with pytest.raises(triton.InferenceServerException, match="load takes no parameters"):
        client.load_model("linear", config="{}")
    with pytest.raises(triton.InferenceServerException, match="there is no model 'nobody'"):
        client.get_model_metadata("nobody")
    client.close()


def test_inputs_by_name_and_as_numbers_and_outputs_that_are_asked_for(stub):
    a, b = torch.randn(2, 2), torch.tensor([3, -4], dtype=torch.int32)
    asked = service_pb2.ModelInferRequest(model_name="two")
    given = asked.inputs.add(name="b", datatype="INT32", shape=[2])
    given.contents.int_contents.extend(b.tolist())
    given = asked.inputs.add(name="a", datatype="FP32", shape=[2, 2])
    given.contents.fp32_contents.extend(a.flatten().tolist())
    answer = stub.ModelInfer(asked, timeout=PROMPT_S)
    assert [one.name for one in answer.outputs] == ["more", "sum"]
    assert torch.equal(tensor_of(answer, 0, torch.int32), b + 1)
    assert torch.equal(tensor_of(answer, 1), a + b)
    asked.outputs.add(name="sum")
    assert [one.name for one in stub.ModelInfer(asked).outputs] == ["sum"]


def test_nan_and_infinite_numbers_pass(stub):
    x = torch.tensor([[float("nan"), float("inf"), -0.0, *range(5)]])
    answer = stub.ModelInfer(request(x), timeout=PROMPT_S)
    assert answer.raw_output_contents[0] == eager(LINEAR, x).numpy().tobytes()


def spoilt(change):
    asked = request(torch.zeros(1, 8))
    change(asked)
    return asked


WRONG = {
    "shape": (lambda r: r.inputs[0].shape.__setitem__(1, 7), "[1, 7]; the model takes [-1, 8]"),
    "rows": (lambda r: r.inputs[0].shape.__setitem__(0, 1 << 40), "and 32 came"),
    "no rows": (lambda r: r.inputs[0].shape.__setitem__(0, 0), "[0, 8]; the model takes [-1, 8]"),
    "negative": (lambda r: r.inputs[0].shape.__setitem__(0, -1), "give a list of at most"),
    "datatype": (lambda r: setattr(r.inputs[0], "datatype", "FP64"), "the model takes FP32"),
    "unknown type": (lambda r: setattr(r.inputs[0], "datatype", "BYTES"), "datatype 'BYTES'"),
    "name": (lambda r: setattr(r.inputs[0], "name", "z"), "there is no input 'z'"),
    "no name": (lambda r: r.inputs[0].ClearField("name"), "an input's name is ''"),
    "twice": (lambda r: r.MergeFrom(request(torch.zeros(1, 8))), "an input's name is 'x'"),
    "no input": (lambda r: r.ClearField("inputs"), "raw_input_contents has 1 entries for 0"),
    "no bytes": (lambda r: r.ClearField("raw_input_contents"), "has 32 bytes, and 0 came"),
    "few bytes": (lambda r: r.raw_input_contents.__setitem__(0, b"abc"), "32 bytes, and 3 came"),
    "shared memory": (
        lambda r: setattr(r.inputs[0].parameters["shared_memory_region"], "string_param", "a"),
        "shared memory is not taken here",
    ),
    "output": (lambda r: r.outputs.add(name="z"), "there is no output 'z'; the model has y"),
    "classes": (
        lambda r: setattr(r.outputs.add(name="y").parameters["classification"], "int64_param", 3),
        "output 'y': only binary_data is taken",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_tensor_is_answered_with_what_is_wrong(stub, what):
    change, words = WRONG[what]
    code, why = refused(stub.ModelInfer, spoilt(change))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and words in why, why


def test_numbers_in_a_field_of_another_type_and_beyond_their_range(stub):
    asked = service_pb2.ModelInferRequest(model_name="two")
    given = asked.inputs.add(name="b", datatype="INT16", shape=[1])
    given.contents.int_contents.append(1 << 20)
    code, why = refused(stub.ModelInfer, asked)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "'b' is INT16" in why
    given.contents.fp32_contents.append(1.0)
    _, why = refused(stub.ModelInfer, asked)
    assert "give contents.int_contents or raw_input_contents" in why
    given.datatype = "BF16"
    _, why = refused(stub.ModelInfer, asked)
    assert "is BF16 and has int_contents, fp32_contents: give raw_input_contents" in why


def test_bytes_that_are_no_message(serve):
    with grpc.insecure_channel(serve.rpc) as channel:
        call = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")
        code, why = refused(call, b"\xff\xff\xff")
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "the message is no ModelInferRequest" in why


def test_each_failure_has_its_code_and_the_sentence_of_http(serve, stub):
    code, why = refused(stub.ModelInfer, request(torch.zeros(1, 8), "nobody"))
    assert code == grpc.StatusCode.NOT_FOUND
    assert why == serve.infer("nobody", []).error
    code, why = refused(stub.ModelInfer, request(torch.zeros(1, 8), model_version="9"))
    assert code == grpc.StatusCode.NOT_FOUND and "it has 1" in why
    code, why = refused(stub.ModelInfer, request(torch.zeros(1, 8), "raises"))
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "ValueError: no luck" in why
    assert why == serve.infer("raises", [row(torch.zeros(1, 8))]).error
    assert not stub.ModelReady(service_pb2.ModelReadyRequest(name="raises")).ready
    code, _ = refused(stub.SystemSharedMemoryStatus, service_pb2.SystemSharedMemoryStatusRequest())
    assert code == grpc.StatusCode.UNIMPLEMENTED


def test_without_a_service_it_is_unavailable_and_says_when_to_try_again(models):
    with (
        Serve(models, "ipc:///tmp/laneway-nobody/laneway.sock", *GRPC) as serve,
        grpc.insecure_channel(serve.rpc) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        assert not stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request(torch.zeros(1, 8)), timeout=PROMPT_S)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert ("grpc-retry-pushback-ms", "1000") in caught.value.trailing_metadata()
        assert serve.end(signal.SIGTERM) == 0  # with a channel that is open


def test_a_deadline_a_cancelled_call_and_a_full_queue(tmp_path):
    x = torch.zeros(1, 1000)
    more = "deadline_ms = 60000\nqueue = 1"
    with (
        full_pool(tmp_path, more, *GRPC) as (serve, pinned),
        grpc.insecure_channel(serve.rpc) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(request(x, "big"), timeout=0.5)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: counts(serve)["cancel"] == 1, "its cancellation")
        first = stub.ModelInfer.future(request(x, "big"), timeout=PROMPT_S)
        waits = b'laneway_inference_pending_requests{model="big",version="1"} 1.0'
        wait_until(lambda: waits in serve.get("/metrics").body, "the first one in the queue")
        code, why = refused(stub.ModelInfer, request(x, "big"))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "its queue holds no more" in why
        first.cancel()
        wait_until(lambda: counts(serve)["cancel"] == 2, "the other cancellation")
        pinned.close()  # now there is room
        assert stub.ModelInfer(request(x, "big"), timeout=PROMPT_S).outputs[0].name == "y"


def test_the_models_own_deadline_says_what_was_waited_for(tmp_path):
    with (
        full_pool(tmp_path, "deadline_ms = 3000", *GRPC) as (serve, _),
        grpc.insecure_channel(serve.rpc) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        code, why = refused(stub.ModelInfer, request(torch.zeros(1, 1000), "big"))
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED and "3000 ms have passed" in why


def test_beyond_loopback_a_key_is_wanted_and_a_place_is_a_port(models):
    done = run("serve", "--models", str(models), "--listen", "127.0.0.1:0", "--grpc", "0.0.0.0:0")
    assert done.returncode == 2 and "--grpc 0.0.0.0:0 can be reached" in done.stderr
    for wrong in ("unix:/tmp/a", "here"):
        done = run("serve", "--models", str(models), "--listen", "127.0.0.1:0", "--grpc", wrong)
        assert done.returncode == 2 and "give HOST:PORT" in done.stderr


def test_a_port_that_somebody_has_is_refused(serve, models):
    done = run("serve", "--models", str(models), "--listen", "127.0.0.1:0", "--grpc", serve.rpc)
    assert done.returncode == 4 and f"cannot listen on {serve.rpc} for gRPC" in done.stderr


@pytest.mark.parametrize("library", ["grpc", "google.protobuf"])
def test_without_its_libraries_it_says_how_to_get_them(library, tmp_path):
    code = f"import sys; sys.modules[{library!r}] = None; from laneway.cli import main; "
    words = ["serve", "--models", str(tmp_path), "--grpc", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(main({words!r}))"],
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "pip install 'laneway[serve]'" in done.stderr, done.stderr
