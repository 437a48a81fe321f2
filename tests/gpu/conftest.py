"""The device under test. Without LANEWAY_TEST_DEVICE nothing runs here. Where LANEWAY_TEST_RECORD
names a file, what becomes of each test is there as soon as it has ended (bench/gpu/device_tests.py
reads it), so that a crash loses nothing."""

import json
import os
import sys

# Before a library of the device is loaded, here or in a lanewayd that a test starts: convolutions
# in TF32 differ by a thousandth when another algorithm is chosen, and training makes that large.
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")

import pytest

DEVICE_LOST = 70  # exit code: this process can run no more


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes more than some seconds")


@pytest.fixture
def device():
    """Laneway's name of the device."""
    name = os.environ.get("LANEWAY_TEST_DEVICE")
    if name is None:
        pytest.skip("no device: LANEWAY_TEST_DEVICE names one")
    return name


@pytest.fixture(autouse=True)
def same_start():
    if torch := sys.modules.get("torch"):  # a test that has none draws nothing
        torch.manual_seed(0)


def record(**told):
    name = os.environ.get("LANEWAY_TEST_RECORD")
    if name is not None:
        with open(name, "a") as file:
            file.write(json.dumps(told) + "\n")


def pytest_collection_finish(session):
    record(collected=[item.nodeid for item in session.items])


def pytest_runtest_logstart(nodeid, location):
    record(started=nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What the jobs of a failed test had done is recorded with it."""
    module = sys.modules.get("device")
    if call.excinfo is not None and module is not None:
        item.user_properties += [(f"job_{n}", text) for n, text in enumerate(module.reports)]
        for text in module.reports:
            print(text, flush=True)
    if module is not None:
        module.reports.clear()
    return (yield)


_outcomes = {}  # of the test that runs: by phase


def pytest_runtest_logreport(report):
    why = ""
    if report.skipped:
        why = report.longrepr[2]
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = crash.message if crash else str(report.longrepr)
        print(report.longreprtext, flush=True)  # now: the process may not reach its summary
    _outcomes[report.outcome] = (why, dict(report.user_properties))


def pytest_runtest_logfinish(nodeid, location):
    """One line for the test: a phase that failed counts, then one that was skipped."""
    outcome = next(o for o in ("failed", "skipped", "passed") if o in _outcomes)
    why, recorded = _outcomes[outcome]
    _outcomes.clear()
    record(ended=nodeid, outcome=outcome, why=why, recorded=recorded)
    torch = sys.modules.get("torch")
    if outcome == "failed" and torch and torch.cuda.is_available():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # an error of a kernel stays with the process
            print(f"the device is lost to this process: {error}", flush=True)
            os._exit(DEVICE_LOST)
