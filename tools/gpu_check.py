"""Runs the checks of the CUDA device from a pack (./dev gpu-pack) on a machine with a driver,
Python 3.12 and torch, and writes one report: gpu_check.json, gpu_check.md and gpu_check.log. Sets
nothing up. Exit codes: 0 every section ran and its tests passed, 1 otherwise, 2 wrong usage.
Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator

import check_machine
from check_report import Report, SectionResult
from check_sections import SECTIONS, TOTAL_S, Plan, run_all, wanted

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_KERNEL_LINES = 40
LEAST_S = 20.0  # to unpack and to find torch
MANIFEST = "manifest.json"  # at the top of a pack
# This may itself lie in a pack that was unpacked.
PACK = ROOT if (ROOT / MANIFEST).exists() else ROOT / "build/gpu-pack/laneway-gpu.tar.xz"


def check(arguments: argparse.Namespace, report: Report, deadline: float) -> None:
    """Everything; what was found is in the report at any time. Raises NotHere."""
    about = report.about
    about["commit"] = _checkout_commit()
    if arguments.rehearsal:
        about["rehearsal"] = True
    else:
        about["driver"] = check_machine.find_gpu()
    with _unpacked(arguments.pack) as pack:
        manifest = json.loads((pack / MANIFEST).read_text())
        about["pack"] = manifest
        _compare_commits(about)
        modules = [package["module"] for package in manifest.get("packages", {}).values()]
        torch = check_machine.find_torch(modules)
        about["torch"] = torch["torch"]
        if torch["torch"] != manifest["torch"]:
            why = f"this machine has {torch['torch']}, the pack was built for {manifest['torch']}"
            raise check_machine.NotHere("torch", why)
        if not torch["available"] and not arguments.rehearsal:
            raise check_machine.NotHere("torch", "the driver has a device, torch sees none")
        report.write()
        folder = pack.parent / "sections"
        folder.mkdir(exist_ok=True)
        environment = check_machine.environment_of(pack, torch, manifest)
        environment |= _section_settings(arguments, torch, folder)
        plan = Plan(_command, environment, folder, pack, report.folder / "gpu_check.log", deadline)
        plan.log.write_bytes(b"")
        results = {result.name: result for result in report.sections}

        def write() -> None:
            _note_machine(report)
            report.write()

        run_all(wanted(arguments.only), results, plan, write)


def _section_settings(
    arguments: argparse.Namespace, torch: dict, folder: pathlib.Path
) -> dict[str, str]:
    settings = {
        "device": arguments.device,
        "quick": arguments.quick,
        "cuda": torch["available"],
        "rehearsal": arguments.rehearsal,
    }
    return {
        "LANEWAY_GPU_CHECK": json.dumps(settings),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        # Many models are compiled side by side: as many helpers for each would be too many.
        "TORCHINDUCTOR_COMPILE_THREADS": "2",
    }


def _command(name: str, lines: pathlib.Path, seconds: float) -> list[str]:
    return [sys.executable, "-m", "bench.gpu.section", name, str(lines), f"{seconds:.1f}"]


def _note_machine(report: Report) -> None:
    """The rows of the section "machine" that are words are what the report's head shows."""
    for section in report.sections:
        if section.name == "machine":
            words = {row["metric"]: row["note"] for row in section.rows if row["value"] is None}
            if words:
                report.about["machine"] = words


def _note_kernel(report: Report, before: list[str]) -> None:
    """What the kernel said of the driver while this ran: an Xid is a fault of the device or of a
    program on it."""
    lines, why = check_machine.kernel_lines()
    new = [line for line in lines if line not in set(before)]
    report.about["kernel"] = new[-MOST_KERNEL_LINES:]
    if why:
        report.about["kernel_unread"] = why


@contextlib.contextmanager
def _unpacked(pack: pathlib.Path) -> Iterator[pathlib.Path]:
    """The pack's folder, in a temporary one; a folder is taken as a pack that is unpacked."""
    # What a process leaves that could not be ended is no failure of the check.
    temporary = tempfile.TemporaryDirectory(prefix="laneway-gpu-", ignore_cleanup_errors=True)
    if pack.is_dir():
        with temporary as folder:
            link = pathlib.Path(folder) / "pack"
            link.symlink_to(pack.resolve())
            yield link
        return
    if not pack.exists():
        why = f"there is none at {pack}: make one with ./dev gpu-pack, where there is a compiler"
        raise check_machine.NotHere("the pack", why)
    with temporary as folder:
        with tarfile.open(pack) as archive:
            archive.extractall(folder, filter="data")
        names = os.listdir(folder)
        if len(names) != 1 or not (pathlib.Path(folder) / names[0] / MANIFEST).exists():
            raise check_machine.NotHere("the pack", f"{pack} is not one of ./dev gpu-pack's")
        yield pathlib.Path(folder) / names[0]


def _checkout_commit() -> str | None:
    """The commit of the checkout that this runs in, if git is here and it has one."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _compare_commits(about: dict) -> None:
    """What is checked is the pack's commit; a checkout at another one is worth a word."""
    packed = about["pack"].get("commit")
    if about["commit"] and packed and about["commit"] != packed:
        about["note"] = f"the checkout is at {about['commit']}, the pack is of {packed}"
    dirty = " with changes" if about["pack"].get("dirty") else ""
    about["commit"] = f"{packed}{dirty}" if packed else about["commit"]


def parse(arguments: list[str]) -> argparse.Namespace:
    names = [section.name for section in SECTIONS]
    alone = [section.name for section in SECTIONS if section.by_name]
    parser = argparse.ArgumentParser(
        prog="./dev gpu-check",
        description="Run the checks of the CUDA device from a pack and write gpu_check.json and "
        f"gpu_check.md. Needs a driver, Python 3.12 and torch, sets nothing up, and ends within "
        f"{TOTAL_S / 60:.0f} minutes. Sections: {', '.join(names)}. On a GPU that is new, --only "
        f"{' '.join(alone)} first: it runs only when it is named.",
    )
    parser.add_argument(
        "--pack",
        type=pathlib.Path,
        default=PACK,
        metavar="FILE",
        help="(build/gpu-pack/…, or where this lies)",
    )
    parser.add_argument(
        "--out", type=pathlib.Path, metavar="DIR", help="(else $OUT, else build/gpu-check)"
    )
    parser.add_argument(
        "--only", nargs="+", action="extend", default=[], choices=names, metavar="SECTION"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=TOTAL_S,
        metavar="S",
        help=f"what all of it may take, at most and by default {TOTAL_S:.0f}",
    )
    parser.add_argument("--device", default="cuda:0", help="(cuda:0)")
    parser.add_argument("--quick", action="store_true", help="few trials, small sizes")
    parser.add_argument(
        "--rehearsal",
        action="store_true",
        help="run though there is no GPU, on the device that $LANEWAY_CUDA_PLUGIN brings: "
        "shows that everything runs; its figures mean nothing",
    )
    parser.add_argument("--check-usage", action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    if not LEAST_S <= found.seconds <= TOTAL_S:
        parser.error(f"--seconds {found.seconds:g}: from {LEAST_S:.0f} to {TOTAL_S:.0f}")
    return found


def main(words: list[str]) -> int:
    arguments = parse(words)
    if arguments.check_usage:
        return 0
    started = time.monotonic()
    deadline = started + arguments.seconds
    given = os.environ.get("OUT")
    out = arguments.out or (pathlib.Path(given) if given else ROOT / "build/gpu-check")
    results = [SectionResult(section.name, section.question) for section in wanted(arguments.only)]
    report = Report(out.resolve(), results)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    code = 1
    before = check_machine.kernel_lines()[0]
    try:
        report.write()
        check(arguments, report, deadline)
        code = 0 if report.passed() else 1
        report.about["status"] = "passed" if code == 0 else "failed"
        report.about["reason"] = _reason(report)
    except check_machine.NotHere as missing:
        report.about |= {"status": "skipped", "reason": f"nothing was run. {missing}"}
        for result in results:
            result.status = "skipped"
    except KeyboardInterrupt:
        report.about |= {"status": "interrupted", "reason": "what was found until then is here"}
        code = 130
    except BaseException as error:
        report.about |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        raise
    finally:
        _note_kernel(report, before)
        report.about["seconds"] = round(time.monotonic() - started, 1)
        report.write()
    print(report.summary())
    print(f"gpu-check: {report.about['status']}: {report.about['reason']}")
    print(f"gpu-check: the report is {report.folder / 'gpu_check.md'} (and .json)")
    return code


def _reason(report: Report) -> str:
    """What became of the sections, in a line."""
    failed = sum(len(section.failed_tests()) for section in report.sections)
    others = [f"{s.name} {s.status}" for s in report.sections if s.status != "ran"]
    rows = [r for s in report.sections for r in s.rows if r["target"] and not r.get("test")]
    met = sum(row["holds"] is True for row in rows)
    text = f"{failed} tests failed, {met} of {len(rows)} targets met"
    return f"{text}; {', '.join(others)}" if others else text


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
