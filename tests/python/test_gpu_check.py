"""gpu-check where there is no GPU: it says so and fails; a section that crashes, hangs or fails
costs the others nothing; the report is whole at any time; what does not fit is named."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

import check_machine
import check_sections
import gpu_check
from check_report import RAN, Report, SectionResult
from check_sections import SECTIONS, TOTAL_S, Plan, Section

ROOT = Path(__file__).resolve().parents[2]

ROW = {"case": "c", "metric": "m", "unit": "us", "value": 1.5, "target": None, "holds": None}
LONG_AGO_S = 3600.0

# What a section's process does, as the code of `python -c`; argv: file for lines, folder.
WRITES = f"""
import json, os, signal, subprocess, sys
out = open(sys.argv[1], "a")
def row(**more):
    out.write(json.dumps({{"row": {{**{ROW!r}, **more}}}}) + "\\n"); out.flush()
"""
GOOD = WRITES + "row(); row(metric='n', samples=[1.0, 2.0])"
CRASHES = WRITES + "row(); os.kill(os.getpid(), signal.SIGSEGV)"
FAILS = WRITES + "row(); raise RuntimeError('the device said no')"
HANGS = (
    WRITES
    + """
row()
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"],
    start_new_session=True)
open(os.path.join(sys.argv[2], "child"), "w").write(str(child.pid))
row(metric="last")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: signal.pause()
"""
)
BREAKS_A_LINE = WRITES + "row(); out.write('{\"row\": '); out.flush(); os._exit(0)"


def section(name, budget_s=60.0, **more):
    return Section(name, f"what about {name}?", budget_s, least_s=0.0, **more)


def run_sections(tmp_path, codes, sections=None, left_s=300.0, write=None):
    """Runs sections whose processes are the given codes; the report."""
    sections = sections or [section(name, timed=False) for name in codes]
    results = {s.name: SectionResult(s.name, s.question) for s in sections}
    report = Report(tmp_path / "out", list(results.values()))
    folder = tmp_path / "sections"
    folder.mkdir()
    report.write()
    plan = Plan(
        lambda name, lines, _: [sys.executable, "-c", codes[name], str(lines), str(tmp_path)],
        dict(os.environ),
        folder,
        tmp_path,
        tmp_path / "out/gpu_check.log",
        time.monotonic() + left_s,
    )
    check_sections.run_all(sections, results, plan, write or report.write)
    report.write()
    return report


def by_name(report):
    return {result.name: result for result in report.sections}


def test_a_machine_without_a_driver_is_told_which_check_failed(tmp_path):
    if check_machine.ask(check_machine.ASK_DRIVER).get("devices"):
        pytest.skip("this machine has a GPU")
    done = run_tool("--out", str(tmp_path))
    assert done.returncode == 1
    report = json.loads((tmp_path / "gpu_check.json").read_text())
    assert report["status"] == "skipped" and "nothing was run" in report["reason"]
    assert {s["status"] for s in report["sections"].values()} == {"skipped"}
    assert (
        list(report["sections"]) == [s.name for s in check_sections.wanted([])]
        and report["rows"] == []
    )
    text = (tmp_path / "gpu_check.md").read_text()
    assert "**skipped**: nothing was run" in text and "driver library" in text + done.stdout


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        ("int cuInit(unsigned f) { return 100; }", "cuInit"),
        ("int cuInit(unsigned f) { return 0; }", "device count"),
    ],
)
def test_a_driver_without_a_device_is_told_which_check_failed(tmp_path, body, failed):
    """A library in the driver's place that answers what a machine without devices answers."""
    source = tmp_path / "driver.c"
    source.write_text(
        body
        + "int cuDeviceGetCount(int *n) { *n = 0; return 0; }\n"
        + 'int cuGetErrorName(int c, const char **s) { *s = "NO_DEVICE"; return 0; }\n'
        + "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }\n"
    )
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    found = check_machine.ask(
        check_machine.ASK_DRIVER, environment=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    )
    assert found["failed"] == failed and found["why"]


def run_tool(*words, environment=None):
    return subprocess.run(
        [sys.executable, str(ROOT / "tools/gpu_check.py"), *words],
        capture_output=True,
        text=True,
        env=os.environ | (environment or {}),
        check=False,
    )


def test_a_run_ends_when_it_is_told_to(tmp_path, monkeypatch):
    deadlines = []
    monkeypatch.setattr(gpu_check, "check", lambda _, __, deadline: deadlines.append(deadline))
    monkeypatch.setattr(gpu_check, "time", types.SimpleNamespace(monotonic=lambda: 1_000.0))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its own
    gpu_check.main(["--out", str(tmp_path)])
    gpu_check.main(["--out", str(tmp_path), "--seconds", "100"])
    assert deadlines == [1_000.0 + TOTAL_S, 1_100.0]
    for done in (run_tool("--seconds", seconds) for seconds in ("5", "471", "nan")):
        assert done.returncode == 2 and "from 20 to 470" in done.stderr


def test_the_report_goes_where_it_is_told_to(tmp_path):
    """$OUT is what a machine that is lent names; a word on the command line goes first."""
    for words, out, there in (
        ((), "a", "a"),
        (("--out", str(tmp_path / "b")), "a", "b"),
    ):
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        run_tool("--pack", str(tmp_path / "none"), *words, environment={"OUT": str(tmp_path / out)})
        assert (tmp_path / there / "gpu_check.json").exists()
    assert not (tmp_path / "a").exists()


def test_wrong_usage_is_answered_before_anything_else(tmp_path):
    done = run_tool("--only", "nothing", "--out", str(tmp_path / "x"))
    assert done.returncode == 2 and "machine" in done.stderr and not (tmp_path / "x").exists()
    assert run_tool("--help").returncode == 0


def test_sections_that_end_badly_cost_nothing_of_the_others(tmp_path):
    codes = {"good": GOOD, "crashes": CRASHES, "fails": FAILS, "breaks": BREAKS_A_LINE}
    report = run_sections(tmp_path, codes | {"after": GOOD})
    found = by_name(report)
    assert [r.status for r in report.sections] == [RAN, "crashed", "failed", RAN, RAN]
    assert "SIGSEGV" in found["crashes"].reason
    assert found["fails"].reason.startswith("RuntimeError: the device said no")
    assert {name: len(result.rows) for name, result in found.items()} == {
        "good": 2,
        "crashes": 1,
        "fails": 1,
        "breaks": 1,
        "after": 2,
    }
    assert not report.passed()
    log = (tmp_path / "out/gpu_check.log").read_text()
    assert "== fails: failed" in log and "the device said no" in log


def test_a_section_that_hangs_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    """It takes no notice of being asked, and has started a process of its own, in a session of its
    own as daemons are."""
    monkeypatch.setattr(check_sections, "GRACE_S", 0.1)
    hanging = section("hangs", 2.0, timed=False)
    report = run_sections(
        tmp_path, {"hangs": HANGS, "after": GOOD}, [hanging, section("after", 300.0)], 302.1
    )
    found = by_name(report)
    assert found["hangs"].status == "stopped" and "2 s" in found["hangs"].reason
    assert [row["metric"] for row in found["hangs"].rows][:1] == ["m"]
    assert found["after"].status == RAN
    child = tmp_path / "child"
    if child.exists():  # it got so far
        state = Path(f"/proc/{child.read_text()}/stat")
        assert not state.exists() or ") Z " in state.read_text()


def test_what_does_not_fit_is_left_out_and_named(tmp_path):
    sections = [Section("late", "what about it?", 10.0, least_s=5.0)]
    report = run_sections(tmp_path, {"late": GOOD}, sections, left_s=-LONG_AGO_S)
    assert by_name(report)["late"].status == "left out"
    assert "it needs more" in report.text() and not report.passed()


def test_a_section_may_use_what_those_before_it_left(tmp_path):
    sections = [section("first", 100.0), section("second", 50.0)]
    report = run_sections(tmp_path, {"first": GOOD, "second": GOOD}, sections, left_s=400.0)
    first, second = report.sections
    assert 300.0 < first.limit_s <= 350.0, "all but what the second is planned with"
    assert second.limit_s > first.limit_s, "the first one used little of it"


def test_sections_that_measure_wait_for_those_beside(tmp_path):
    """The one beside ends only after a test section has ended; the measuring one sees it ended."""
    beside = WRITES + (
        "\nimport select\n"
        "while not os.path.exists(sys.argv[2] + '/tested'): select.select([], [], [], 0.01)\n"
        "open(sys.argv[2] + '/beside', 'w')"
    )
    tested = WRITES + "open(sys.argv[2] + '/tested', 'w')"
    measures = WRITES + "row(value=float(os.path.exists(sys.argv[2] + '/beside')))"
    sections = [
        section("beside", background=True),
        section("tested", timed=False),
        section("measures"),
    ]
    codes = {"beside": beside, "tested": tested, "measures": measures}
    report = run_sections(tmp_path, codes, sections)
    assert [result.status for result in report.sections] == [RAN, RAN, RAN]
    assert by_name(report)["measures"].rows[0]["value"] == 1.0


def test_when_less_is_left_than_planned_each_section_gets_its_part(tmp_path):
    """A machine that took long to load its libraries costs every section something, none all."""
    sections = [section("first", 20.0), section("second", 100.0), section("third", 80.0)]
    codes = dict.fromkeys(("first", "second", "third"), GOOD)
    report = run_sections(tmp_path, codes, sections, left_s=100.0 + check_sections.GRACE_S)
    first = by_name(report)["first"]
    assert 9.0 < first.limit_s <= 10.0
    assert [result.status for result in report.sections] == [RAN] * 3


def test_a_process_that_cannot_be_ended_does_not_hold_up_the_run(tmp_path, monkeypatch):
    """As one that waits in a driver: whoever waits for it waits in vain."""

    class Stuck(subprocess.Popen):
        def wait(self, timeout=None):
            super().wait()
            raise subprocess.TimeoutExpired("it", timeout or 0)

    monkeypatch.setattr(check_sections.subprocess, "Popen", Stuck)
    report = run_sections(tmp_path, {"stuck": CRASHES})
    stuck = by_name(report)["stuck"]
    assert stuck.status == "stopped" and "cannot be ended" in stuck.reason
    assert len(stuck.rows) == 1


LEAVES = """
import os, signal, sys
from bench.gpu import section
class Module:
    def run(section):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            while True: signal.pause()
        finally:
            open(sys.argv[1], "w")
section.importlib.import_module = lambda name: Module
section.main(["link", sys.argv[2], "60"])
"""


def test_a_section_that_is_asked_to_end_leaves_its_blocks(tmp_path):
    """So that a daemon in one of them is stopped."""
    left = tmp_path / "left"
    command = [sys.executable, "-c", LEAVES, str(left), str(tmp_path / "lines")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + 15 and left.exists(), done.stderr


def test_an_interrupted_run_leaves_the_report_so_far(tmp_path, monkeypatch):
    """Interrupted when the first rows of a section that hangs are there."""
    monkeypatch.setattr(check_sections, "GRACE_S", 0.1)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sections(tmp_path, {"hangs": HANGS}, [section("hangs", 250.0)], write=interrupt)
    # The report of that run is gone with its frame: what counts is that nothing of it is left.
    child = tmp_path / "child"
    if child.exists() and child.read_text():
        state = Path(f"/proc/{child.read_text()}/stat")
        assert not state.exists() or ") Z " in state.read_text()


def test_every_result_is_written_whole(tmp_path):
    """Whoever reads between two results finds a report."""
    seen = []
    results = [SectionResult("a", "what about a?"), SectionResult("b", "and b?")]
    report = Report(tmp_path, results)
    for number in range(3):
        results[0].take({"row": {**ROW, "metric": f"m{number}"}})
        report.write()
        seen.append(len(json.loads((tmp_path / "gpu_check.json").read_text())["rows"]))
    assert seen == [1, 2, 3]
    assert not list(tmp_path.glob("*.partial"))


def test_the_readable_report_shows_targets_failures_and_what_is_missing(tmp_path):
    target = {"op": ">=", "value": 1.0}
    result = SectionResult("overhead", "does it cost less?", RAN)
    result.take({"row": {**ROW, "metric": "good", "value": 2.0, "target": target, "holds": True}})
    result.take({"row": {**ROW, "metric": "bad", "value": 0.5, "target": target, "holds": False}})
    lost = {"value": None, "target": target, "holds": None, "note": "no | device"}
    result.take({"row": {**ROW, "metric": "lost", **lost}})
    result.take({"left_out": "gpt_large: no time"})
    report = Report(tmp_path, [result])
    report.about |= {"reason": "why", "commit": "abc"}
    lines = report.text().splitlines()
    assert "| c | good | 2 us | >= 1 | PASS |  |" in lines
    assert "| c | bad | 0.5 us | >= 1 | MISS |  |" in lines
    assert "| c | lost | - | >= 1 | MISS | no / device |" in lines
    assert "- gpt_large: no time" in lines and "- commit: abc" in lines
    assert report.summary().splitlines() == [
        "overhead: ran, 1 of 3 targets met, 0 s",
        "  PASS c good: 2 us",
        "  MISS c bad: 0.5 us",
        "  MISS c lost: - no / device",
    ]
    assert report.passed(), "a figure that misses its target is no failed test"
    result.take({"row": {**ROW, "target": target, "holds": False, "test": True}})
    assert not report.passed()


def test_the_whole_is_planned_to_end_in_eight_minutes():
    from bench.gpu.section import MODULES

    planned = sum(s.budget_s for s in SECTIONS if not s.background and not s.by_name)
    assert planned <= TOTAL_S <= 8 * 60
    assert all(s.budget_s < TOTAL_S for s in SECTIONS if s.by_name)
    assert [s.name for s in SECTIONS] == list(MODULES)
    for module in MODULES.values():
        assert (ROOT / "bench/gpu" / f"{module}.py").exists()


def test_a_section_may_run_only_when_it_is_named():
    assert [s.name for s in check_sections.wanted(["contact", "machine"])] == ["machine", "contact"]
    assert "contact" not in [s.name for s in check_sections.wanted([])]


DMESG = """#!/bin/sh
echo "[  1.0] NVRM: loading NVIDIA UNIX Open Kernel Module"
echo "[  2.0] eth0: link up"
test -e "$LATER" && echo "[  9.5] NVRM: Xid (PCI:0000:00:04): 31, pid=7, MMU Fault"
exit 0
"""


def test_what_the_kernel_says_of_the_driver_meanwhile_is_in_the_report(tmp_path, monkeypatch):
    program, later = tmp_path / "dmesg", tmp_path / "later"
    program.write_text(DMESG)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LATER", str(later))
    report = Report(tmp_path, [])
    before = check_machine.kernel_lines()[0]
    assert len(before) == 1
    later.touch()
    gpu_check._note_kernel(report, before)
    report.about["reason"] = ""
    text = report.text()
    assert "## The kernel's log" in text and "Xid (PCI:0000:00:04): 31" in text
    assert "loading NVIDIA" not in text and "eth0" not in text


def test_a_kernels_log_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    program = tmp_path / "dmesg"
    program.write_text(
        "#!/bin/sh\necho 'dmesg: read kernel buffer failed: not permitted' >&2; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    report = Report(tmp_path, [])
    gpu_check._note_kernel(report, [])
    assert "could not be read: dmesg: read kernel buffer failed: not permitted" in report.text()


@pytest.mark.parametrize("command", ["gpu-check", "gpu-pack"])
def test_usage_needs_no_set_up(command, tmp_path):
    """Of a copy of the script and the tools alone, with nothing installed beside them."""
    shutil.copy(ROOT / "dev", tmp_path)
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("*.pyc"))
    told = subprocess.run(
        [tmp_path / "dev", command, "--help"], capture_output=True, text=True, check=True
    )
    assert f"usage: ./dev {command}" in told.stdout
    wrong = subprocess.run([tmp_path / "dev", command, "--sideways"], capture_output=True)
    assert wrong.returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev", "tools"]
