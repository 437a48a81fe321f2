"""Policies from outside of the tree, as files that `laneway simulate` starts: the examples do what
they say in Python and in C++; and whatever a file does wrong ends the simulation with its name and
the reason, and exit code 1."""

import csv
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from laneway.cli.commands import main
from laneway.native.programs import program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "plugin" / "examples"
BUILD = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build" / "dev"))
# c is short and comes last; b is shorter than a.
TRACE = """job_id,submit_time_s,iterations,iteration_ms
a,0,100,100
b,1,50,100
c,2,10,100
"""
SHEBANG = "#!/usr/bin/env python3\n"
BEGIN = """
import os, random, signal, struct, sys
from laneway import policy
"""


@pytest.fixture(autouse=True)
def _python(monkeypatch):
    if program("laneway-simulate") is None:
        pytest.skip("laneway-simulate is not built")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


@pytest.fixture
def write(tmp_path):
    """Makes a file of these lines, which may be started."""

    def made(lines, name="mine.py"):
        file = tmp_path / name
        file.write_text(SHEBANG + BEGIN + textwrap.dedent(lines))
        file.chmod(0o755)
        return file

    return made


@pytest.fixture
def mine(tmp_path):
    """Makes a copy of a file that nobody else may write, whoever owns the checkout."""

    def made(source):
        file = tmp_path / source.name
        shutil.copyfile(source, file)
        file.chmod(0o755)
        return file

    return made


def ends(trace, policy, tmp_path, *flags):
    """When each job ended, by the tenth of a second."""
    lines = tmp_path / "lines.csv"
    words = ["simulate", "--trace", str(trace), "--policy", str(policy), "--csv", str(lines)]
    assert main([*words, *flags]) == 0
    with lines.open(newline="") as file:
        return {row["job_id"]: round(float(row["ended_s"]), 1) for row in csv.DictReader(file)}


def failure(trace, policy, capfd, *flags):
    """What is said of a file that fails."""
    assert main(["simulate", "--trace", str(trace), "--policy", str(policy), *flags]) == 1
    return capfd.readouterr().err


LATEST = {"c": 3.0, "b": 7.0, "a": 16.0}


@pytest.mark.parametrize(("name", "wanted"), [("latest_first", LATEST), ("shortest_job", LATEST)])
def test_the_examples_do_what_they_say(trace, tmp_path, mine, name, wanted):
    found = ends(trace, f"{mine(EXAMPLES / f'{name}.py')}:age=off", tmp_path)
    assert found == pytest.approx(wanted, abs=0.11)  # an iteration each ends first


@pytest.mark.parametrize("name", ["latest_first", "shortest_job"])
def test_the_examples_in_c_plus_plus_do_the_same(trace, tmp_path, mine, name):
    compiled = mine(BUILD / "plugin" / f"policy_{name}")
    written = ends(trace, f"{mine(EXAMPLES / f'{name}.py')}:age=off", tmp_path)
    assert ends(trace, f"{compiled}:age=off", tmp_path) == written


def test_a_list_of_policies_has_files_and_names(trace, tmp_path, mine):
    results = tmp_path / "results.json"
    policies = ["fifo", f"{mine(EXAMPLES / 'latest_first.py')}:age=off", "srtf:age=off"]
    words = ["simulate", "--trace", str(trace), "--policy", ",".join(policies)]
    assert main([*words, "--json", str(results)]) == 0
    assert list(json.loads(results.read_text())["policies"]) == policies


def test_options_that_laneway_knows_are_its_own_and_the_others_the_files(trace, tmp_path, write):
    file = write(
        """
        class Mine(policy.Policy):
            def rank(self, job, now):
                assert self.options == {"sign": "-1", "what": "a=b"}, self.options
                return int(self.options["sign"]) * job.arrival
        policy.main(Mine)
        """
    )
    found = ends(trace, f"{file}:sign=-1:age=off:what=a=b:share=yes:age_s=3", tmp_path)
    assert found == pytest.approx(LATEST, abs=0.11)


def test_what_is_known_of_a_job_is_told(tmp_path, write):
    trace = tmp_path / "one.csv"
    trace.write_text(
        "job_id,submit_time_s,iterations,iteration_ms,priority,weight,deadline_s,job_class\n"
        "a,5,10,100,3,2,60,training\nb,5,10,100,0,1,0,inference\n"
    )
    told = tmp_path / "told"
    file = write(
        f"""
        class Mine(policy.Policy):
            def rank(self, job, now):
                print(now, job, file=open({str(told)!r}, "a"))
                return job.arrival
            def gone(self, job):
                print("gone", job.name, file=open({str(told)!r}, "a"))
        policy.main(Mine)
        """
    )
    ends(trace, f"{file}:age=off", tmp_path)
    lines = told.read_text().splitlines()
    first = lines[0]
    for part in (
        "name='a'", "user=None", "job_class='training'", "priority=3", "weight=2.0",
        "deadline_s=60.0", "total_iterations=10", "iterations=0", "iteration_s=0.1",
        "remaining_s=1.0", "arrival=1",
    ):  # fmt: skip
        assert part in first, first
    assert any("state='running'" in line and "lane=1" in line for line in lines)
    assert "deadline_s=None" in lines[1] and "job_class='inference'" in lines[1]
    assert [line for line in lines if line.startswith("gone")] == ["gone a", "gone b"]


def test_a_rank_follows_what_a_job_gets_and_turns_end_after_a_slice(trace, tmp_path, write):
    """Least device time first, 0.2 s a turn: all share, as under fair."""
    file = write(
        """
        class Share(policy.Policy):
            def rank(self, job, now):
                return policy.Rank(job.busy_s, per_busy_s=1, slice_s=0.2)
        policy.main(Share)
        """
    )
    found = ends(trace, f"{file}:age=off", tmp_path)
    # c gets all that it wants at once, b until it has what a had: the ideal sharing, by hand.
    assert found["a"] == pytest.approx(16, abs=0.11)
    assert found["c"] == pytest.approx(3.1, abs=0.5)
    assert found["b"] == pytest.approx(11, abs=0.7)


def test_a_policy_is_woken_when_it_wants_to_be(trace, tmp_path, write):
    """At 5 s, where nothing happens, b goes first."""
    file = write(
        """
        class Late(policy.Policy):
            def rank(self, job, now):
                return -job.arrival if now >= 5 and job.name == "b" else job.arrival
            def wakes_at(self, now):
                return 5 if now < 5 else None
        policy.main(Late)
        """
    )
    found = ends(trace, f"{file}:age=off", tmp_path)
    assert found == pytest.approx({"b": 10, "a": 15, "c": 16}, abs=0.11)


def test_equal_seeds_draw_the_same_and_the_speed_of_a_file_does_not_matter(tmp_path, write):
    lines = """
        class Lottery(policy.Policy):
            def rank(self, job, now):
                {slow}
                return random.random()
        policy.main(Lottery)
        """
    fast = write(lines.format(slow="pass"), "fast.py")
    slow = write(lines.format(slow="sum(range(100_000))"), "slow.py")
    found = {}
    for key, file, seed in (("fast", fast, 5), ("slow", slow, 5), ("other", fast, 6)):
        csv_file = tmp_path / f"{key}.csv"
        words = ["simulate", "--generate", "12", "--policy", str(file), "--csv", str(csv_file)]
        if seed != 5:
            # The same jobs, and another draw.
            trace = tmp_path / "same.csv"
            words[1:3] = ["--trace", str(trace)]
        else:
            words += ["--save-trace", str(tmp_path / "same.csv")]
        assert main([*words, "--seed", str(seed)]) == 0
        found[key] = csv_file.read_text().replace(str(file), "FILE")
    assert found["fast"] == found["slow"] != found["other"]


FAULTS = {
    "throws": ("def rank(self, job, now): raise KeyError('no such thing')", "exit code 1"),
    "exits": ("def rank(self, job, now): os._exit(7)", "it ended with exit code 7"),
    "is killed": ("def rank(self, job, now): os.kill(os.getpid(), 9)", "signal 9 (Killed)"),
    "hangs": ("def rank(self, job, now): signal.pause()", "did not answer within 1 s"),
    "is stopped": (
        "def rank(self, job, now): os.kill(os.getpid(), signal.SIGSTOP)",
        "did not answer within 1 s: make it faster, or give --policy-patience more",
    ),
    "says nan": ("def rank(self, job, now): return float('nan')", "exit code 1"),
    "says text": ("def rank(self, job, now): return 'first'", "exit code 1"),
    "has no rank": ("pass", "exit code 1"),
    "floods memory": ("def rank(self, job, now): return len(bytearray(3 << 30))", "exit code 1"),
    "closes its descriptors": (
        "def rank(self, job, now): os.closerange(0, 100); signal.pause()",
        "it closed descriptor 3",
    ),
    "writes text there": (
        "def rank(self, job, now): os.write(3, b'hello world'); signal.pause()",
        "leave descriptor 3 to laneway.policy",
    ),
    "ranks another job": (
        """def rank(self, job, now):
        os.write(3, struct.pack('<IBQqqdddd', 57, 130, 99, 0, 0, 1, 0, 0, 0))
        signal.pause()""",
        "it ranks job 99, of which it was never told",
    ),
    "writes a number that is none": (
        """def rank(self, job, now):
        os.write(3, struct.pack('<IBQqqdddd', 57, 130, 1, 0, 0, float('nan'), 0, 0, 0))
        signal.pause()""",
        "its rank of job 1 has value nan: give a finite number",
    ),
    "wants to be woken before now": (
        """def rank(self, job, now): return 1
    def wakes_at(self, now): return now""",
        "give a later time, or none",
    ),
    "forks and goes": (
        """def rank(self, job, now):
        if os.fork() == 0: signal.pause()
        os._exit(3)""",
        "did not answer within 1 s: make it faster, or give --policy-patience more",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_file_does_wrong_is_named(trace, write, capfd, fault):
    body, reason = FAULTS[fault]
    file = write(f"class Mine(policy.Policy):\n    {body}\npolicy.main(Mine)\n")
    # Only those that never answer are given up by time.
    patience = "1" if "within 1 s" in reason else "600"
    said = failure(trace, file, capfd, "--policy-patience", patience)
    assert f"laneway-simulate: policy {file}: " in said
    assert reason in said.splitlines()[-1]


def test_what_it_throws_is_shown(trace, write, capfd):
    file = write(
        "class Mine(policy.Policy):\n"
        "    def rank(self, job, now): raise KeyError('no such thing')\n"
        "policy.main(Mine)\n"
    )
    assert "KeyError: 'no such thing'" in failure(trace, file, capfd)


def test_what_a_file_prints_is_no_harm(trace, tmp_path, write, capfd):
    file = write(
        """
        class Loud(policy.Policy):
            def rank(self, job, now):
                print("I am asked about", job.name)
                return -job.arrival
        policy.main(Loud)
        """
    )
    found = ends(trace, f"{file}:age=off", tmp_path)
    shown = capfd.readouterr()
    assert found == pytest.approx(LATEST, abs=0.11)
    assert "I am asked about a" in shown.err and "I am asked about" not in shown.out


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(0o644, "is not executable: chmod +x"), (0o775, "may be changed by others than its owner")],
)
def test_a_file_that_may_not_be_started_is_wrong_usage(trace, write, capfd, mode, reason):
    file = write("")
    file.chmod(mode)
    assert main(["simulate", "--trace", str(trace), "--policy", str(file)]) == 2
    said = capfd.readouterr().err
    assert f"--policy {file}: " in said and reason in said


def test_a_file_that_is_not_there_is_wrong_usage(trace, capfd):
    assert main(["simulate", "--trace", str(trace), "--policy", "./no_such.py:a=b"]) == 2
    assert "policy ./no_such.py cannot be started: No such file" in capfd.readouterr().err
    assert main(["simulate", "--trace", str(trace), "--policy", "./no_such.py:age=maybe"]) == 2
    assert "option age=maybe: write age=on or age=off" in capfd.readouterr().err


def test_a_file_that_is_no_policy_is_named(trace, write, capfd):
    file = write("sys.exit('I do something else')")
    said = failure(trace, file, capfd)
    assert "I do something else" in said
    assert f"policy {file}: it ended with exit code 1" in said


def test_started_by_hand_it_says_how_it_is_used():
    done = subprocess.run(
        [EXAMPLES / "latest_first.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "is a policy: give it to laneway simulate" in done.stderr


def test_the_side_of_python_needs_nothing_but_the_standard_library():
    code = (
        "import sys, laneway.policy; "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'cffi')])"
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path
    )
    assert done.stdout.strip() == "[]"
