"""The section "contact" of gpu-check where there is no GPU: its measurements fit into their time,
one that crashes or hangs costs the others nothing, those that need a device say so, and their
processes run on the fake device."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu import contact, contact_probe, device_tests, programs
from check_sections import SECTIONS
from support import fake_cuda
from support.sections import lines_of, rows_of, section_of

ROOT = Path(__file__).resolve().parents[2]
LEAVES = 0.9  # of its time a section uses; the rest is for leaving


def test_eight_measurements_fit_into_the_section():
    assert len(contact.MEASUREMENTS) == 8
    given = next(s.budget_s for s in SECTIONS if s.name == "contact")
    assert sum(m.limit_s for m in contact.MEASUREMENTS) <= LEAVES * given


def test_one_that_fails_crashes_or_hangs_costs_the_others_nothing(monkeypatch, capfd):
    code = {
        "fine": "print('{\"value\": 1}')",
        "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "fails": "print('{\"value\": 2}', flush=True); raise RuntimeError('the device said no')",
        "hangs": "print('{\"value\": 3}', flush=True); import signal; signal.pause()",
    }
    found = {}

    def run(name):
        def measurement(section):
            found[name] = contact._lines_of(section, name, [sys.executable, "-c", code[name]])

        return measurement

    def broken(section):
        raise OSError("no such program")

    monkeypatch.setattr(contact, "REHEARSED_LIMIT_S", 3.0)
    measurements = [contact.Measurement(name, "what?", 1.0, run(name)) for name in code]
    measurements.insert(2, contact.Measurement("broken", "what?", 1.0, broken))
    monkeypatch.setattr(contact, "MEASUREMENTS", measurements)
    section = section_of(cuda=False)
    contact.run(section)
    assert found == {
        "fine": [{"value": 1}],
        "crashes": [],
        "fails": [{"value": 2}],
        "hangs": [{"value": 3}],
    }
    rows = rows_of(section)
    assert "SIGSEGV" in rows["crashes", "ended"]["note"]
    assert "the device said no" in rows["fails", "ended"]["note"]
    assert "took longer than" in rows["hangs", "ended"]["note"]
    assert "OSError: no such program" in rows["broken", "ran"]["note"]
    assert ("fine", "ended") not in rows and ("fine", "took") in rows
    assert "the device said no" in capfd.readouterr().out


def test_what_there_is_no_time_for_is_named(monkeypatch):
    monkeypatch.setattr(
        contact, "MEASUREMENTS", [contact.Measurement("late", "is it late?", 9.0, None)]
    )
    section = section_of(cuda=False)
    section.until = 0.0
    contact.run(section)
    assert "late: is it late?" in lines_of(section)[0]["left_out"]


def test_without_a_device_what_needs_one_says_so():
    section = section_of(cuda=False)
    contact._copies(section)
    contact._busy(section)
    contact._lanes(section)
    assert [line["left_out"] for line in lines_of(section)] == [
        f"{name}: torch sees no device" for name in ("copies", "busy", "lanes")
    ]


def test_occupation_of_a_device_by_hand():
    share, gaps = contact_probe.occupation([(0.0, 4.0), (1.0, 2.0), (3.0, 6.0), (8.0, 10.0)])
    assert (share, gaps) == (0.8, [2.0])
    assert contact_probe.occupation([(1.0, 1.0)]) == (1.0, [])


def test_why_tests_of_a_program_were_skipped_is_named(tmp_path, monkeypatch):
    program = tmp_path / "cuda_pool_test"
    program.write_text("""#!/bin/sh
case "$1" in --gtest_list_tests) printf 'Pool.\\n  One\\n  Two\\n'; exit ;; esac
for name in One Two; do
  echo "[ RUN      ] Pool.$name"
  echo "pool_test.cc:118: Skipped"
  echo "no pool is exported here: exporting memory on cuda:0: CUDA_ERROR_NOT_SUPPORTED"
  echo "[  SKIPPED ] Pool.$name (0 ms)"
done
""")
    program.chmod(0o755)
    section = section_of(rehearsal=True, cuda=False)
    programs.run_program(section, program)
    assert lines_of(section)[0]["left_out"] == (
        "cuda_pool_test: 2 tests: no pool is exported here: "
        "exporting memory on cuda:0: CUDA_ERROR_NOT_SUPPORTED"
    )


def test_words_that_a_test_records_are_rows():
    section = section_of()
    told = {"ended": "test_x.py::test_a", "outcome": "passed", "why": ""}
    recorded = {"replayed": 3, "not_replayed": "node 4, aten::mm: captures are forbidden"}
    result = device_tests.understand(json.dumps(told | {"recorded": recorded}))
    device_tests.report(section, "test_x", result)
    rows = rows_of(section)
    assert rows["test_x.test_a", "replayed"]["value"] == 3
    row = rows["test_x.test_a", "not_replayed"]
    assert row["value"] is None and row["note"] == recorded["not_replayed"]


FAILING = """
import device as dev
import pytest
from bench.gpu import laneway_device

def test_fails(device):
    with (
        dev.reporting(laneway_device.embedded(device, "256MiB")) as service,
        dev.make_step(service, "mlp") as step,
    ):
        dev.train(step, dev.batches_of("mlp", 1) + [("no", "batch")])

def test_replays_nothing(device, record_property):
    with (
        dev.reporting(laneway_device.embedded(device, "256MiB")) as service,
        dev.make_step(service, "mlp") as step,
    ):
        dev.train(step, dev.batches_of("mlp", 1))
        dev.note_replay(service, step, record_property)
"""


def test_reports_of_the_jobs_of_a_failed_test_are_rows(tmp_path):
    for name in ("conftest.py", "device.py"):
        (tmp_path / name).write_text((ROOT / "tests/gpu" / name).read_text())
    (tmp_path / "test_it.py").write_text(FAILING)
    section = section_of(cuda=False, device="host")
    path = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests/python")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        device_tests.run_file(section, tmp_path / "test_it.py")
    rows = rows_of(section)
    assert rows["test_it", "test_fails"]["holds"] is False, rows
    report = json.loads(rows["test_it.test_fails", "job_0"]["note"])
    assert report["name"] == "mlp-1-auto" and report["graphs"][0]["iterations"] == 1
    assert "nothing was replayed" in rows["test_it", "test_replays_nothing"]["note"]
    assert rows["test_it.test_replays_nothing", "replayed"]["value"] == 0


def probe_on_fake(*words):
    """The rows of a measurement's process that takes the fake for a GPU."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu.contact_probe", *words],
        env=os.environ | {"LD_PRELOAD": str(fake_cuda.library()), "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(row["case"], row["metric"]): row for row in rows}


@pytest.mark.embedded_only("opens services of its own")
def test_replay_is_measured_on_the_fake():
    rows = probe_on_fake("replay", "cuda:0", "0.05", "mlp/fused")
    assert rows["mlp_fused_on", "replayed_share"]["value"] == 1
    assert rows["mlp_fused_off", "replayed_share"]["value"] == 0
    assert rows["mlp_fused_on", "probes_grown"]["value"] == 0


@pytest.mark.embedded_only("opens services of its own")
def test_neighbours_are_measured_on_the_fake():
    rows = probe_on_fake("neighbours", "cuda:0", "0.5")
    assert rows["synchronize", "calls"]["value"] > 0
    assert rows["cudagraphs_alone", "ran"]["value"] == 1
    assert rows["cudagraphs_beside_a_service", "ran"]["value"] == 1


@pytest.mark.embedded_only("opens services of its own")
def test_copies_starts_and_occupation_are_measured_on_the_fake():
    rows = probe_on_fake("copies", "cuda:0", "4")
    assert rows["link", "registered_to_device"]["value"] > 0
    assert rows["link", "shared_to_pinned_8_threads"]["value"] > 0
    rows = probe_on_fake("stall", "cuda:0", "mlp")
    assert rows["alone", "p99_us"]["value"] > 0
    rows = probe_on_fake("busy", "cuda:0", "mlp", "fused", "on")
    assert "no kernel" in rows["mlp_fused_on", "busy_share"]["note"]
    rows = probe_on_fake("attributes", "cuda:0")
    assert rows["driver", "multiprocessors"]["value"] == 132
