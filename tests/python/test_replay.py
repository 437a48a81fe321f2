"""`laneway replay FILE`: what a real service decided, with several jobs, a pool for some of them, a
change of policy, a worker and a broker that die, is decided again from its record, from the start
on or from a moment on (`laneway record`); and a record is a trace of jobs that `laneway simulate`
takes."""

import json
import re
import subprocess

import pytest
import torch
from torch import nn

import laneway
from laneway.cli.commands import main
from laneway.native.programs import program
from support.daemon import Lanewayd, wait_until

WIDTH = 512
JOBS = ("one", "two", "three")
REPLAYED = re.compile(
    r"^(\d+) calls of (\d+) cores in (\d+) brokers?, (\d+) events, (\d+) changes? of policy: "
    r"all (\d+) decisions equal$"
)


def make_step(service, name):
    torch.manual_seed(len(name))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6)))  # 6 MiB, 12 with momentum
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return laneway.train_step(
        model, nn.functional.mse_loss, optimizer, service=service, name=name, sync="manual"
    )


def batch():
    return torch.randn(4, WIDTH), torch.randn(4, WIDTH)


def run(steps, count):
    for _ in range(count):
        futures = [step.submit(*batch()) for step in steps]
        for future in futures:
            future.result()


def counts_of(shown):
    """Calls, cores, brokers, events, changes of policy and decisions that were repeated."""
    return map(int, REPLAYED.match(shown.strip()).groups())


def text_of(record):
    done = subprocess.run(
        [program("laneway-trace"), str(record)], capture_output=True, text=True, check=False
    )
    return done.stdout


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """Of a service with a pool for two of three trainings."""
    path = tmp_path_factory.mktemp("record") / "service.record"
    words = ("--trace", str(path), "--staging", "256MiB", "--lanes", "2")
    with Lanewayd(*words, pool="32MiB") as daemon, daemon.connect() as service:
        steps = [make_step(service, name) for name in JOBS]
        run(steps, 6)
        service.command("policy", "fair:quantum_s=0.05")
        run(steps, 6)
        daemon.kill(daemon.active_worker())
        run(steps, 6)
        service.command("policy", "srtf")
        wait_until(lambda: "policy srtf decides" in text_of(path), "what the first broker did")
        daemon.kill(daemon.broker())
        run(steps, 6)
        for step in steps:
            step.close()
    return path


def test_every_decision_of_a_service_is_made_again(record, capfd):
    text = text_of(record)
    assert "decided EvictImage" in text, "the pool was short"
    assert main(["replay", str(record)]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    calls, cores, brokers, events, policies, decisions = counts_of(shown.out)
    # A core at the start of each broker, and one for each worker's report.
    assert (brokers, policies) == (2, 2)
    assert cores == 5
    assert calls == len(re.findall(r" handled \d+ events", text))
    assert events == len(re.findall(r" heard ", text))
    assert decisions == len(re.findall(r" decided ", text)) > 50


def test_a_record_that_was_changed_or_cut_says_so(record, tmp_path, capfd):
    whole = record.read_bytes()
    changed = tmp_path / "changed"
    middle = len(whole) // 2
    changed.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert main(["replay", str(changed)]) == 1
    assert f"'{changed}' at offset " in capfd.readouterr().err
    cut = tmp_path / "cut"
    cut.write_bytes(whole[:middle])
    assert main(["replay", str(cut)]) in (0, 1)  # between two records it is whole so far
    shown = capfd.readouterr()
    assert "'" + str(cut) + "' at offset" in shown.err or "has no end" in shown.err
    assert main(["replay", str(tmp_path / "none")]) == 1
    assert "none'" in capfd.readouterr().err


def test_a_record_is_a_trace_of_jobs(record, tmp_path, capfd):
    results, lines = tmp_path / "results.json", tmp_path / "lines.csv"
    words = ["simulate", "--trace", str(record), "--policy", "fifo,srtf", "--memory", "32MiB"]
    assert main([*words, "--json", str(results), "--csv", str(lines)]) == 0
    found = json.loads(results.read_text())["policies"]
    assert (found["fifo"]["jobs"], found["fifo"]["refused"]) == (3, 0)
    rows = [row.split(",") for row in lines.read_text().splitlines()[1:4]]
    assert [row[1] for row in rows] == [f"job {n} {name}" for n, name in enumerate(JOBS, 1)]
    assert all(int(row[9]) >= 24 for row in rows), "the iterations that ran"
    capfd.readouterr()
    assert main(["simulate", "--trace", str(record), "--where", "gpus=1"]) == 2
    assert "has no columns" in capfd.readouterr().err


def test_a_running_service_is_recorded_from_a_moment_on(tmp_path, capfd):
    path = tmp_path / "record"
    with (
        Lanewayd("--staging", "256MiB", "--lanes", "2", pool="32MiB") as daemon,
        daemon.connect() as service,
    ):
        steps = [make_step(service, name) for name in JOBS]
        run(steps, 4)
        futures = [step.submit(*batch()) for step in steps]
        service.command("record", str(path))
        for future in futures:
            future.result()
        run(steps, 6)
        service.command("policy", "srtf")
        run(steps, 6)
        service.command("record", None)
        run(steps, 2)
        assert all(line["iterations"] == 19 for line in service.status()["jobs"])
        short = tmp_path / "short"
        words = ["record", str(short), "--seconds", "0.1", "--address", daemon.address]
        assert main(words) == 0
        assert capfd.readouterr().out == f"recorded into {short}\n"
        with pytest.raises(laneway.Error, match="nothing is recorded"):
            service.command("record", None)
        for step in steps:
            step.close()
    text = text_of(path)
    assert "heard WorkerReported 3 jobs" in text.split(" handled ")[2]
    assert "decided EvictImage" in text
    assert main(["replay", str(path)]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    _, cores, brokers, _, policies, decisions = counts_of(shown.out)
    assert (cores, brokers, policies) == (2, 1, 1)
    assert decisions > 20
    assert main(["replay", str(short)]) == 0


@pytest.mark.embedded_only("a lanewayd is recorded")
def test_an_embedded_service_is_not_recorded(tmp_path):
    with (
        laneway.embedded("64MiB") as service,
        pytest.raises(laneway.Error, match="give its jobs to a lanewayd"),
    ):
        service.command("record", str(tmp_path / "record"))


@pytest.mark.parametrize("seconds", ["0", "-1", "long", "nan", "1e9"])
def test_a_length_that_is_none_is_wrong_usage(seconds, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["record", "x", f"--seconds={seconds}"])
    assert ended.value.code == 2
    assert "give more than 0" in capsys.readouterr().err
