"""The demo's parts, each apart: what it trains, how it compares, what it shows, its threads. The
steps here are plain PyTorch's; test_demo.py runs the demo itself."""

import io
import math
import threading

import pytest
import torch

from laneway.demo import compare, display, running, show, workloads


@pytest.fixture(scope="module")
def data():
    return workloads.load_digits(0)


@pytest.fixture(scope="module")
def jobs(data):
    return workloads.make_jobs(data, seed=0, epochs=6)


def state_after(job, count):
    model, optimizer = job.begin()
    workloads.train(workloads.EagerStep(model, job.loss_fn, optimizer), job, count)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    return compare.training_state(state)


def test_no_digit_is_in_both_parts_of_the_split(data):
    train = {image.numpy().tobytes() for image in data.train_x}
    held_out = {image.numpy().tobytes() for image in data.held_out_x}
    assert len(data.train_y) + len(data.held_out_y) == 1797
    # The data set itself has no duplicates to speak of.
    assert len(train & held_out) <= 1
    assert 0.18 < len(data.held_out_y) / 1797 < 0.22


def test_an_epoch_shows_every_example_at_most_once(jobs):
    job = jobs[0]
    rows = torch.cat([x for x, _ in job.batches(job.data.batches_per_epoch)]).flatten(1)
    distinct = {row.numpy().tobytes() for row in rows}
    assert len(distinct) >= len(rows) - 1
    assert len(rows) == job.data.batches_per_epoch * workloads.BATCH


def test_batches_from_the_middle_are_those_of_a_whole_run(jobs):
    whole = list(jobs[1].batches(50))
    part = list(jobs[1].batches(50, first=30))
    assert len(part) == 20
    assert all(
        torch.equal(a, b)
        for one, two in zip(whole[30:], part, strict=True)
        for a, b in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("index", [0, 1])
def test_training_twice_gives_the_same_bits_and_draws_matter(jobs, index):
    """The comparison at the demo's end rests on this. The CNN's dropout draws from the default
    generator, so that another state of it must show."""
    job = jobs[index]
    first, second = state_after(job, 12), state_after(job, 12)
    assert compare.differences(first, second) == []
    names = " ".join(first)
    assert "exp_avg" in names if index == 0 else "momentum_buffer" in names
    if index == 1:
        assert "running_var" in names and "num_batches_tracked" in names
        model, optimizer = job.begin()
        torch.rand(1)
        workloads.train(workloads.EagerStep(model, job.loss_fn, optimizer), job, 12)
        other = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        assert compare.differences(compare.training_state(other), first)


def test_a_few_epochs_reach_most_of_the_accuracy(jobs):
    """The demo trains longer and asks for 95 %."""
    for job in jobs:
        model, optimizer = job.begin()
        workloads.train(workloads.EagerStep(model, job.loss_fn, optimizer), job, job.iterations)
        logits = workloads.evaluate(model, job.data.held_out_x)
        assert workloads.accuracy(logits, job.data.held_out_y) > 0.85


def test_differences_name_the_tensor_and_by_how_much():
    ours = {"model w": torch.tensor([1.0, 2.0]), "model n": torch.tensor(3)}
    plain = {"model w": torch.tensor([1.0, 2.5]), "model n": torch.tensor(3)}
    assert compare.differences(ours, plain) == ["model w differs in 1 of 2 elements, by up to 0.5"]
    assert compare.differences(ours, ours) == []
    zero = {"z": torch.tensor([0.0])}, {"z": torch.tensor([-0.0])}
    assert len(compare.differences(*zero)) == 1, "bits count, not what compares equal"
    missing = compare.differences(ours, {"model w": ours["model w"]})
    assert missing == ["model n exists only in Laneway"]
    assert "float64" in compare.differences(ours, ours | {"model n": torch.tensor(3.0).double()})[0]


def test_sizes_are_readable():
    assert [display.size(n) for n in (0, 1023, 1024, 1536, 512 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "512.0 MiB",
        "3.0 GiB",
    ]
    assert display.size(None) == "?"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_live_lines_replace_the_last_ones():
    out = Terminal()
    shown = display.Display(quiet=False, out=out)
    shown.live(["a", "b"], "brief")
    shown.live(["c", "d"], "brief")
    assert out.getvalue() == "\r\x1b[2Ka\n\r\x1b[2Kb\n\x1b[2A\r\x1b[2Kc\n\r\x1b[2Kd\n"
    shown.say("stays")
    shown.live(["e"], "brief")
    assert out.getvalue().endswith("stays\n\r\x1b[2Ke\n"), "what stays is not written over"


def test_elsewhere_there_is_one_plain_line_now_and_then():
    out = io.StringIO()
    shown = display.Display(quiet=False, out=out)
    assert shown.due(now=100.0) and not shown.due(now=101.0) and shown.due(now=102.5)
    shown.live(["table", "of", "lines"], "a")
    assert out.getvalue() == "a\n"


def test_quiet_says_results_only():
    out = io.StringIO()
    shown = display.Display(quiet=True, out=out)
    shown.say("no")
    shown.live(["no"], "no")
    shown.result("yes")
    assert out.getvalue() == "yes\n" and not shown.due(now=1e9)


def test_a_training_runs_all_its_batches_once_warm_up_included(jobs):
    """Through a thread, as the demo does it: the same bits as in one go on this thread."""
    job = jobs[0]
    model, optimizer = job.begin()
    step = workloads.EagerStep(model, job.loss_fn, optimizer)
    training = running.Training(job, step, threading.Event())
    training.warm_up()
    assert training.done == running.WARM_UP
    training.start()
    training.join()
    assert training.error is None and training.done == job.iterations
    assert len(training.times_s) == job.iterations - running.WARM_UP
    assert math.isfinite(training.loss) and training.recent_rate() > 0
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    expected = state_after(job, job.iterations)
    assert compare.differences(compare.training_state(state), expected) == []


def test_a_thread_that_fails_stops_the_others_and_keeps_its_error(jobs):
    stop = threading.Event()

    def broken(x, y):
        raise ArithmeticError("three")

    training = running.Training(jobs[0], broken, stop)
    training.start()
    training.join()
    assert stop.is_set() and str(training.error) == "three"
    model, optimizer = jobs[1].begin()
    other = running.Training(jobs[1], workloads.EagerStep(model, jobs[1].loss_fn, optimizer), stop)
    other.start()
    other.join()
    assert other.done == 1 and other.error is None


def test_requests_are_answered_until_the_training_ends(data):
    """The third answer ends it: no request is made after that."""
    asked = []

    def predict(x):
        asked.append(x)
        return torch.nn.functional.one_hot(torch.arange(len(x)) % 10, 10).float()

    def until():
        return len(asked) == 3

    requests = running.Requests(predict, data.held_out_x, data.held_out_y, until, threading.Event())
    requests.start()
    requests.join()
    assert requests.error is None and len(requests.times_s) == 3
    assert not torch.equal(asked[0], asked[1]) and len(asked[0]) == running.REQUEST_ROWS
    assert 0 <= requests.accuracy <= 1


STATUS = {
    "service": {},
    "pool": {
        "capacity_bytes": 4096,
        "persistent_bytes": 1024,
        "region_bytes": 512,
        "other_bytes": 0,
        "reserve_bytes": 0,
        "free_bytes": 2560,
    },
    "regions": [{"id": 1, "bytes": 512, "lanes": [4]}],
    "lanes": [{"id": 4, "region": 1, "jobs": [7], "running": None}],
    "jobs": [
        {"id": 7, "name": "mlp", "lane": 4, "persistent_bytes": 1024, "ephemeral_bytes": 500},
        {"id": 8, "name": "cnn", "lane": None, "persistent_bytes": 0, "ephemeral_bytes": 9},
    ],
}


def test_a_jobs_lane_and_bytes_come_from_the_status():
    assert running.lane_and_bytes(STATUS, "mlp") == ("4", 1024, 500)
    assert running.lane_and_bytes(STATUS, "cnn") == ("-", 0, 9)
    assert running.lane_and_bytes(STATUS, "gone") == ("-", 0, 0)


def test_the_map_names_every_piece_and_who_holds_it():
    def piece(offset, count, kind, **holder):
        ids = {"job": None, "region": None, "lane": None} | holder
        return {"offset": offset, "bytes": count, "kind": kind} | ids

    pieces = [
        piece(0, 1024, "image", job=7),
        piece(1024, 512, "region", region=1, lane=4),
        piece(1536, 2560, "free"),
    ]
    lines = show.pool_map(STATUS | {"map": pieces})
    assert len(lines) == 5
    assert lines[1].split()[:4] == ["0", "1.0", "KiB", "mlp:"]
    assert lines[2].split()[:3] == ["1024", "512", "B"] and "iteration of mlp" in lines[2]
    assert lines[3].split() == ["1536", "2.5", "KiB", "free"]
    assert lines[4].startswith("4096")
