"""Images that come back to a device while their job's nodes are enqueued: nothing waits on the CPU
between the request and the last node, and no node runs ahead of its bytes. On the fake CUDA, whose
streams can be held, and on the remote host, whose kernels compute."""

import pytest
import torch
from torch import nn

import laneway
from support.crowd import ROOM, Crowd, lines
from support.fake_cuda import on_fake
from support.remote_host import RemoteLanewayd, needs_remote_host

pytestmark = pytest.mark.embedded_only("opens services of its own")

DEEP = """
import threading
from support.daemon import wait_until

WIDTH, LAYERS, PIECE = 768, 8, 4 << 20  # 18 MiB

def deep(service, name):
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    return laneway.inference(model, service=service, name=name, replay=REPLAY)

def noted():
    text = ctypes.create_string_buffer(1 << 22)
    fake.fake_cuda_notes(text, len(text))
    return text.value.decode().splitlines()

def runs(lines, part):
    return [n for n, line in enumerate(lines) if line.startswith("run ") and part in line]
"""


@pytest.mark.parametrize("replay", ["off", "auto"])
def test_all_nodes_are_enqueued_while_no_byte_has_come(replay):
    on_fake(
        f"REPLAY = {replay!r}",
        DEEP,
        """
        with laneway.embedded(device="cuda:0", pool="64MiB", staging="64MiB") as service:
            job, x = deep(service, "one"), torch.randn(4, WIDTH)
            for _ in range(8):
                job(x)
            service.unload("one")
            fake.fake_cuda_reset_counts()
            noted()
            fake.fake_cuda_note(1)
            fake.fake_cuda_hold()
            answers = []
            caller = threading.Thread(target=lambda: answers.append(job(x)))
            caller.start()
            try:
                # Each layer is a product; the bias is in it.
                wait_until(
                    lambda: count("cublasLtMatmul") + count("cublasSgemm_v2") == LAYERS,
                    "every node is enqueued: nobody waits for bytes on the CPU",
                )
                assert not runs(noted(), ""), "the streams are held"
                assert count("cuStreamWaitEvent") >= 4, "which work waits for the pieces?"
                assert count("cudaGraphLaunch") == 0, "a recording would wait for all bytes"
            finally:
                fake.fake_cuda_release()
                caller.join(60)
            assert len(answers) == 1
            lines = noted()
            products = runs(lines, "cublasLtMatmul") or runs(lines, "cublasSgemm_v2")
            assert len(products) == LAYERS, lines
            lane = lines[products[0]].rpartition(" ")[2]
            pieces = [n for n in runs(lines, "HtoD") if not lines[n].endswith(f"stream {lane}")]
            assert len(pieces) == 5 and products[0] < pieces[-1], "a product waited for all bytes"
            for number, product in enumerate(products):
                need = -(-(number + 1) * (WIDTH + 1) * WIDTH * 4 // PIECE)
                assert len([n for n in pieces if n < product]) >= need, "ahead of its weight"
            assert not complaints(), complaints()
        """,
    )


def test_what_the_driver_will_not_pin_is_copied_nevertheless():
    child = on_fake(
        "REPLAY = 'auto'",
        DEEP,
        """
        fake.fake_cuda_fail_calls(b"cuMemHostRegister", 1, 1000)
        with laneway.embedded(device="cuda:0", pool="64MiB", staging="64MiB") as service:
            job, x = deep(service, "one"), torch.randn(4, WIDTH)
            for _ in range(3):
                job(x)
                service.unload("one")
            job(x)
        assert not complaints(), complaints()
        """,
    )
    assert child.err.count("a part of the link's rate") == 1, child.err


@needs_remote_host
@pytest.mark.parametrize("victim", [None, "active_worker", "broker"])
def test_trainings_that_come_back_go_on_with_their_bits(victim):
    """With step counters that stay on the CPU, and with weights that only their device reaches."""
    with RemoteLanewayd("--staging", "256MiB", pool=ROOM) as daemon, daemon.connect() as service:
        crowd = Crowd(service, 6)
        crowd.rounds(3)
        if victim is not None:
            daemon.kill(getattr(daemon, victim)())
            crowd.rounds(1)
        assert any(line["state"] == "away" for line in lines(service).values())
        crowd.assert_undisturbed()


@torch.no_grad()
@needs_remote_host
def test_an_inference_on_the_remote_host_has_the_bits_of_its_own_weights():
    def deep(seed):
        torch.manual_seed(seed)
        return nn.Sequential(*(nn.Linear(768, 768) for _ in range(8)))

    words = ("--staging", "128MiB")
    with RemoteLanewayd(*words, pool="32MiB") as daemon, daemon.connect() as service:
        models = [deep(seed) for seed in range(3)]
        jobs = [
            laneway.inference(model, service=service, name=f"job-{n}")
            for n, model in enumerate(models)
        ]
        inputs = torch.randn(4, 768)
        for _ in range(4):  # each finds another one's bytes in its place
            for model, job in zip(models, jobs, strict=True):
                assert torch.equal(job(inputs), model(inputs))
        service.unload("job-0")
        models[0][0].weight.mul_(2)  # state is written where the image is
        assert torch.equal(jobs[0](inputs), models[0](inputs))


SHALLOW = """
NARROW, MANY = 24, 150  # 350 KiB, and 150 nodes

def narrow(service, name):
    model = nn.Sequential(*(nn.Linear(NARROW, NARROW) for _ in range(MANY)))
    return laneway.inference(model, service=service, name=name, replay="auto")
"""


def test_a_recording_is_launched_behind_the_whole_image_where_that_is_sooner():
    """One piece of an image, and nodes that take longer to enqueue than it takes to come."""
    on_fake(
        "REPLAY = 'auto'",
        DEEP,
        SHALLOW,
        """
        with laneway.embedded(device="cuda:0", pool="64MiB", staging="64MiB") as service:
            job, x = narrow(service, "one"), torch.randn(4, NARROW)
            for _ in range(8):
                job(x)
            launched = count("cudaGraphLaunch")
            assert launched > 0, "it is recorded"

            def is_launched():
                before = count("cudaGraphLaunch")
                service.unload("one")
                job(x)
                return count("cudaGraphLaunch") > before

            # What ran, in order, where the recording was launched behind the pieces.
            def launched_while_held():
                service.unload("one")
                fake.fake_cuda_reset_counts()
                noted()
                fake.fake_cuda_hold()
                answers = []
                caller = threading.Thread(target=lambda: answers.append(job(x)))
                caller.start()
                try:
                    wait_until(lambda: count("cuMemcpyHtoDAsync") > 0, "the image is on its way")
                    assert not runs(noted(), ""), "the streams are held"
                finally:
                    fake.fake_cuda_release()
                    caller.join(60)
                assert len(answers) == 1
                lines = noted()
                return lines if count("cudaGraphLaunch") == 1 else None

            # The choice is by measured times: what the link carries is not known before the first,
            # and is little when a busy machine holds a copy up.
            fake.fake_cuda_note(1)
            lines = wait_until(
                lambda: is_launched() and launched_while_held(), "node by node it takes longer"
            )
            products = runs(lines, "cublasLtMatmul") or runs(lines, "cublasSgemm_v2")
            assert len(products) == MANY, lines
            lane = lines[products[0]].rpartition(" ")[2]
            pieces = [n for n in runs(lines, "HtoD") if not lines[n].endswith(f"stream {lane}")]
            assert pieces and pieces[-1] < products[0], "ahead of its bytes"
            assert not complaints(), complaints()
        """,
    )


@torch.no_grad()
@needs_remote_host
@pytest.mark.parametrize("outside", ["store", "spill"])
def test_what_stayed_on_a_device_is_used_where_the_cpu_needs_not_see_it(outside, tmp_path):
    """Grown around where it stayed, copied inside the pool, given up; from the spill file it is of
    no use: its checksum is the whole image's."""
    words = ["--staging", "256MiB"]
    if outside == "spill":
        words = ["--staging", "0", "--spill", f"{tmp_path}:256MiB"]
    words += ["--prefix", "50%"]
    with RemoteLanewayd(*words, pool="48MiB") as daemon, daemon.connect() as service:
        models = {name: nn.Sequential(*(nn.Linear(768, 768) for _ in range(8))) for name in "abc"}
        jobs = {
            name: laneway.inference(model, service=service, name=name)
            for name, model in models.items()
        }
        inputs = torch.randn(4, 768)
        stayed = 0
        for name in "aababcbaccabca":
            assert torch.equal(jobs[name](inputs), models[name](inputs)), name
            service.unload(name)
            line = lines(service)[name]
            assert line["state"] == "away"
            stayed += line["image"]["pool_bytes"] > 0
        assert stayed > 0, "nothing ever stayed"


@torch.no_grad()
@needs_remote_host
def test_by_the_rule_something_stays_of_an_image_that_is_waited_for():
    """By what a request took beyond one whose image is there."""
    with RemoteLanewayd("--staging", "64MiB", pool="64MiB") as daemon, daemon.connect() as service:
        model = nn.Sequential(*(nn.Linear(768, 768) for _ in range(8)))
        job = laneway.inference(model, service=service, name="one")
        inputs = torch.randn(4, 768)
        for _ in range(4):
            assert torch.equal(job(inputs), model(inputs))
        stayed = 0
        for _ in range(40):  # on a busy machine one that is there takes as long, now and then
            service.unload("one")
            line = lines(service)["one"]
            stayed = line["image"]["pool_bytes"]
            if stayed > 0:
                break
            assert torch.equal(job(inputs), model(inputs))
        assert 0 < stayed <= line["persistent_bytes"]
        assert torch.equal(job(inputs), model(inputs)), "with what stayed"
