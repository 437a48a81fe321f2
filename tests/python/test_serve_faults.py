"""`laneway serve` under wrong requests, broken models, folders that change, callers who go away,
and services and gateways that die. What is wrong with one model or request is answered in words,
and everybody else goes on."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
import torch

import laneway
from support.cli import run
from support.daemon import Lanewayd, wait_until
from support.serving import LINEAR, TOML, Serve, row, write_model
from test_serve import eager

BROKEN = {
    "imports": (
        "import nothere",
        "ModuleNotFoundError: No module named 'nothere' (model.py, line 1)",
    ),
    "raises": (
        "def load():\n    raise ValueError('no luck')",
        "ValueError: no luck (model.py, line 2)",
    ),
    "exits": ("import sys\ndef load():\n    sys.exit(3)", "SystemExit: 3"),
    "vanishes": ("import os\ndef load():\n    os._exit(3)", "its process ended (exit code 3)"),
    "aborts": ("import os\ndef load():\n    os.abort()", "its process ended (signal 6)"),
    "nothing": ("x = 1", "model.py has no function load()"),
    "number": ("def load():\n    return 1", "load() gave a int"),
    "syntax": ("def load(:", "SyntaxError"),
    "wide": (LINEAR.replace("16, 3", "16, 4"), "the model gives FP32 [1, 4]"),
    "narrow": (LINEAR.replace("Linear(8,", "Linear(9,"), "must have same reduction dim"),
}
ROWLESS = """
import torch
class First(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(8, 3)
    def forward(self, x):
        return self.inner(x)[:1]
def load():
    return First()
"""
HANGS = "import threading\ndef load():\n    threading.Event().wait()"
BIG = "import torch\ndef load():\n    return torch.nn.Linear(1000, 6000, bias=False)"
BIG_TOML = TOML.replace("-1, 8", "1, 1000").replace("-1, 3", "1, 6000")


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder, "linear")
    for name, (code, _) in BROKEN.items():
        write_model(folder, name, code)
    write_model(folder, "hangs", HANGS, more="load_s = 0.5")
    write_model(folder, "open").chmod(0o777)
    helper = write_model(folder, "helped") / "helper.py"
    helper.touch()
    helper.chmod(0o666)
    write_model(folder, "rowless", ROWLESS, more="max_batch = 2")
    write_model(folder, "untold", toml="")
    write_model(folder, "unknown", more="colour = 1")
    return folder


@pytest.fixture(scope="module")
def serve(models, daemon):
    with Serve(models, daemon.address) as running:
        yield running


def answers(serve, name="linear", code=LINEAR):
    """Whether it gives the bits of eager execution."""
    x = torch.randn(1, 8)
    reply = serve.infer(name, [row(x)])
    assert reply.code == 200, reply.body
    given = torch.tensor(reply.json()["outputs"][0]["data"]).reshape(1, 3)
    return torch.equal(given, eager(code, x))


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_cannot_be_loaded_fails_alone(serve, name):
    reply = serve.infer(name, [row(torch.randn(1, 8))])
    assert reply.code == 409 and BROKEN[name][1] in reply.error, reply.error
    assert serve.get(f"/v2/models/{name}/ready").code == 409
    rows = serve.ask("POST", "/v2/repository/index", {}).json()
    (told,) = [one for one in rows if one["name"] == name]
    assert told["state"] == "UNAVAILABLE" and BROKEN[name][1] in told["reason"]
    assert answers(serve)


def test_a_model_that_gives_no_row_for_each_row_is_in_no_batch(serve):
    reply = serve.infer("rowless", [row(torch.randn(1, 8))])
    assert reply.code == 409 and "output 'y' has 1 rows for 2 of the inputs" in reply.error


def test_a_load_that_hangs_is_given_up(serve):
    reply = serve.infer("hangs", [row(torch.randn(1, 8))])
    assert reply.code == 409 and "within load_s = 0.5 s" in reply.error
    assert answers(serve)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("open", "chmod go-w"),
        ("helped", "helper.py"),
        ("untold", "[[input]]"),
        ("unknown", "colour is no field"),
    ],
)
def test_a_folder_that_is_not_fit_is_refused(serve, name, words):
    reply = serve.infer(name, [row(torch.randn(1, 8))])
    assert reply.code == 409 and words in reply.error


def test_a_folder_of_models_that_others_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    done = run("serve", "--models", str(tmp_path), "--listen", "127.0.0.1:0")
    assert done.returncode == 2 and "chmod go-w" in done.stderr
    done = run("serve", "--models", str(tmp_path / "none"), "--listen", "127.0.0.1:0")
    assert done.returncode == 2 and "there is no such folder" in done.stderr


def test_shapes_that_go_leave_no_batch_without_its_form(daemon, tmp_path):
    """More shapes than stay; then two rows at once of the oldest that stayed, and of one that
    went."""
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    toml = TOML.replace("-1, 8", "-1, -1").replace("-1, 3", "-1, -1")
    code = "import torch\ndef load():\n    return torch.nn.ReLU()"
    write_model(folder, "any", code, toml, "max_batch = 2")
    with Serve(folder, daemon.address, limits={"FORMS": 2}) as serve:
        for width in (2, 3, 4, 5, 4, 3):
            x = torch.randn(2, width)
            reply = serve.infer("any", [row(x)])
            assert reply.code == 200, reply.body
            given = torch.tensor(reply.json()["outputs"][0]["data"]).reshape(2, width)
            assert torch.equal(given, x.relu())
            assert serve.infer("any", [row(x[:1])]).code == 200


def test_a_scratch_folder_that_was_cleaned_is_filled_again(tmp_path):
    folder, scratch = tmp_path / "models", tmp_path / "scratch"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Lanewayd() as daemon, Serve(folder, daemon.address, scratch=scratch) as serve:
        assert answers(serve)
        images = list(scratch.rglob("image"))
        for image in images:
            image.unlink()
        assert images
        with daemon.connect() as service:
            service.command("kill", "linear")
        wait_until(lambda: serve.infer("linear", [row(torch.randn(1, 8))]).code == 200, "it")
        assert answers(serve)


def test_a_folder_that_changes_and_vanishes(daemon, tmp_path):
    other = LINEAR.replace("manual_seed(7)", "manual_seed(8)")
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Serve(folder, daemon.address) as serve:

        def told():
            rows = serve.ask("POST", "/v2/repository/index", {}).json()
            return [(one["state"], one["reason"]) for one in rows if one["name"] == "linear"]

        assert answers(serve)
        write_model(folder, "linear", other)
        assert answers(serve)  # what was loaded
        assert told() == [("READY", "its folder has changed; load it to use what it has now")]
        assert serve.ask("POST", "/v2/repository/models/linear/load").code == 200
        assert answers(serve, code=other) and told() == [("READY", "")]
        shutil.rmtree(folder / "linear")
        assert answers(serve, code=other)
        assert told() == [("READY", "its folder is gone; it answers until it is unloaded")]
        assert serve.ask("POST", "/v2/repository/models/linear/unload").code == 200
        assert serve.infer("linear", [row(torch.randn(1, 8))]).code == 404 and told() == []
        write_model(folder, "later")
        assert answers(serve, "later")


def test_a_new_form_of_a_changed_model_is_refused(daemon, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Serve(folder, daemon.address) as serve:
        assert answers(serve)
        write_model(folder, "linear", LINEAR.replace("ReLU", "Tanh"))
        reply = serve.infer("linear", [row(torch.randn(2, 8))])
        assert reply.code == 409 and "captured otherwise than when it was loaded" in reply.error
        assert answers(serve)


@contextlib.contextmanager
def full_pool(tmp_path, more, *words):
    """A gateway whose model 'big' waits for memory that a pinned job has, and that job."""
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "big", BIG, BIG_TOML, more)
    write_model(folder, "linear")
    with Lanewayd("--staging", "200MiB", pool="40MiB") as daemon, daemon.connect() as service:
        pinned = laneway.inference(torch.nn.Linear(1000, 6000), service=service, name="pinned")
        pinned(torch.zeros(1, 1000))
        service.pin("pinned")
        with Serve(folder, daemon.address, *words) as serve:
            yield serve, pinned


def counts(serve):
    (stats,) = serve.get("/v2/models/big/stats").json()["model_stats"]
    return {name: one["count"] for name, one in stats["inference_stats"].items()}


def test_a_deadline_a_queue_and_a_caller_who_hangs_up(tmp_path):
    x = row(torch.zeros(1, 1000))
    with full_pool(tmp_path, "deadline_ms = 60000\nqueue = 1") as (serve, pinned):
        assert answers(serve)  # behind 'big' it would wait, under fifo
        connection = http.client.HTTPConnection(serve.host)
        connection.request("POST", "/v2/models/big/infer", json.dumps({"inputs": [x]}))
        wait_until(lambda: serve.infer("big", [x]).code == 429, "the first one in the queue")
        reply = serve.infer("big", [x])
        assert reply.code == 429 and reply.headers["retry-after"] == "1"
        assert "its queue holds no more" in reply.error
        assert answers(serve)  # another model
        connection.close()
        wait_until(lambda: counts(serve)["cancel"] == 1, "its cancellation")
        pinned.close()  # now there is room
        assert serve.infer("big", [x]).code == 200


def test_a_deadline_that_passes_says_what_was_waited_for(tmp_path):
    with full_pool(tmp_path, "deadline_ms = 3000") as (serve, pinned):
        assert answers(serve)  # whatever a first capture takes is behind
        x = row(torch.zeros(1, 1000))
        reply = serve.infer("big", [x])
        assert reply.code == 504 and "3000 ms have passed" in reply.error, reply.error
        wait_until(
            lambda: "its job waits for memory" in serve.infer("big", [x]).error, "the reason"
        )
        pinned.close()
        wait_until(lambda: serve.infer("big", [x]).code == 200, "its place")


def test_without_a_service_503_and_it_goes_on_when_one_comes(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Lanewayd() as daemon, Serve(folder, daemon.address) as serve:
        assert answers(serve)
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(120)
        reply = serve.infer("linear", [row(torch.randn(1, 8))])
        assert reply.code == 503 and reply.headers["retry-after"] == "1"
        wait_until(lambda: serve.get("/v2/health/ready").code == 503, "it to notice")
        assert serve.get("/v2/health/live").code == 200
        daemon.process.stdout.close()
        daemon.start()
        wait_until(lambda: serve.infer("linear", [row(torch.randn(1, 8))]).code == 200, "it")
        (stats,) = serve.get("/v2/models/linear/stats").json()["model_stats"]
        assert stats["inference_stats"]["load"]["count"] == 2  # the same captured model


def test_a_worker_and_a_broker_die_under_requests(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir(mode=0o755)
    write_model(folder, "linear")
    with Lanewayd() as daemon, Serve(folder, daemon.address) as serve:
        assert answers(serve)
        results, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                results.append(answers(serve))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for victim in ("laneway-worker", "laneway-broker"):
                known = len(results)
                wait_until(lambda known=known: len(results) > known, "an answer")
                os.kill(daemon.children(victim)[0], signal.SIGKILL)
                known = len(results)
                wait_until(lambda known=known: len(results) > known + 3, "answers after a death")
        finally:
            stop.set()
            asking.join()
        assert results and all(results)


def test_an_operator_who_kills_the_job_ends_it_and_the_next_request_offers_it_again(serve, daemon):
    assert answers(serve)
    with daemon.connect() as service:
        service.command("kill", "linear")
    wait_until(lambda: serve.infer("linear", [row(torch.randn(1, 8))]).code == 200, "a new job")
    assert answers(serve)


def test_a_gateway_is_killed_in_mid_answer_and_another_one_follows(daemon, tmp_path):
    folder, scratch = tmp_path / "models", tmp_path / "scratch"
    folder.mkdir(mode=0o755)
    write_model(folder, "mine")
    write_model(folder, "hangs", HANGS)
    with Serve(folder, daemon.address, scratch=scratch) as first:
        assert answers(first, "mine")
        connection = http.client.HTTPConnection(first.host)
        body = json.dumps({"inputs": [row(torch.zeros(1, 8))]})
        connection.request("POST", "/v2/models/hangs/infer", body)
        wait_until(lambda: children_in(folder / "hangs"), "the child that hangs")
        first.end(signal.SIGKILL)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()
        wait_until(lambda: not children_in(folder / "hangs"), "its end")
        left = set(scratch.iterdir())
        assert left
        with daemon.connect() as service:
            wait_until(lambda: not live(service, "mine"), "the end of its job")
    with Serve(folder, daemon.address, scratch=scratch) as second:
        assert answers(second, "mine") and not left & set(scratch.iterdir())


def children_in(folder):
    """Processes whose working folder it is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if path.readlink() == folder:
                found.append(int(path.parts[2]))
    return found


def live(service, name):
    ended = ("finished", "cancelled", "failed")
    rows = service.status()["jobs"]
    return [job for job in rows if job["name"] == name and job["state"] not in ended]


def test_two_gateways_on_one_folder_do_not_know_of_each_other(serve, models, daemon):
    assert answers(serve)
    with Serve(models, daemon.address, scratch=serve.scratch) as second:
        assert answers(second) and answers(serve)
        assert second.ask("POST", "/v2/repository/models/linear/unload").code == 200
        assert answers(serve)
    assert answers(serve)
