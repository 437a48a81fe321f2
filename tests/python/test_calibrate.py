"""`laneway calibrate`: what it writes is what laneway-simulate reads on this machine, and refuses
elsewhere or changed; what it measures is found by an algorithm of this file's own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from laneway.cli import calibrate, micro_benches
from laneway.cli.commands import main
from laneway.native.programs import program

MODELS = """
import torch

def small(width):
    def make():
        model = torch.nn.Sequential(torch.nn.Linear(256, width), torch.nn.Linear(width, 10))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        inputs = torch.ones(8, 256), torch.ones(8, 10)
        return model, torch.nn.functional.mse_loss, optimizer, inputs
    return make

MODELS = {"narrow": small(16), "wide": small(512)}
"""
TRACE = """job_id,model_name,submit_time_s,iterations,iteration_ms
a,narrow,0,100,5
b,wide,0,10,5
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A calibration of this machine, by the command."""
    if program("lanewayd") is None or program("laneway-simulate") is None:
        pytest.skip("lanewayd and laneway-simulate are not built")
    folder = tmp_path_factory.mktemp("calibrate")
    models, path = folder / "models.py", folder / "calibration.json"
    models.write_text(MODELS)
    words = ["calibrate", str(path), "--models", str(models), "--seconds", "0.05"]
    assert main([*words, "--pool", "128MiB"]) == 0
    return path


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def simulated(trace, calibration, *words):
    """The exit code, what was said on stderr, and the results."""
    results = trace.with_suffix(".json")
    command = [
        program("laneway-simulate"),
        "--trace",
        str(trace),
        "--calibration",
        str(calibration),
    ]
    done = subprocess.run(
        [*command, "--json", str(results), *words], capture_output=True, text=True
    )
    found = json.loads(results.read_text()) if done.returncode == 0 else None
    return done.returncode, done.stderr, found


def rewritten(path, tmp_path, **changes):
    """With changes of what was measured, and the right check sum."""
    found = json.loads(path.read_text())["measured"] | changes
    document = {"laneway_calibration": 1, "check_sum": calibrate.check_sum(found)}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document | {"measured": found}))
    return other


def test_it_says_what_was_measured_where_and_when(measured):
    found = json.loads(measured.read_text())["measured"]
    assert set(found["models"]) == {"narrow", "wide"}
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [
        ("narrow", "narrow"), ("narrow", "wide"), ("wide", "wide"),
    ]  # fmt: skip
    times = [found["turn_gap_ns"], *(model["iteration_ns"] for model in found["models"].values())]
    assert all(isinstance(time, int) and time > 0 for time in times)
    assert found["copy_in_bytes_per_s"] > 0 and found["copy_out_bytes_per_s"] > 0
    assert found["machine"] == calibrate.machine()
    assert found["version"] and found["torch"] and found["date"]


@pytest.fixture
def short_folder():
    """The name of a socket in it fits."""
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("at", ["narrow alone", "narrow beside narrow"])
def test_an_interrupt_leaves_no_file_and_no_service(tmp_path, short_folder, at):
    if program("lanewayd") is None:
        pytest.skip("lanewayd is not built")
    models, path = tmp_path / "models.py", tmp_path / "calibration.json"
    models.write_text(MODELS)
    path.write_text("of the run before\n")
    command = "import sys; from laneway.cli.commands import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", command, "calibrate", path, "--models", models]
    # What it is interrupted in would not end by itself.
    words += ["--pool", "128MiB", "--seconds", "600" if at.endswith("alone") else "0.05"]
    package = Path(calibrate.__file__).parents[2]
    environment = os.environ | {"TMPDIR": str(short_folder), "PYTHONPATH": str(package)}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        while (line := running.stderr.readline()) and at not in line:
            pass
        assert line, "it ended by itself"
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate()
    assert running.returncode == 1
    assert out == ""
    assert path.read_text() == "of the run before\n"
    assert {one.name for one in tmp_path.iterdir()} == {"models.py", "calibration.json"}
    assert list(short_folder.iterdir()) == []
    assert not [one for one in commands_now() if str(short_folder) in one], "a service is left"


def commands_now():
    """The command lines of all processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended
            continue


def test_what_is_simulated_with_it_takes_what_was_measured(measured, trace, tmp_path):
    file = json.loads(measured.read_text())["measured"]
    # An image of no tensor has one alignment's bytes, whose way would take its time too.
    path = rewritten(measured, tmp_path, copy_in_bytes_per_s=0, copy_out_bytes_per_s=0)
    code, said, found = simulated(trace, path, "--policy", "fifo:share=no")
    assert code == 0, said
    models = file["models"]
    work_ns = 100 * models["narrow"]["iteration_ns"] + 10 * models["wide"]["iteration_ns"]
    gaps_ns = file["start_up_ns"] + 2 * file["turn_gap_ns"]
    makespan_s = found["policies"]["fifo:share=no"]["makespan_s"]
    assert round(makespan_s * 1e9) == work_ns + gaps_ns
    assert found["calibration"] == str(path)


def test_two_lanes_are_as_slow_beside_each_other_as_was_measured(measured, tmp_path):
    trace = tmp_path / "two.csv"
    trace.write_text(
        "model_name,submit_time_s,iterations,iteration_ms\nwide,0,1000,1\nwide,0,1000,1\n"
    )
    models = {"wide": {"iteration_ns": 1_000_000}}
    pairs = [{"a": "wide", "b": "wide", "a_iteration_ns": 1_600_000, "b_iteration_ns": 1_600_000}]
    file = rewritten(measured, tmp_path, models=models, pairs=pairs, start_up_ns=0, turn_gap_ns=0)
    code, said, found = simulated(trace, file, "--lanes", "2")
    assert code == 0, said
    assert found["policies"]["fifo"]["makespan_s"] == pytest.approx(1.6, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": {"cpu": "Another one", "cores": 2}}, "of another machine or version"),
        ({"version": "0.0.0"}, "Laneway 0.0.0"),
        ({"turn_gap_ns": -1}, "turn_gap_ns is -1"),
        ({"turn_gap_ns": 1.5}, "turn_gap_ns is 1.5"),
        ({"models": {}}, "a damaged one"),
        ({"models": {"narrow": {"iteration_ns": 0}}}, "narrow takes no time"),
    ],
)
def test_a_foreign_or_a_wrong_one_is_refused_in_words(measured, trace, tmp_path, changes, reason):
    code, said, _ = simulated(trace, rewritten(measured, tmp_path, **changes))
    assert code == 2
    assert reason in said and "measure again with `laneway calibrate`" in said


def test_one_that_was_changed_or_cut_is_refused(measured, trace, tmp_path):
    text = measured.read_text()
    place = text.index("turn_gap_ns") + len('turn_gap_ns": ')
    other = "8" if text[place] != "8" else "7"
    changed = tmp_path / "changed.json"
    for wrong, reason in (
        (text[:place] + other + text[place + 1 :], "was changed or cut"),
        (text[: len(text) // 2], "a damaged one"),
        ("", "a damaged one"),
    ):
        changed.write_text(wrong)
        code, said, _ = simulated(trace, changed)
        assert code == 2 and reason in said


def test_a_job_of_another_model_is_named(measured, trace):
    trace.write_text(TRACE.replace("wide", "vgg"))
    code, said, _ = simulated(trace, measured)
    assert code == 2 and "job b is of the model vgg" in said and "narrow, wide" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MODELS = {}", "it must have MODELS"),
        ("x = 1", "it must have MODELS"),
        ("MODELS = {'a b': print}", "'a b' is not"),
    ],
)
def test_a_file_without_models_is_wrong_usage(tmp_path, capsys, text, reason):
    models = tmp_path / "models.py"
    models.write_text(text)
    out = tmp_path / "c.json"
    assert main(["calibrate", str(out), "--models", str(models)]) == 2
    assert reason in capsys.readouterr().err
    assert main(["calibrate", str(out), "--models", str(tmp_path / "none.py")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert not out.exists()


def test_rates_are_of_the_bytes_that_were_copied():
    lines = [
        "+1.000000000 decided PlaceImage job 1 'a: b': 4.00 MiB at 0",
        "+1.500000000 heard ImagePlaced job 1 'a: b', its bytes are arriving",
        "+2.000000000 heard ImagePlaced job 1 'a: b'",
        "+3.000000000 decided EvictImage job 1 'a: b': 4.00 MiB at 0 of the store, 1.00 MiB stay",
        "+3.500000000 heard ImageLeft job 1 'a: b'",
        "+4.000000000 decided PlaceImage job 1 'a: b': 4.00 MiB at 0, beginning with 1.00 MiB at 0",
        "+7.000000000 heard ImagePlaced job 1 'a: b'",
        "+8.000000000 decided PlaceImage job 2 'c': 4.00 KiB at 9",
        "+8.000001000 heard ImagePlaced job 2 'c'",
    ]
    rates = micro_benches.rates_of(lines, 1 << 16)
    assert rates["EvictImage"] == pytest.approx(8 << 20)
    # 4 MiB in 1 s, 3 MiB in 3 s; what is small does not count.
    assert rates["PlaceImage"] == pytest.approx(2.5 * (1 << 20))


def test_gaps_are_between_two_jobs():
    def one(at, took, job):
        return {"ts": at, "dur": took, "args": {"job": job}}

    slices = [one(130, 10, 2), one(0, 50, 1), one(60, 50, 1), one(150, 5, 1)]
    assert micro_benches.gaps_of(slices) == pytest.approx([20e-6, 10e-6])
