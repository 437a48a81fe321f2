"""Inference over weights that the service reads from files: answers are those of the model that was
written to them, bit for bit; and files that are others than they were are told of in words."""

import contextlib
import json
import os
import resource
import threading
import time

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import laneway
from laneway.errors import InvalidInput, JobFailed
from support.daemon import Lanewayd, wait_until


class Net(nn.Module):
    """Tied weights, integer buffers, and a buffer that is in no file."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.mix = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh())
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight
        with torch.device("cpu"):
            self.register_buffer("scale", torch.tensor([0.5, 2.0]).repeat(8), persistent=False)

    def forward(self, numbers):
        return self.head(self.mix(self.embed(numbers) * self.scale))


def trained(seed=3):
    torch.manual_seed(seed)
    model = Net()
    for _ in range(3):
        model.mix(torch.randn(20, 16))  # moves the statistics
    return model.eval()


def without_memory(maker=Net):
    with torch.device("meta"):
        return maker()


def numbers(count=6):
    return torch.arange(count) % 40


@pytest.fixture(params=["embedded", "connect"])
def service(request):
    if request.param == "embedded":
        with laneway.embedded("64MiB") as opened:
            yield opened
        return
    with Lanewayd(pool="64MiB") as daemon, daemon.connect() as opened:
        yield opened


@torch.no_grad()
def test_answers_are_those_of_the_model_that_was_saved(service, tmp_path):
    model = trained()
    laneway.save_weights(model, tmp_path / "net.weights")
    away = without_memory()
    with laneway.inference(away, service=service, weights=tmp_path / "net.weights") as answer:
        for count in (6, 9):  # another form of call is captured again
            assert torch.equal(answer(numbers(count)), model(numbers(count)))
    assert away.embed.weight.device.type == "meta"
    assert away.head.weight is away.embed.weight


@torch.no_grad()
def test_files_of_others_and_several_files_are_taken(service, tmp_path):
    model = trained()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state.pop("head.weight")
    first = {name: state.pop(name) for name in list(state)[:2]}
    save_file(first, tmp_path / "a.safetensors")
    save_file(state, tmp_path / "b.safetensors")
    paths = [tmp_path / "a.safetensors", str(tmp_path / "b.safetensors")]
    with laneway.inference(without_memory(), service=service, weights=paths) as answer:
        assert torch.equal(answer(numbers()), model(numbers()))


def test_other_readers_read_what_is_saved(tmp_path):
    model = trained()
    path = tmp_path / "net.weights"
    laneway.save_weights(model, path)
    loaded = load_file(path)
    state = model.state_dict()
    assert set(loaded) == set(state) - {"head.weight"}  # tied: written once
    assert all(torch.equal(loaded[name], state[name]) for name in loaded)
    odd = {"half": torch.randn(3).half(), "none": torch.empty(0, 4), "flag": torch.tensor(True),
           "turned": torch.randn(4, 3).t()}  # fmt: skip
    laneway.save_weights(odd, path)
    assert all(torch.equal(load_file(path)[name], odd[name]) for name in odd)
    assert [entry.name for entry in tmp_path.iterdir()] == ["net.weights"]
    with pytest.raises(InvalidInput, match=r"'odd' is torch\.complex128"):
        laneway.save_weights({"odd": torch.zeros(2, dtype=torch.complex128)}, path)
    with pytest.raises(InvalidInput, match="meta device"):
        laneway.save_weights(without_memory(), path)


def wide():
    return nn.Linear(1 << 12, 1 << 13)  # 128 MiB


@torch.no_grad()
def test_the_client_never_holds_the_weights(tmp_path):
    torch.manual_seed(1)
    model = wide()
    laneway.save_weights(model, tmp_path / "wide.weights")
    with Lanewayd(pool="192MiB") as daemon, daemon.connect() as service:
        inputs = torch.randn(2, 1 << 12)
        expected = model(inputs)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        away = without_memory(wide)
        with laneway.inference(away, service=service, weights=tmp_path / "wide.weights") as answer:
            assert torch.equal(answer(inputs), expected)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < 64 << 10


# ---- what is refused before there is a job ----


def refused(service, words, weights, model=None):
    with pytest.raises(InvalidInput, match=words):
        laneway.inference(model or without_memory(), service=service, weights=weights)


@pytest.fixture
def opened():
    with laneway.embedded("64MiB", staging=0) as service:
        yield service


def test_other_models_files_are_refused_by_name(opened, tmp_path):
    path = tmp_path / "net.weights"
    state = dict(trained().state_dict())
    laneway.save_weights({**state, "extra": torch.zeros(1)}, path)
    refused(opened, "has 'extra', which the model does not have", path)
    laneway.save_weights({k: v for k, v in state.items() if k != "mix.0.bias"}, path)
    refused(opened, "'mix.0.bias' is on the meta device, and no file has it", path)
    laneway.save_weights({**state, "mix.0.bias": torch.zeros(15)}, path)
    refused(opened, r"'mix.0.bias' is torch.float32, \[15\]", path)
    laneway.save_weights({**state, "mix.0.bias": torch.zeros(16).double()}, path)
    refused(opened, r"torch.float64, \[16\] in .*net.weights; the model's is torch.float32", path)
    laneway.save_weights(state, path)
    refused(opened, "the model has memory for 'embed.weight'", path, trained())
    refused(opened, "an earlier file has it too", [path, path])
    with pytest.raises(FileNotFoundError):
        laneway.inference(without_memory(), service=opened, weights=tmp_path / "none")
    turned = without_memory(lambda: nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))
    laneway.save_weights(nn.Conv2d(3, 4, 3), path)
    refused(opened, "'weight' has strides", path, turned)


def test_an_inference_of_a_step_takes_no_files(opened, tmp_path):
    model = nn.Linear(2, 2)
    step = laneway.train_step(
        model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), 0.1), service=opened
    )
    with step, pytest.raises(InvalidInput, match="a step has its own"):
        laneway.inference(step, weights=tmp_path / "none")


def header_of(path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def written(path, header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((length or len(text)).to_bytes(8, "little") + text + data)
    return path


def test_files_of_another_format_are_refused(opened, tmp_path):
    path = tmp_path / "net.weights"
    laneway.save_weights(trained(), path)
    header, data = header_of(path)
    name = "mix.0.weight"

    def changed(**fields):
        return written(path, {**header, name: {**header[name], **fields}}, data)

    begin, end = header[name]["data_offsets"]
    refused(opened, "is no file of safetensors", written(path, b"", b""))
    refused(opened, "header is said to have", written(path, header, b"", 1 << 40))
    refused(opened, "is no file of safetensors", written(path, b"{nonsense", data))
    refused(opened, "its header is a list", written(path, [], data))
    refused(opened, "dtype F7", changed(dtype="F7"))
    refused(opened, "cut short, or damaged", changed(data_offsets=[begin, end - 1]))
    refused(opened, "cut short, or damaged", changed(data_offsets=[-4, end - begin - 4]))
    refused(opened, "cut short, or damaged", written(path, header, data[:-1]))
    refused(opened, "is no file of safetensors", changed(shape="wide"))
    refused(opened, "is no file of safetensors", changed(shape=[-16, -16]))
    refused(opened, "is no file of safetensors", written(path, {name: 3}, data))
    odd = {**header, "__metadata__": {"laneway.crc32": json.dumps({name: -1})}}
    refused(opened, "no CRC-32", written(path, odd, data))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        laneway.inference(without_memory(), service=opened, weights=folder)


# ---- what is noticed when the bytes are loaded ----


def test_a_damaged_file_ends_the_job_in_words(service, tmp_path):
    path = tmp_path / "net.weights"
    laneway.save_weights(trained(), path)
    with open(path, "r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)
        file.seek(-100, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(JobFailed, match=r"net\.weights.*CRC-32"):
        laneway.inference(without_memory(), service=service, weights=path)(numbers())
    with laneway.inference(trained(), service=service) as other:  # nobody else notices
        assert torch.equal(other(numbers()), trained()(numbers()))


@pytest.mark.parametrize("change", ["write", "cut"])
def test_a_file_that_changes_before_it_is_loaded_is_noticed(change, opened, tmp_path):
    """The job waits for room, and the file is written to meanwhile."""
    holder = laneway.inference(nn.Linear(1 << 12, 3300), service=opened)  # most of the pool
    holder(torch.zeros(1, 1 << 12))
    path = tmp_path / "many.weights"
    laneway.save_weights(nn.Linear(1 << 11, 1 << 11), path)  # 16 MiB, which has no room
    answer = laneway.inference(
        without_memory(lambda: nn.Linear(1 << 11, 1 << 11)), service=opened, weights=path
    )
    raised = []

    def call():
        try:
            answer(torch.zeros(1, 1 << 11))
        except JobFailed as error:
            raised.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    wait_until(
        lambda: any(job["state"] == "waiting" for job in opened.status()["jobs"]), "a job waits"
    )
    if change == "write":
        os.utime(path, ns=(1, time.time_ns() + 10**9))
    else:
        os.truncate(path, path.stat().st_size - 40)
    holder.close()
    thread.join()
    words = {"write": "many.weights' was written to", "cut": "many.weights': it ends at byte"}
    assert len(raised) == 1 and words[change] in raised[0], raised


@pytest.mark.parametrize("victim", ["worker", "broker"])
def test_whoever_dies_while_it_loads_loses_nothing(victim, tmp_path):
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6)))  # six MiB
    laneway.save_weights(model, tmp_path / "net.weights")
    fault = {"LANEWAY_FAULT": "worker.weights_part:4"} if victim == "worker" else {}
    with Lanewayd(pool="64MiB", environment=fault) as daemon, daemon.connect() as service:
        first = daemon.active_worker()
        away = without_memory(lambda: nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))))
        with laneway.inference(away, service=service, weights=tmp_path / "net.weights") as answer:
            inputs = torch.randn(3, 512)
            with torch.no_grad():
                assert torch.equal(answer(inputs), model(inputs))
                if victim == "broker":
                    daemon.kill(daemon.broker())
                    assert torch.equal(answer(inputs), model(inputs))
        assert (daemon.active_worker() != first) == (victim == "worker")


WIDE = 1 << 11  # a layer of 16 MiB: nearly a second on the link


def layer():
    return nn.Linear(WIDE, WIDE)


def loading(service):
    """Whether a part of some image has come, and not the whole."""
    moved = [job["image"]["moved_bytes"] for job in service.status()["jobs"]]
    return any(bytes_ is not None and bytes_ > 1 << 20 for bytes_ in moved)


@pytest.mark.parametrize("change", ["write", "cut"])
def test_a_file_that_changes_while_it_loads_ends_its_job_alone(change, tmp_path):
    path = tmp_path / "many.weights"
    laneway.save_weights(layer(), path)
    with (
        Lanewayd("--copy-bandwidth", "20MiB", pool="64MiB") as daemon,
        daemon.connect() as service,
    ):
        small = nn.Linear(8, 8)
        other = laneway.inference(small, service=service)
        few = torch.randn(2, 8)
        with torch.no_grad():
            expected = small(few)
        assert torch.equal(other(few), expected)
        answer = laneway.inference(without_memory(layer), service=service, weights=path)
        raised = []

        def call():
            try:
                answer(torch.zeros(1, WIDE))
            except JobFailed as error:
                raised.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: loading(service), "a part of it is there")
        if change == "write":
            os.utime(path, ns=(1, time.time_ns() + 10**9))
        else:
            os.truncate(path, path.stat().st_size // 2)
        assert torch.equal(other(few), expected)  # nobody else waits, or notices
        thread.join()
        words = {"write": "many.weights' was written to", "cut": "many.weights': it ends at"}
        assert len(raised) == 1 and words[change] in raised[0], raised
        assert torch.equal(other(few), expected)


def test_a_client_that_goes_while_its_model_loads_leaves_nothing(tmp_path):
    path = tmp_path / "many.weights"
    laneway.save_weights(layer(), path)
    with (
        Lanewayd("--copy-bandwidth", "20MiB", pool="64MiB") as daemon,
        daemon.connect() as watching,
    ):
        with daemon.connect() as service:
            answer = laneway.inference(without_memory(layer), service=service, weights=path)
            thread = threading.Thread(target=_ignoring, args=(answer, torch.zeros(1, WIDE)))
            thread.start()
            wait_until(lambda: loading(watching), "a part of it is there")
        thread.join()
        wait_until(lambda: watching.status()["pool"]["persistent_bytes"] == 0, "its range is free")
        model = layer()  # in the same range
        inputs = torch.randn(1, WIDE)
        with torch.no_grad(), laneway.inference(model, service=watching) as next_one:
            assert torch.equal(next_one(inputs), model(inputs))


def _ignoring(answer, inputs):
    with contextlib.suppress(laneway.Error):
        answer(inputs)
