"""`laneway simulate`: it hands its options to laneway-simulate, whose own they are, and draws what
was found; what goes wrong is its exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from laneway.cli import plots, simulate
from laneway.cli.commands import main
from laneway.native.programs import program

SIMULATE = "laneway-simulate"
TRACE = """job_id,submit_time_s,iterations,iteration_ms,persistent_mb,ephemeral_mb
a,0,100,10,60,1
b,0.1,100,10,60,1
c,0.2,10,10,600,1
"""


@pytest.fixture
def trace(tmp_path):
    if program(SIMULATE) is None:
        pytest.skip("laneway-simulate is not built")
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def test_its_options_are_those_of_the_program():
    simulator = program(SIMULATE)
    if simulator is None:
        pytest.skip("laneway-simulate is not built")
    text = subprocess.run([simulator, "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE))
    assert known - {"--help", "--version"} == {flag for flag, _, _ in simulate.OPTIONS}


def test_results_are_printed_and_written(trace, tmp_path, capfd):
    results, lines = tmp_path / "results.json", tmp_path / "lines.csv"
    words = ["simulate", "--trace", str(trace), "--policy", "fifo:share=no,sjf", "--lanes", "2"]
    words += ["--memory", "512MiB", "--json", str(results), "--csv", str(lines)]
    assert main(words) == 0
    shown = capfd.readouterr()
    assert "fifo:share=no" in shown.out and "average JCT" in shown.out
    assert "fifo:share=no: 1 of 3 jobs were refused, the first of them: " in shown.err
    found = json.loads(results.read_text())
    assert list(found["policies"]) == ["fifo:share=no", "sjf"]
    row = found["policies"]["fifo:share=no"]
    assert (row["jobs"], row["refused"]) == (3, 1)
    assert row["average_jct_s"] == pytest.approx(1)
    assert found["lanes"] == 2 and found["memory_bytes"] == 512 << 20
    assert len(lines.read_text().splitlines()) == 1 + 2 * 3


def test_equal_runs_write_equal_bytes(trace, tmp_path):
    written = []
    for name in ("one", "two"):
        results, lines = tmp_path / f"{name}.json", tmp_path / f"{name}.csv"
        words = ["simulate", "--trace", str(trace), "--policy", "fair,las", "--seed", "3"]
        assert main([*words, "--json", str(results), "--csv", str(lines)]) == 0
        written.append(results.read_bytes() + lines.read_bytes())
    assert written[0] == written[1]


def test_plots_are_drawn_from_what_was_found(trace, tmp_path, capfd):
    folder = tmp_path / "plots"
    assert main(["simulate", "--trace", str(trace), "--plots", str(folder)]) == 0
    assert "7 plots in" in capfd.readouterr().out
    names = {path.name for path in folder.iterdir()}
    kinds = ("jct", "wait", "slowdown", "makespan", "fairness", "utilisation", "memory")
    assert names == {f"{kind}.svg" for kind in kinds}
    for path in folder.iterdir():
        texts = [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        assert any(text.startswith("fifo") for text in texts), path.name


def test_a_distribution_rises_by_one_job_at_each_value(tmp_path):
    def line(jct, wait):
        times = {"submit_s": "0", "ended_s": jct, "jct_s": jct, "wait_s": wait, "busy_s": "1"}
        return {"policy": "a<b", **times}

    gone = {**line("", "0"), "busy_s": "0"}  # was refused
    plots.draw([line("10", "0"), line("100", "90"), gone], [], tmp_path)
    page = ElementTree.parse(tmp_path / "jct.svg")
    (curve,) = page.iter("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)
    assert len({x for x, _ in points}) == 2, "two jobs ended"
    assert heights[0] - heights[2] == pytest.approx((heights[0] - heights[-1]) / 2, abs=0.2)


def test_without_a_job_that_ended_there_are_empty_plots(tmp_path):
    refused = {"policy": "fifo", "submit_s": "0", "ended_s": "", "jct_s": ""}
    assert len(plots.draw([{**refused, "wait_s": "0", "busy_s": "0"}], [], tmp_path)) == 7


def test_what_is_in_use_is_of_all_devices_together(tmp_path):
    def step(device, begin, to, lanes):
        times = {"from_s": str(begin), "to_s": str(to), "device": device}
        return {"policy": "fifo", **times, "busy_lanes": str(lanes), "memory_bytes": "0"}

    steps = [step("1", 0, 2, 1), step("1", 2, 3, 2), step("2", 0, 1, 2), step("2", 1, 2, 0)]
    assert plots._levels(steps, "fifo", "busy_lanes", 1) == [(0, 2, 2), (2, 3, 2)]


def test_fairness_is_one_where_all_are_slowed_down_alike():
    assert plots._jain([0.5, 0.5, 0.5]) == pytest.approx(1)
    assert plots._jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert plots._jain([]) == 0


def test_what_goes_wrong_is_the_exit_code(trace, tmp_path, capfd):
    assert main(["simulate", "--trace", str(tmp_path / "none.csv")]) == 2
    assert "none.csv' cannot be read" in capfd.readouterr().err
    assert main(["simulate", "--trace", str(trace), "--policy", "lottery"]) == 2
    assert "--policy lottery" in capfd.readouterr().err
    assert main(["simulate", "--trace", str(trace), "--json", str(tmp_path / "no/x.json")]) == 1
    assert "cannot be written" in capfd.readouterr().err
    folder = tmp_path / "file"
    folder.write_text("")
    assert main(["simulate", "--trace", str(trace), "--plots", str(folder)]) == 1
    assert "the plots cannot be written" in capfd.readouterr().err


def test_without_its_program_the_command_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(simulate, "program", lambda name: None)
    assert main(["simulate", "--trace", "x"]) == 1
    assert "./dev build" in capsys.readouterr().err


def test_a_gap_before_each_turn_is_a_part_of_the_time(trace, tmp_path, capfd):
    results = tmp_path / "results.json"
    words = ["simulate", "--trace", str(trace), "--policy", "fifo:age=off", "--json", str(results)]
    makespans = []
    for gap in ("0", "0.5"):
        assert main([*words, "--turn-gap", gap]) == 0
        found = json.loads(results.read_text())
        assert found["turn_gap_s"] == float(gap)
        makespans.append(found["policies"]["fifo:age=off"]["makespan_s"])
    turns = found["policies"]["fifo:age=off"]["turns"]
    assert makespans[1] - makespans[0] >= 3 * 0.5 and turns >= 3
    for wrong in ("-1", "3601", "fast"):
        assert main([*words, f"--turn-gap={wrong}"]) == 2
        assert f"--turn-gap {wrong}: give seconds from 0 to 3600" in capfd.readouterr().err


def test_a_year_in_which_nothing_comes_is_passed_at_once(trace, tmp_path):
    year_s = 365 * 24 * 3600
    trace.write_text(TRACE.splitlines()[0] + f"\na,0,100,10,60,1\nb,{year_s},100,10,60,1\n")
    results = tmp_path / "results.json"
    words = ["simulate", "--trace", str(trace), "--policy", "fifo,srtf,fair,las"]
    assert main([*words, "--memory", "1GiB", "--json", str(results)]) == 0
    for name, found in json.loads(results.read_text())["policies"].items():
        assert found["makespan_s"] == pytest.approx(year_s + 1), name
        assert found["average_jct_s"] == pytest.approx(1), name
        assert found["events"] < 1000, name


@pytest.mark.parametrize("by_laneway", [False, True])
def test_an_interrupt_leaves_no_half_a_result(trace, tmp_path, by_laneway):
    """Its last policy is a program that never answers."""
    stuck = tmp_path / "stuck.sh"
    stuck.write_text("#!/bin/sh\nexec sleep 3600\n")
    stuck.chmod(0o755)
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "lines.csv").write_text("of the run before\n")
    command = "import sys; from laneway.cli.commands import main; sys.exit(main(sys.argv[1:]))"
    start = [sys.executable, "-c", command, "simulate"] if by_laneway else [program(SIMULATE)]
    words = [*start, "--trace", trace]
    words += ["--policy", f"fifo,{stuck}", "--policy-patience", "3600"]
    words += ["--json", folder / "results.json", "--csv", folder / "lines.csv"]
    words += ["--timeline", folder / "used.csv"]
    words += ["--plots", folder / "plots"] if by_laneway else []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, process_group=0) as running:
        while (line := running.stderr.readline()) and not line.startswith(str(stuck)):
            pass
        assert line, "it ended by itself"
        os.killpg(running.pid, signal.SIGINT)
        running.communicate()
    assert running.returncode == (1 if by_laneway else -signal.SIGINT)
    assert [path.name for path in folder.iterdir()] == ["lines.csv"]
    assert (folder / "lines.csv").read_text() == "of the run before\n"
