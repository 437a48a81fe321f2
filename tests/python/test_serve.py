"""`laneway serve`: what a caller gets. Answers have the bits of eager execution, through KServe's
JSON and binary forms and OpenAI's; models are loaded by the first request."""

import base64
import concurrent.futures
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.cli import run
from support.daemon import Lanewayd, wait_until
from support.serving import LINEAR, Serve, binary, floats, output_bytes, row, write_model

ROOT = Path(__file__).resolve().parents[2]
EMBED_TOML = """
[[input]]
name = "tokens"
datatype = "INT64"
shape = [-1, -1]
[[output]]
name = "embedding"
datatype = "FP32"
shape = [-1, 6]
"""
EMBED = """
import torch
class Mean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table = torch.nn.Embedding(50, 6)
    def forward(self, tokens):
        return self.table(tokens).mean(1)
def load():
    return Mean()
"""
TWO_TOML = """
[[input]]
name = "a"
datatype = "FP32"
shape = [2, 2]
[[input]]
name = "b"
datatype = "INT32"
shape = [2]
[[output]]
name = "more"
datatype = "INT32"
shape = [2]
[[output]]
name = "sum"
datatype = "FP32"
shape = [2, 2]
"""
TWO = """
import torch
class Two(torch.nn.Module):
    def forward(self, a, b):
        return {"sum": a + b, "more": b + 1}
def load():
    return Two()
"""
VERSIONED = """
import torch
def load():
    return torch.nn.Linear(8, 3)
"""


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "linear")
    write_model(folder, "batched", more="max_batch = 8\nmax_delay_us = 1000000")
    write_model(folder, "embed", EMBED, EMBED_TOML)
    write_model(folder, "two", TWO, TWO_TOML)
    versioned = write_model(folder, "versioned", VERSIONED)
    for version in (1, 2):
        (versioned / str(version)).mkdir(mode=0o755)
        torch.manual_seed(version)
        weights = versioned / str(version) / "weights.pt"
        torch.save(torch.nn.Linear(8, 3).state_dict(), weights)
        weights.chmod(0o644)
    return folder


@pytest.fixture(scope="module")
def serve(models, daemon):
    with Serve(models, daemon.address) as running:
        wait_until(lambda: running.get("/v2/health/ready").code == 200, "the service")
        yield running


def eager(code, *inputs):
    """What the model of this code gives."""
    space = {}
    exec(code, space)
    with torch.no_grad():
        return space["load"]().eval()(*inputs)


def test_the_ready_line_names_address_models_and_pid(serve):
    names = "batched,embed,linear,two,versioned"
    pid = serve.process.pid
    assert serve.ready == f"laneway serve ready: {serve.url} models {names} pid {pid}"


def test_metadata_and_health(serve):
    assert serve.get("/v2").json()["name"] == "laneway"
    assert serve.get("/v2/health/live").code == 200
    told = serve.get("/v2/models/linear").json()
    assert told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}]
    assert told["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
    assert serve.get("/v2/models/linear/ready").code == 200
    assert serve.get("/healthz").json() == {"serve": "ready", "service": "ready"}


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_json_and_binary_have_the_bits_of_eager_execution(serve, rows):
    x = torch.randn(rows, 8)
    expected = eager(LINEAR, x)
    told = serve.infer("linear", [row(x)], id="a 1").json()
    assert told["id"] == "a 1" and told["model_name"] == "linear" and told["model_version"] == "1"
    assert told["outputs"][0]["shape"] == [rows, 3]
    assert torch.equal(torch.tensor(told["outputs"][0]["data"]).reshape(rows, 3), expected)
    body, headers = binary(x)
    reply = serve.ask("POST", "/v2/models/linear/infer", body, **headers)
    assert output_bytes(reply) == expected.numpy().tobytes()


def test_nan_and_infinite_numbers_pass_as_bytes(serve):
    x = torch.tensor([[float("nan"), float("inf"), -0.0, *range(5)]])
    body, headers = binary(x)
    reply = serve.ask("POST", "/v2/models/linear/infer", body, **headers)
    assert output_bytes(reply) == eager(LINEAR, x).numpy().tobytes()
    as_json = binary(x, parameters={})[0]
    length = str(len(as_json) - 32)
    path = "/v2/models/linear/infer"
    reply = serve.ask("POST", path, as_json, inference_header_content_length=length)
    assert reply.code == 400 and "output 'y' has 3 values that JSON has not" in reply.error


def test_inputs_by_name_and_outputs_that_are_asked_for(serve):
    a, b = torch.randn(2, 2), torch.tensor([3, -4], dtype=torch.int32)
    inputs = [row(b, "b", "INT32"), row(a, "a")]
    told = serve.infer("two", inputs).json()["outputs"]
    assert [one["name"] for one in told] == ["more", "sum"] and told[0]["data"] == [4, -3]
    assert torch.equal(torch.tensor(told[1]["data"]).reshape(2, 2), a + b)
    only = serve.infer("two", inputs, outputs=[{"name": "sum"}]).json()["outputs"]
    assert only == [told[1]]


def test_versions_are_chosen_by_number_and_the_newest_without_one(serve):
    x = torch.randn(2, 8)
    for path, seed in (("versioned/versions/1", 1), ("versioned", 2), ("versioned/versions/2", 2)):
        torch.manual_seed(seed)
        expected = torch.nn.Linear(8, 3)(x).detach()
        data = serve.infer(path, [row(x)]).json()["outputs"][0]["data"]
        assert torch.equal(torch.tensor(data).reshape(2, 3), expected), path
    reply = serve.infer("versioned/versions/3", [row(x)])
    assert reply.code == 404 and "it has 1, 2" in reply.error


def test_load_unload_and_index(serve, daemon):
    def state(name):
        rows = serve.ask("POST", "/v2/repository/index", {}).json()
        return next(one["state"] for one in rows if one["name"] == name)

    path = "/v2/repository/models/linear"
    assert serve.ask("POST", f"{path}/load").code == 200 and state("linear") == "READY"
    with daemon.connect() as service:

        def jobs():
            ended = ("finished", "cancelled")
            rows = service.status()["jobs"]
            return [job["name"] for job in rows if job["state"] not in ended]

        assert "linear" in jobs()
        assert serve.ask("POST", f"{path}/unload", {}).code == 200
        assert state("linear") == "UNAVAILABLE" and "linear" not in jobs()
    ready = serve.ask("POST", "/v2/repository/index", {"ready": True}).json()
    assert all(one["state"] == "READY" for one in ready)
    assert serve.infer("linear", [row(torch.randn(1, 8))]).code == 200


def test_statistics_count_what_was_answered(serve):
    def told():
        (stats,) = serve.get("/v2/models/linear/stats").json()["model_stats"]
        return stats["inference_stats"]["success"]["count"], stats["execution_count"]

    serve.infer("linear", [row(torch.randn(1, 8))])
    before = told()
    serve.infer("linear", [row(torch.randn(1, 8))])
    assert told() == (before[0] + 1, before[1] + 1)
    assert len(serve.get("/v2/models/stats").json()["model_stats"]) >= 1


def test_requests_of_one_model_run_as_a_batch_where_that_is_asked_for(serve):
    """Eight rows fill the batch; what runs is the form of 8 rows, whose bits eager has for 8."""

    def told():
        (stats,) = serve.get("/v2/models/batched/stats").json()["model_stats"]
        return stats["inference_count"], stats["execution_count"]

    assert serve.ask("POST", "/v2/repository/models/batched/load").code == 200
    before = told()
    x = torch.randn(8, 8)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: serve.infer("batched", [row(x[i : i + 1])]), range(8)))
    got = torch.tensor([reply.json()["outputs"][0]["data"] for reply in replies])
    torch.testing.assert_close(got, eager(LINEAR, x))
    assert told()[0] == before[0] + 8 and told()[1] < before[1] + 8
    assert serve.infer("batched", [row(torch.randn(3, 8))]).json()["outputs"][0]["shape"] == [3, 3]
    reply = serve.infer("batched", [row(torch.randn(9, 8))])
    assert reply.code == 400 and "9 rows; max_batch is 8" in reply.error


def test_requests_that_come_while_a_batched_model_loads_find_all_of_its_forms(daemon, tmp_path):
    """The first form of the job is there before the others are: a batch must not run into that."""
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "batched", more="max_batch = 8")
    x = torch.randn(16, 8)
    with Serve(folder, daemon.address) as serve, concurrent.futures.ThreadPoolExecutor(16) as pool:
        wait_until(lambda: serve.get("/v2/health/ready").code == 200, "the service")
        for _ in range(3):
            ask = [pool.submit(serve.infer, "batched", [row(one[None])]) for one in x]
            assert [one.result().code for one in ask] == [200] * 16
            assert serve.ask("POST", "/v2/repository/models/batched/unload").code == 200


def test_embeddings_of_tokens(serve):
    assert "embed" in [one["id"] for one in serve.get("/v1/models").json()["data"]]
    assert serve.get("/v1/models/embed").json()["object"] == "model"
    lists = [[1, 2, 3], [4]]
    told = serve.ask("POST", "/v1/embeddings", {"model": "embed", "input": lists}).json()
    assert told["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    for tokens, one in zip(lists, told["data"]):
        expected = eager(EMBED, torch.tensor([tokens]))[0]
        assert torch.equal(torch.tensor(one["embedding"]), expected)
    given = {"model": "embed", "input": [4], "encoding_format": "base64"}
    (one,) = serve.ask("POST", "/v1/embeddings", given).json()["data"]
    assert floats(base64.b64decode(one["embedding"])) == told["data"][1]["embedding"]
    for wrong in ("a text", [], [[]], [1.5], 7):
        reply = serve.ask("POST", "/v1/embeddings", {"model": "embed", "input": wrong})
        assert reply.code == 400 and reply.error["type"] == "invalid_request_error", wrong
    reply = serve.ask("POST", "/v1/embeddings", {"model": "linear", "input": [1]})
    assert reply.code == 400 and "makes no embeddings" in reply.error["message"]


def test_a_list_longer_than_the_queue_is_embedded(serve):
    lists = [[number % 8] for number in range(100)]
    told = serve.ask("POST", "/v1/embeddings", {"model": "embed", "input": lists}).json()
    assert [one["index"] for one in told["data"]] == list(range(100))


def test_tritonclient_as_it_is(serve):
    client_of = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    client = client_of.InferenceServerClient(serve.host, network_timeout=120.0)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("linear")
    assert client.get_server_metadata()["name"] == "laneway"
    assert client.get_model_metadata("linear")["inputs"][0]["name"] == "x"
    client.load_model("linear")
    x = torch.randn(5, 8)
    for as_binary in (True, False):
        given = client_of.InferInput("x", [5, 8], "FP32")
        given.set_data_from_numpy(x.numpy(), binary_data=as_binary)
        wanted = [client_of.InferRequestedOutput("y", binary_data=as_binary)]
        answer = client.infer("linear", [given], outputs=wanted, request_id="r")
        assert torch.equal(torch.from_numpy(answer.as_numpy("y").copy()), eager(LINEAR, x))
    assert torch.equal(
        torch.tensor(client.infer("linear", [given]).as_numpy("y")), eager(LINEAR, x)
    )
    index = {one["name"]: one["state"] for one in client.get_model_repository_index()}
    assert index["linear"] == "READY"
    assert client.get_inference_statistics("linear")["model_stats"][0]["inference_count"] >= 3
    client.unload_model("linear")
    client.close()


def test_openai_as_it_is(serve):
    openai = pytest.importorskip("openai", reason="openai is not installed")
    with openai.OpenAI(base_url=f"{serve.url}/v1", api_key="none", max_retries=0) as client:
        assert "embed" in [one.id for one in client.models.list()]
        answer = client.embeddings.create(model="embed", input=[[1, 2, 3]])
        expected = eager(EMBED, torch.tensor([[1, 2, 3]]))[0]
        assert torch.equal(torch.tensor(answer.data[0].embedding), expected)
        with pytest.raises(openai.NotFoundError, match="there is no model 'nobody'"):
            client.embeddings.create(model="nobody", input=[[1]])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_0_and_leaves_nothing(models, number, tmp_path):
    with Serve(models, scratch=tmp_path / "scratch") as serve:
        assert serve.end(number) == 0
        assert serve.process.stderr.read().count("\n") == 1  # that it answers whoever asks
        assert list((tmp_path / "scratch").iterdir()) == []


def test_a_key_is_needed_where_one_is_given(models, daemon, tmp_path):
    file = tmp_path / "key"
    file.write_text("k" * 32)
    file.chmod(0o600)
    with Serve(models, daemon.address, "--api-key-file", str(file)) as serve:
        assert serve.get("/v2/models/linear").code == 401
        assert serve.get("/v2/health/live").code == 200
        assert serve.ask("POST", "/healthz").code == 401  # its body would take room of all
        told = serve.ask("GET", "/v2/models/linear", authorization=f"Bearer {'k' * 32}")
        assert told.code == 200


def test_beyond_loopback_a_key_is_wanted(models):
    done = run("serve", "--models", str(models), "--listen", "0.0.0.0:0")
    assert done.returncode == 2 and "--api-key-file" in done.stderr


def test_another_host_or_page_is_refused(serve):
    assert serve.ask("GET", "/v2", host="evil.example").code == 421
    assert serve.ask("POST", "/v2/repository/index", {}, origin="http://evil.example").code == 403


def test_a_unix_socket_is_the_users_alone(models, tmp_path):
    path = tmp_path / "serve.sock"
    with Serve(models, listen=f"unix:{path}") as serve:
        assert serve.url == f"unix:{path}" and path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("library", ["uvicorn", "httptools"])
def test_without_its_libraries_it_says_how_to_get_them(library, tmp_path):
    code = f"import sys; sys.modules[{library!r}] = None; from laneway.cli import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}sys.exit(main(['serve', '--models', {str(tmp_path)!r}]))"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and "pip install 'laneway[serve]'" in done.stderr


def test_the_gateway_itself_never_loads_torch(serve):
    maps = Path(f"/proc/{serve.process.pid}/maps").read_text()
    assert "libtorch" not in maps
