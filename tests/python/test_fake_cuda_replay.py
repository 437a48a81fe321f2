"""Attention is recorded and replayed on the fake CUDA, although its kernel allocates more while it
is captured than otherwise: an iteration that is recorded allocates what one that runs node by node
does, so the job stays on its plan, in a lane of the same size. And where nothing can be recorded,
the log and the job's report say why."""

import pytest

from support.fake_cuda import on_fake

pytestmark = pytest.mark.embedded_only("opens services of its own")

TRAINING = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.block(x).mean(1))

def train(service, count, **options):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    step = laneway.train_step(model, nn.CrossEntropyLoss(), optimizer, service, replay="on")
    for _ in range(count):
        step(torch.randn(4, 16, 32), torch.randint(0, 3, (4,)))
    return step

def graph_of(service, step):
    [graph] = service.job_report(step.name)["graphs"]
    return graph
"""

SERVICE = 'with laneway.embedded(device="cuda:0", pool="64MiB") as service:'
FORMS = pytest.mark.parametrize("options", ["", "fused=True"])


@FORMS
def test_a_transformer_is_replayed_on_the_plan_of_its_first_iteration(options):
    on_fake(
        TRAINING,
        f"""
        {SERVICE}
            step = train(service, 20, {options})
            graph = graph_of(service, step)
        assert count("kernel:fmha") > 0, "no attention kernel was called"
        assert graph["probes"] == 1 and graph["off_tape_count"] == 0, graph
        assert graph["address_changes"] == 0, graph
        assert graph["need_bytes"] == graph["planned_peak_bytes"], graph
        # After the probe, three plain iterations and the recorded one. One more is plain where the
        # third was run by another thread: a lane's own does what the caller's does not come to.
        assert 8 <= graph["replayed_count"] <= 20 - 1 - 3 - 1, graph
        assert graph["replay"]["recorded"] == 1 and not graph["replay"]["refused"], graph
        assert 0 < graph["replay"]["nodes"] <= graph["nodes"], graph
        assert count("cudaGraphLaunch") == graph["replayed_count"] + 1, graph
        assert not complaints(), complaints()
        """,
    )


def test_why_nothing_is_recorded_is_logged_once_and_reported():
    child = on_fake(
        TRAINING,
        f"""
        {SERVICE}
            step = train(service, 12)
            graph = graph_of(service, step)
        assert graph["replayed_count"] == 0 and graph["probes"] == 1, graph
        assert graph["replay"]["recorded"] == 0, graph
        assert "cudaError" in graph["replay"]["refused"], graph
        assert not complaints(), complaints()
        """,
        environment={"FAKE_CUDA_FORBID": "replay"},
    )
    assert child.err.count("are not recorded") == 1, child.err
    assert child.err.count("cudaError") == 1, child.err


def test_a_job_whose_iterations_are_not_recorded_says_nothing():
    child = on_fake(
        TRAINING.replace('replay="on"', 'replay="off"'),
        f"""
        {SERVICE}
            step = train(service, 8)
            graph = graph_of(service, step)
        assert graph["replay"] == {{"recorded": 0, "nodes": 0, "refused": None}}, graph
        """,
    )
    assert "are not recorded" not in child.err, child.err


@FORMS
@pytest.mark.parametrize("spoilt", [1, 3])
def test_a_recording_that_another_thread_spoilt_is_made_again(options, spoilt):
    """After three iterations that run plainly, the one whose recording was spoilt among them."""
    on_fake(
        TRAINING,
        f"""
        fake.fake_cuda_spoil_captures(7, {spoilt})
        {SERVICE}
            step = train(service, 20, {options})
            graph = graph_of(service, step)
        # On a busy machine one that begins before the one before it was looked at runs plainly too.
        most = 20 - 1 - 3 - {spoilt} * 3 - 1
        assert most - 2 <= graph["replayed_count"] <= most, graph
        assert graph["replay"]["recorded"] == 1 and not graph["replay"]["refused"], graph
        assert graph["probes"] == 1 and graph["off_tape_count"] == 0, graph
        assert live("executables") == 0 and live("graphs") == 0
        assert not complaints(), complaints()
        """,
    )


@pytest.mark.parametrize("nodes", [0, 7])
def test_one_that_is_spoilt_each_time_is_refused_with_the_reason(nodes):
    child = on_fake(
        f"""
        from support.fake_training import KINDS, Trial

        fake.fake_cuda_spoil_captures({nodes}, 1000)
        {SERVICE}
            for tried, kind in enumerate(KINDS, 1):
                trial = Trial(service, kind, replay="on").train(24)
                trial.check()
                [graph] = service.job_report(trial.step.name)["graphs"]
                assert graph["replayed_count"] == 0 and graph["off_tape_count"] == 0, graph
                assert graph["replay"]["recorded"] == 0, graph
                why = graph["replay"]["refused"]
                assert "other threads spoilt 4 recordings in a row" in why, why
                assert "turn replay off" in why and " error: " in why, why
                assert count("cudaStreamBeginCapture") == 4 * tried, kind
        assert live("executables") == 0 and live("graphs") == 0
        assert not complaints(), complaints()
        """,
    )
    assert child.err.count("are not recorded") == 4, child.err


def test_a_thread_that_waits_for_the_device_hears_cudas_error_and_costs_no_iteration():
    on_fake(
        f"""
        from support.fake_training import Trial

        errors, done = [], threading.Event()

        def wait_often():
            while not done.is_set():
                try:
                    torch.cuda.synchronize()
                except RuntimeError as error:
                    errors.append(str(error))

        {SERVICE}
            waiting = threading.Thread(target=wait_often)
            waiting.start()
            trials = [Trial(service, kind, replay="on") for kind in ("mlp", "lstm", "gpt")]
            for trial in trials:
                trial.train(40).check()
            done.set()
            waiting.join()
            for trial in trials:
                trial.train(20).check()
                [graph] = service.job_report(trial.step.name)["graphs"]
                assert graph["replayed_count"] > 0 or graph["replay"]["refused"], graph
        assert all("cudaErrorStreamCaptureUnsupported" in error for error in errors), errors
        assert len(complaints()) == len(errors), (complaints(), len(errors))
        """,
    )
