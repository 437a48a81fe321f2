"""page: what does `laneway web` take, with 20 pages open, and for a scrape of its metrics?

The program is the real one over a made status (bench/web_stand_in.py): no service is asked. Its CPU
is read from /proc while 20 readers take the events of ten statuses; a scrape is a request from its
first to its last byte."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import stats
from .harness import Calibration, Options, progress
from .report import ROOT, Report, at_most

PAGES = 20
SCRAPE_MS = {100: 10, 1000: 60}
CPU_PERCENT = 5
STATUSES = 10
QUICK_STATUSES = 4


def cases() -> list[str]:
    return [f"{jobs}_jobs" for jobs in SCRAPE_MS]


def run(options: Options) -> Report:
    report = Report("page")
    calibration = Calibration()
    for jobs, most_ms in SCRAPE_MS.items():
        case = f"{jobs}_jobs"
        if not options.wants(case):
            continue
        progress(f"page: {case}")
        calibration.sample()
        with _Web(jobs) as web:
            web.request("/metrics")  # of the first, half is imports
            trials = min(options.trials, 5) if options.quick else options.trials
            scrapes = [web.request("/metrics") for _ in range(trials)]
            used = web.cpu_with_pages(QUICK_STATUSES if options.quick else STATUSES)
        median = stats.median(scrapes)
        report.add(case, "scrape_ms", median, "ms", at_most(most_ms), samples=scrapes)
        target = at_most(CPU_PERCENT) if jobs == max(SCRAPE_MS) else None
        note = f"{PAGES} readers; making the status itself is in it"
        report.add(case, "cpu_percent", used, "%", target, note=note)
    calibration.add_to(report)
    return report


class _Web:
    """The program over a status of so many jobs. A context manager."""

    def __init__(self, jobs: int) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.web_stand_in", str(jobs), "--listen", "127.0.0.1:0"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        url, _, token = self._process.stdout.readline().split()[-1].partition("?token=")
        self._place = url.removeprefix("http://").rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> _Web:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def request(self, path: str) -> float:
        """Milliseconds until all of the answer is there."""
        connection = http.client.HTTPConnection(self._place)
        start = time.perf_counter_ns()
        connection.request("GET", path, headers=self._headers)
        answer = connection.getresponse()
        answer.read()
        taken = (time.perf_counter_ns() - start) / 1e6
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return taken

    def cpu_with_pages(self, statuses: int) -> float:
        """Percent of a core while every page takes so many statuses after its first."""
        begin = threading.Barrier(PAGES + 1)
        readers = [
            threading.Thread(target=self._read, args=(begin, statuses)) for _ in range(PAGES)
        ]
        for reader in readers:
            reader.start()
        begin.wait()
        cpu, start = self._cpu_s(), time.monotonic()
        for reader in readers:
            reader.join()
        return 100 * (self._cpu_s() - cpu) / (time.monotonic() - start)

    def _read(self, begin: threading.Barrier, statuses: int) -> None:
        connection = http.client.HTTPConnection(self._place)
        connection.request("GET", "/api/events", headers=self._headers)
        answer = connection.getresponse()
        seen = -1  # the first is the whole status
        while seen < statuses:
            line = answer.readline()
            if line.startswith(b"event: minute"):
                seen += 1
                if seen == 0:
                    begin.wait()
        connection.close()

    def _cpu_s(self) -> float:
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
