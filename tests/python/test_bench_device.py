"""The benches of a device, less the measuring: which end of a ratio counts, what is compared
with what, whatever runs is stopped again, and every section runs on a device whose kernels are the
CPU's."""

import contextlib
import os
import stat
import subprocess

import pytest

from bench import worker
from bench.gpu import (
    link,
    machine,
    mps,
    nvml,
    overhead,
    partition,
    placing,
    service_latency,
    sharing,
    warm_compile,
)
from bench.gpu.section import MODULES, Settings
from bench.gpu.trials import Trials, ready
from bench.models import make
from bench.worker import Worker
from support.sections import lines_of, rows_of, section_of, trials_of

NEVER_S = 3600.0

ON_HOST = Settings(device="host", quick=True, cuda=False, rehearsal=True)


def test_a_section_writes_each_row_when_it_is_found():
    section = section_of(ON_HOST)
    section.add("c", "m", 1.0, "us", samples=[1.0])
    assert lines_of(section)[0]["row"]["samples"] == [1.0]
    section.add("c", "n", float("nan"), "us")
    section.leave_out("the rest")
    assert lines_of(section)[1]["row"]["value"] is None
    assert lines_of(section)[2] == {"left_out": "the rest"}


def test_what_does_not_fit_is_named():
    section = section_of(ON_HOST)
    section.until = 0.0
    assert not section.fits(5, "gpt")
    assert lines_of(section)[0]["left_out"].startswith("gpt: 0 s were left")


def test_a_ratio_says_how_many_times_as_fast_and_counts_its_worse_end():
    section = section_of(ON_HOST)
    trials = trials_of({"embedded": [10, 10, 10, 10], "eager": [20, 20, 20, 18]})
    overhead.compare(section, "mlp", "embedded_over_eager", trials, overhead.NO_SLOWER)
    row = rows_of(section)["mlp", "embedded_over_eager"]
    assert row["median"] == pytest.approx(2.0) and 1.8 <= row["value"] <= 2.0
    assert row["holds"] is True


def test_a_variant_that_did_not_run_leaves_its_target_missed_with_the_reason():
    section = section_of(ON_HOST)
    trials = trials_of({"eager": [20, 20]}, {"embedded_replay": "no graphs here"})
    overhead.compare(section, "mlp", "embedded_replay_over_eager", trials, overhead.BY_REPLAY)
    row = rows_of(section)["mlp", "embedded_replay_over_eager"]
    assert row["value"] is None and "no graphs here" in row["note"]
    assert section.missed() == [row]


CONTROL = """#!/bin/sh
if [ "$1" = "-d" ]; then echo started >>"$LOG"; echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/x"; exit 0; fi
read command; echo "$command in $CUDA_MPS_PIPE_DIRECTORY" >>"$LOG"
"""


def test_mps_is_started_in_a_folder_of_its_own_and_told_to_quit(tmp_path, monkeypatch):
    control = tmp_path / mps.CONTROL
    control.write_text(CONTROL)
    control.chmod(control.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    with contextlib.suppress(KeyError), mps.mps() as environment:
        folder = environment["CUDA_MPS_PIPE_DIRECTORY"]
        assert os.listdir(folder) == ["x"]
        raise KeyError  # also when what runs under it fails
    said = (tmp_path / "log").read_text().splitlines()
    assert said == ["started", f"get_server_list in {folder}", f"quit in {folder}"]
    assert not os.path.exists(folder)


def test_without_mps_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(mps.NoMps, match=f"{mps.CONTROL} is not on this machine"), mps.mps():
        pass


def test_a_worker_trains_for_a_window():
    order = {"name": "mlp", "seed": 0, "form": "default", "runner": "eager", "threads": 1}
    with Worker(order | {"cores": [], "device": "cpu"}) as process:
        process.make()
        reply = process.window(0.01)
    assert reply["iterations"] > 0 and reply["seconds"] >= 0.01


def test_a_window_is_one_run_of_batches_made_ready_before():
    """Else what is under way would be waited for again and again."""
    told = []

    class Runner:
        def ready(self, batches):
            told.append("ready")
            return list(batches)

        def run(self, batches):
            told.append("run")
            return [number for number, _ in zip(range(20), batches)]

    trials = worker._Trials.__new__(worker._Trials)
    trials._work, trials._runner = make("mlp"), Runner()
    assert trials.window(NEVER_S)["iterations"] == 20
    assert told == ["ready", "run"]
    assert trials.window(0.0)["iterations"] == 1


def test_variants_that_cannot_be_set_up_are_named_and_the_others_run():
    """One of them does not exist."""
    section = section_of(ON_HOST)
    with ready(section, "mlp", ("eager", "sideways"), 300.0) as trials:
        assert list(trials.workers) == ["eager"] and "sideways" in trials.failed["sideways"]
        trials.run(section, 2, 0.005, 5.0)
        trials.report(section, "mlp")
    rows = rows_of(section)
    assert rows["mlp", "eager_us"]["value"] > 0
    assert rows["mlp", "sideways_us"]["value"] is None


def test_weights_come_into_the_pool_and_back():
    section = section_of(ON_HOST)
    placing.run(section)
    rows = rows_of(section)
    assert rows["image", "into_gb_per_s"]["value"] > 0
    assert rows["image", "back_gb_per_s"]["value"] > 0


def test_benches_of_a_device_have_cases_and_the_command_knows_them():
    from bench.run import DEVICE_BENCHES

    assert set(DEVICE_BENCHES) <= set(MODULES)
    for module in (link, overhead, partition, placing, service_latency, sharing):
        assert module.cases()


SMI = """#!/bin/sh
echo "$@" >>"$LOG"
case "$2" in *bad*) exit 2 ;; --query-gpu=a,b) echo "one, two" ;; *) echo "one" ;; esac
"""


def test_nvidia_smi_is_asked_at_once_and_one_by_one_when_it_knows_a_name_not(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI)
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    properties = type("Properties", (), {"uuid": "1-2"})
    monkeypatch.setattr(machine.torch.cuda, "get_device_properties", lambda device: properties)
    assert machine._ask(("a", "b"), "cuda:0") == {"a": "one", "b": "two"}
    assert (tmp_path / "log").read_text().startswith("--id=GPU-1-2 ")
    assert machine._ask(("a", "bad"), "cuda:0") == {"a": "one", "bad": "not known"}
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvml, "LIBRARY", str(tmp_path / "none"))
    said = machine._ask(("a",), "cuda:0")
    assert said["nvidia-smi"].startswith(f"not on this machine; {tmp_path}/none: ")


NVML = """
#include <string.h>
static int device;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  *handle = &device; return strcmp(uuid, "GPU-1-2") ? 6 : 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  strncpy(text, "580.1", size); return 0; }
int nvmlDeviceGetName(void *d, char *text, unsigned size) {
  strncpy(text, "GPU X", size); return d == &device ? 0 : 2; }
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz) { *mhz = 1000 + kind; return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 98765; return 0; }
int nvmlDeviceGetEccMode(void *d, unsigned *now, unsigned *later) {
  *now = 1; *later = 0; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *gen) { return 3; }
"""


def test_without_nvidia_smi_the_drivers_library_is_asked(tmp_path, monkeypatch):
    """A library in its place, which knows not everything."""
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvml.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    monkeypatch.setattr(nvml, "LIBRARY", str(library))
    monkeypatch.setenv("PATH", str(tmp_path))
    properties = type("Properties", (), {"uuid": "1-2"})
    monkeypatch.setattr(machine.torch.cuda, "get_device_properties", lambda device: properties)
    expected = {
        "name": "GPU X",
        "driver_version": "580.1",
        "clocks.sm": "1001 MHz",
        "clocks.mem": "1002 MHz",
        "power.draw": "98.77 W",
        "ecc.mode.current": "Enabled",
        "pcie.link.gen.current": "not known",
        "pstate": "not known",
    }
    assert machine._ask(tuple(expected), "cuda:0") == expected
    with pytest.raises(nvml.NoNvml, match="handle answered 6"):
        nvml.ask(("name",), "GPU-other")
    assert set(nvml.ANSWERS) >= {*machine.QUERIES, *machine.BUSY_QUERIES} - {"memory.total"}


def test_our_copies_are_compared_with_torchs_of_the_same_kind_of_memory():
    """A Stream's with pinned ones, as a target, PoolAccess's with pageable ones, from 16 MiB on."""
    large, small = 16 << 20, 4 << 10
    times = {"stream": 1.0, "pool_access": 2.0}
    lines = [
        {"what": what, "direction": "to_device", "bytes": size, "seconds": [taken] * 5}
        for what, taken in times.items()
        for size in (small, large)
    ]
    section = section_of(ON_HOST)
    rates = {
        kind: {("to_device", size): [taken] * 10 for size in (small, large)}
        for kind, taken in (("pinned", 0.96), ("pageable", 1.0))
    }
    link._report_ours(section, lines, rates)
    ratios = {metric: row for (_, metric), row in rows_of(section).items() if "over" in metric}
    assert {metric: row["value"] for metric, row in ratios.items()} == {
        "stream_to_device_16mib_over_link": pytest.approx(0.96),
        "pool_access_to_device_16mib_over_link": pytest.approx(0.5),
    }
    assert [row["holds"] for row in ratios.values()] == [True, None], "a core bounds the second"


def test_torchs_copies_are_measured_after_ours_as_well(monkeypatch):
    section = section_of(Settings(device="cuda:0"))
    large = 16 << 20
    monkeypatch.setattr(link, "_torch_rates", lambda *_: {("to_device", large): [2.0, 2.0]})
    rates = {"pinned": {("to_device", large): [1.0, 1.0], ("to_device", 4096): [0.1]}}
    link._measure_again(section, rates, [large], 0.1)
    assert rates["pinned"] == {
        ("to_device", large): [1.0, 1.0, 2.0, 2.0],
        ("to_device", 4096): [0.1],
    }


def test_targets_are_missed_when_nothing_could_be_set_up(monkeypatch):
    @contextlib.contextmanager
    def nothing(section, model, variants, timeout_s):
        yield Trials(model, failed=dict.fromkeys(variants, "no device"))

    monkeypatch.setattr(overhead, "ready", nothing)
    section = section_of(ON_HOST)
    overhead.run(section, ("mlp",))
    missed = {row["metric"]: row["note"] for row in section.missed()}
    assert set(missed) == {"embedded_over_eager", "embedded_replay_over_eager"}
    assert all("no device" in note for note in missed.values())


def test_an_attempt_that_fails_costs_its_row_alone():
    section = section_of(ON_HOST)
    with section.attempt("c", "m", "us"):
        raise RuntimeError("no device\nat all")
    section.add("c", "n", 1.0, "us")
    rows = rows_of(section)
    assert rows["c", "m"]["note"] == "RuntimeError: no device" and rows["c", "n"]["value"] == 1.0


def test_without_a_compiler_what_is_compiled_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(overhead.importlib.util, "find_spec", lambda name: object())
    on_gpu = section_of(Settings())
    assert not set(overhead.COMPILED) & set(overhead.variants_of(on_gpu))
    assert "embedded_replay" in overhead.variants_of(on_gpu)
    warm_compile.run(on_gpu)
    assert "needs a C compiler" in lines_of(on_gpu)[0]["left_out"]
    on_gpu.until = 0.0
    overhead.run(on_gpu, ("mlp",))
    left_out = lines_of(on_gpu)[1]["left_out"]
    assert left_out.startswith("variants compiled, graphs: torch.compile needs a C compiler")
    assert not on_gpu.missed()
    monkeypatch.setenv("CC", "some-cc")
    assert overhead.variants_of(on_gpu) == overhead.VARIANTS
    monkeypatch.setattr(overhead.importlib.util, "find_spec", lambda name: None)
    assert "triton" in overhead.why_not_compiled()
