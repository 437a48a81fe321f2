"""gpu-check from end to end without a GPU: a rehearsal on a device whose kernels are the CPU's.
Every section's process runs as it would there, the report is whole, and the tests on the device
pass. The long form runs all sections, the short one those that take seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("LANEWAY_BUILD")
PLUGIN = "tests/remote_backend/liblaneway_remote_host.so"
SHORT = ("machine", "engine", "link", "placing")

pytestmark = pytest.mark.skipif(BUILT is None, reason="LANEWAY_BUILD names no build")


def pack_of(folder):
    """A folder that looks like a pack that is unpacked, of this checkout and its build."""
    import torch

    for name in ("bench", "python", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    for name in ("adaptor", "bench", "bin", "service"):
        (folder / "build" / name).symlink_to(Path(BUILT) / name)
    for name in ("lib", "lib-fallback"):
        (folder / name).mkdir()
    manifest = {"commit": "0" * 40, "dirty": False, "torch": torch.__version__, "packages": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def rehearse(tmp_path, *words):
    """The report of a rehearsal and the exit code."""
    plugin = Path(BUILT) / PLUGIN
    environment = os.environ | {"LANEWAY_CUDA_PLUGIN": str(plugin)}
    pack = tmp_path / "pack"
    pack.mkdir()
    command = [sys.executable, str(ROOT / "tools/gpu_check.py"), "--rehearsal", "--quick"]
    command += ["--pack", str(pack_of(pack)), "--out", str(tmp_path / "out")]
    command += ["--device", "cuda:0" if plugin.exists() else "host"]
    done = subprocess.run([*command, *words], env=environment, check=False)
    return json.loads((tmp_path / "out/gpu_check.json").read_text()), done.returncode


def test_a_rehearsal_runs_what_a_gpu_would(tmp_path):
    long = os.environ.get("LANEWAY_LONG") == "1"
    report, _ = rehearse(tmp_path, *([] if long else ["--only", *SHORT]))
    failed = [row for row in report["rows"] if row.get("test") and row["holds"] is not True]
    # No test program is in a pack that is only links.
    failed = [row for row in failed if row["section"] != "conformance"]
    assert not failed, failed
    assert {name: s["status"] for name, s in report["sections"].items()} == dict.fromkeys(
        report["sections"], "ran"
    )
    tests = [row for row in report["rows"] if row["section"] == "engine" and row.get("test")]
    assert len(tests) > 12
    text = (tmp_path / "out/gpu_check.md").read_text()
    assert "A rehearsal without a GPU" in text and "no figure in it means anything" in text


def test_torch_of_another_version_is_refused(tmp_path):
    """The pack's libraries would not load, or worse."""
    pack = tmp_path / "pack"
    pack.mkdir()
    manifest = json.loads((pack_of(pack) / "manifest.json").read_text())
    (pack / "manifest.json").write_text(json.dumps(manifest | {"torch": "1.0"}))
    command = [sys.executable, str(ROOT / "tools/gpu_check.py"), "--rehearsal"]
    done = subprocess.run(
        [*command, "--pack", str(pack), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the pack was built for 1.0" in done.stdout
