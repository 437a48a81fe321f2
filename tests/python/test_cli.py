"""The command line `laneway`: what it prints of a status, its exit codes, and that it does without
torch; most of it against a real lanewayd."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import laneway
from laneway.cli import commands, job_table, tables, view
from laneway.cli.screen import Screen
from laneway.native.torch_versions import MINORS
from support.cli import run
from support.daemon import Lanewayd, wait_until
from support.small_step import small_step
from support.status_lines import image, job

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def daemon():
    with Lanewayd() as running:
        yield running


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0.00"),
        (1, "<0.01"),
        (1536 << 10, "1.50"),
        (100 << 20, "100"),
        (3 << 40, "3,145,728"),
    ],
)
def test_memory_is_in_mebibytes(count, text):
    assert tables.mebibytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (61, "1 min 1 s"),
        (3 * 3600 + 420, "3 h 7 min"),
    ],
)
def test_durations_are_readable(seconds, text):
    assert tables.duration(seconds) == text


def test_tables_are_aligned():
    lines = tables.table(["N", "NAME", "WHY"], [["1", "a", "x"], ["20", "long", ""]], right="N")
    assert lines == [" N  NAME  WHY", " 1  a     x", "20  long"]


def test_where_an_image_is():
    assert job_table.where(job()) == "pool"
    assert job_table.where(job(image=image(store=7))) == "store"
    assert job_table.where(job(image=image(1, spill=7, pinned=True))) == "pool+spill pinned"
    assert job_table.where(job(image=image(pool=1, store=1, moved=1 << 18))) == "pool+store 25 %"
    assert job_table.where(job(image=image())) == "-"


def test_a_waiting_job_has_its_position_reason_and_estimate():
    waiting = job(
        state="waiting",
        lane=None,
        position=2,
        wait_estimate_s=90.0,
        reason={"code": "memory", "text": "the pool is full", "numbers": {}},
    )
    assert job_table.reason(waiting) == "position 2; the pool is full; room likely in 1 min 30 s"
    assert job_table.reason(job()) == "-"
    kept = job(state="resident", waiting_s=75.4, reason={"code": "waits_turn", "text": "not now"})
    assert job_table.reason(kept) == "not now; since 1 min 15 s"
    assert job_table.reason(job(deadline_missed_by_s=3.0)) == "misses its deadline by 3.0 s"
    standby = {"pid": 7, "role": "standby", "state": "ready"}
    assert view.worker_text({**standby, "jobs_to_prepare": None, "jobs_prepared": None}) == (
        "7 standby ready"
    )
    assert view.worker_text({**standby, "jobs_to_prepare": 3, "jobs_prepared": 2}) == (
        "7 standby ready (prepared 2 of 3 jobs)"
    )
    torch = {"built": "2.11.0", "running": "2.11.0"}
    assert view.worker_text({**standby, "torch": torch}) == "7 standby ready, torch 2.11.0"
    assert view.worker_text({**standby, "torch": {**torch, "running": "2.11.1"}}) == (
        "7 standby ready, torch 2.11.1 (built for 2.11.0)"
    )
    assert view.worker_text({**standby, "torch": {"built": None, "running": None}}) == (
        "7 standby ready"
    )
    lines = job_table.job_lines([job(), waiting], Screen(io.StringIO()))
    assert lines[0].split()[:7] == ["ID", "NAME", "USER", "CLASS", "STATE", "IMAGE", "LANE"]
    assert lines[1].split()[5:] == ["pool", "1", "0", "1.00", "-", "1,234", "1.5", "s", "-"]
    assert lines[2].endswith("position 2; the pool is full; room likely in 1 min 30 s")
    assert job_table.job_lines([], Screen(io.StringIO())) == ["no jobs"]


def test_the_command_line_does_without_torch():
    script = "import sys, laneway.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT / "python", check=True)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["status", "--nonsense"],
        ["kill"],
        ["release"],
        ["policy"],
        ["pool"],
        ["set"],
        ["set", "1"],
    ],
)
def test_wrong_usage_is_2(words):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: laneway")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["status", "--help"]])
def test_help_is_0(words):
    assert run(*words).returncode == 0


def test_the_version_says_which_torch_it_is_for_and_which_is_there():
    said = run("--version").stdout.strip()
    version, _, rest = said.partition(", for torch ")
    works, _, here = rest.partition(", and here is ")
    assert version == f"laneway {laneway.__version__}" and here == torch.__version__
    assert works.startswith(MINORS[0]) and works.endswith(MINORS[-1])


def test_no_service_at_the_address_is_3(tmp_path):
    for words in (["status"], ["jobs", "--json"], ["kill", "1"], ["shutdown"]):
        done = run(*words, address=f"ipc://{tmp_path}/none.sock")
        assert done.returncode == 3, done.stderr
        assert f"{tmp_path}/none.sock" in done.stderr and "Traceback" not in done.stderr


def test_an_address_of_no_form_is_2():
    done = run("status", address="unix:/nowhere")
    assert done.returncode == 2
    assert "unix:/nowhere" in done.stderr


def test_status_of_an_idle_service(daemon):
    done = run("status", address=daemon.address)
    assert done.returncode == 0, done.stderr
    assert f"pid {daemon.pid}," in done.stdout and "policy fifo" in done.stdout
    assert "256 MiB: " in done.stdout
    document = json.loads(run("status", "--json", address=daemon.address).stdout)
    assert document["service"]["pid"] == daemon.pid
    assert document["pool"]["capacity_bytes"] == 256 << 20
    assert [w["role"] for w in document["workers"]][:1] == ["active"]


def test_the_status_says_how_much_recovery_memory_is_in_use():
    words = ("--recovery-memory", "64MiB", "--recovery", "undo")
    with Lanewayd(*words) as daemon, daemon.connect() as service:
        before = service.status()["recovery"]
        assert before["capacity_bytes"] == 64 << 20
        with small_step(service, "job") as step:
            step(torch.randn(4, 8), torch.randint(0, 3, (4,)))
            used = service.status()["recovery"]["used_bytes"]
            assert before["used_bytes"] < used <= 64 << 20
        assert "recovery  64" in run("status", address=daemon.address).stdout
    with Lanewayd("--recovery-memory", "0") as daemon, daemon.connect() as service:
        assert service.status()["recovery"] is None
        assert "recovery" not in run("status", address=daemon.address).stdout


def test_the_status_says_what_is_used_of_each_limit_and_by_whom():
    with Lanewayd("--max-threads", "3", "--graph-memory", "64MiB") as daemon:
        with daemon.connect() as service, small_step(service, "job"):
            limits = json.loads(run("status", "--limits", "--json", address=daemon.address).stdout)
            known = {limit["name"]: limit for limit in limits}
            assert known["jobs"]["used"] == 1
            assert [one["used"] for one in known["jobs"]["users"]] == [1]
            assert known["sessions"]["used"] == 2  # the command itself has one
            for limit in (known["held_bytes"], known["descriptors"]):
                assert 0 < limit["used"] < limit["user_limit"] <= limit["limit"]
            # Of each worker, and beside the active one stands one more.
            assert known["graph_bytes"]["limit"] == 32 << 20
            assert known["graph_bytes"]["user_limit"] == 16 << 20
            assert known["graph_bytes"]["key"] == "graph-memory"
            assert known["iteration_threads"]["limit"] == 3
            table = run("status", "--limits", address=daemon.address).stdout.splitlines()
        rows = {line.split()[0]: line for line in table}
        assert "--max-threads" in rows["iteration_threads"]
        user = known["jobs"]["users"][0]["user"]
        assert f"{user}: 1" in rows["jobs"]
        assert known["jobs"]["limit"] == 4096 and " 4,096 " in rows["jobs"]
        after = json.loads(run("status", "--json", address=daemon.address).stdout)["limits"]
        assert {limit["name"]: limit["used"] for limit in after}["jobs"] == 0


def test_jobs_are_listed_and_killed_by_name_and_by_number(daemon):
    with daemon.connect() as service:
        first, second = small_step(service, "first"), small_step(service, "second")
        listed = json.loads(run("jobs", "--json", address=daemon.address).stdout)
        known = {entry["name"]: entry for entry in listed}
        assert known["first"]["iterations"] == 1
        table = run("jobs", address=daemon.address).stdout.splitlines()
        assert table[0].startswith("ID") or table[0].lstrip().startswith("ID")
        assert any(" first " in line and " training " in line for line in table)
        done = run("kill", "first", address=daemon.address)
        assert done.returncode == 0, done.stderr
        assert run("kill", str(known["second"]["id"]), address=daemon.address).returncode == 0
        for step in (first, second):
            with pytest.raises(laneway.Error):
                wait_until(
                    lambda step=step: [step(torch.randn(4, 8), torch.tensor([0] * 4))][1:],
                    "its end",
                )


def test_a_number_is_never_a_name(daemon):
    with daemon.connect() as service:
        first = small_step(service, "first")
        number = str(first.report()["id"])
        second = small_step(service, number)  # named like the other one's number
        other = str(second.report()["id"])
        assert other != number
        done = run("set", "--name", number, "weight=3", address=daemon.address)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"job {number} has weight=3\n"
        known = {line["id"]: line for line in service.status()["jobs"]}
        assert (known[int(number)]["weight"], known[int(other)]["weight"]) == (1.0, 3.0)
        report = json.loads(run("report", "--json", number, address=daemon.address).stdout)
        assert report["name"] == "first"
        assert run("kill", number, address=daemon.address).returncode == 0
        state = {line["id"]: line["state"] for line in service.status()["jobs"]}
        assert state[int(number)] == "cancelled" and state[int(other)] != "cancelled"
        done = run("kill", "4294967299", address=daemon.address)
        assert done.returncode == 4 and "4294967299" in done.stderr


def test_options_of_a_running_job_are_set(daemon):
    with daemon.connect() as service:
        step = small_step(service, "gpt6", total_iterations=10)
        words = ("weight=2.5", "priority=-3", "total_iterations=none", "deadline=90")
        done = run("set", "gpt6", *words, "job_class=best_effort", address=daemon.address)
        assert done.returncode == 0, done.stderr
        line = step.report()["status"]
        shown = [line[key] for key in ("weight", "priority", "total_iterations", "deadline_s")]
        assert shown == [2.5, -3, None, 90.0]
        assert line["class"] == "best_effort"
        done = run("set", "gpt6", "weight=1", "--json", address=daemon.address)
        assert json.loads(done.stdout) == {"set": "gpt6", "changes": {"weight": 1}}
        done = run("set", "nobody", "weight=2", address=daemon.address)
        assert (done.returncode, "nobody" in done.stderr) == (4, True), done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["weight"], "'weight' sets nothing: give KEY=VALUE"),
        (["weight=nan"], "weight = nan: give a number from 0.001 to 1000"),
        (["weight=-1"], "weight = -1: give a number"),
        (["priority=2.5"], "priority = 2.5: give a whole number"),
        (["priority=99999999999"], "priority = 99999999999: give a whole number from -1000000"),
        (["total_iterations=-4"], "total_iterations = -4: give a whole number"),
        (["deadline=0"], "deadline = 0: give seconds"),
        (["deadline=1e300"], "deadline = 1e+300: give seconds"),
        (["job_class=batch"], "job_class = 'batch': give one of 'training'"),
        (["name=x"], "name is no option of a job to set: give priority"),
        (["weight=2", "weight=3"], "weight is given twice"),
    ],
)
def test_a_setting_that_makes_no_sense_is_wrong_usage(words, told):
    done = run("set", "1", *words, address="ipc:///nowhere/none.sock")
    assert done.returncode == 2
    assert told in done.stderr and "Traceback" not in done.stderr


def test_a_job_is_reported_to_others_by_name_and_by_number(daemon):
    with daemon.connect() as service:
        step = small_step(service, "reported")
        step.state_dict()  # behind what the service learns from an iteration that was answered
        done = run("report", "reported", address=daemon.address)
        assert done.returncode == 0, done.stderr
        heads, line = done.stdout.splitlines()[:2]  # a third one when an equal job came before
        assert heads.split()[:4] == ["GRAPH", "NAME", "NODES", "ITERATIONS"]
        assert line.split()[3:6] == ["1", "0", "-"], line
        number = str(step.report()["id"])
        report = json.loads(run("report", number, "--json", address=daemon.address).stdout)
        assert report["graphs"] == step.report()["graphs"]
        done = run("report", "nobody", address=daemon.address)
        assert (done.returncode, "nobody" in done.stderr) == (4, True), done.stderr


def test_an_embedded_service_reports_by_number():
    with laneway.embedded("64MiB") as service:
        step = small_step(service, "inside")
        step.state_dict()  # behind what the service learns from an iteration that was answered
        report = step.report()
        assert commands.job_report(service, report["id"])["graphs"] == report["graphs"]
        with pytest.raises(laneway.errors.Refused, match="numbered '77'"):
            commands.job_report(service, 77)


def test_a_report_says_why_a_graph_is_not_recorded():
    graph = {"number": 0, "name": "train", "nodes": 1200, "iterations": 9, "replayed_count": 4}
    graph |= {"planned_peak_bytes": 3 << 20}
    graph |= {"shared": {"resolved": False, "planned": False, "jobs": 1}}
    told = graph | {"replay": {"recorded": 0, "nodes": 0, "refused": "node 4 (aten::mm): no"}}
    fine = graph | {"number": 1, "replay": {"recorded": 1, "nodes": 1100, "refused": None}}
    lines = view.report_lines({"graphs": [told, fine]})
    assert lines[1].split() == ["0", "train", "1,200", "9", "4", "-", "3.00"]
    assert lines[2].split() == ["1", "train", "1,200", "9", "4", "1,100", "3.00"]
    assert lines[3:] == ["graph 0 is not recorded: node 4 (aten::mm): no"]
    fine["shared"] = {"resolved": True, "planned": True, "jobs": 24}
    assert view.report_lines({"graphs": [fine]})[2:] == [
        "graph 1 is that of 24 jobs, and was resolved and planned before this job had it"
    ]
    fine["shared"] = {"resolved": False, "planned": False, "jobs": 2}
    assert view.report_lines({"graphs": [fine]})[2:] == ["graph 1 is that of 2 jobs"]


def test_a_job_that_is_not_there_is_refused_with_4(daemon):
    done = run("kill", "nobody", address=daemon.address)
    assert done.returncode == 4
    assert "nobody" in done.stderr


def test_the_policy_changes_and_an_unknown_one_is_refused(daemon):
    assert run("policy", "srtf", address=daemon.address).returncode == 0
    status = json.loads(run("status", "--json", address=daemon.address).stdout)
    assert status["service"]["policy"] == "srtf"
    done = run("policy", "nonsense", address=daemon.address)
    assert done.returncode == 4
    assert "nonsense" in done.stderr and "fifo" in done.stderr
    assert run("policy", "fifo", address=daemon.address).returncode == 0


def test_shutdown_comes_back_when_the_service_is_gone():
    with Lanewayd() as running:
        done = run("shutdown", address=running.address)
        assert done.returncode == 0, done.stderr
        assert f"pid {running.pid}, has ended" in done.stdout
        assert running.process.wait(TIMEOUT_S) == 0
        assert not (running.folder / "laneway.sock").exists()
        assert run("status", address=running.address).returncode == 3


def test_a_pipe_that_closes_early_is_no_error(daemon):
    command = f"{sys.executable} -m laneway.cli status --address {daemon.address} | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
