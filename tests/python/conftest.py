"""Lets tests import the package, the benches and their support from the checkout, and starts each
from the same state of torch. `--service daemon` runs them against a lanewayd: see
support/service_mode.py. `--device remote` gives laneway.embedded() the device of
tests/remote_backend, any other name that device."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[0:0] = [str(ROOT / name) for name in (".", "python", "tests/python", "tools")]


def pytest_addoption(parser):
    parser.addoption(
        "--service",
        choices=("embedded", "daemon"),
        default="embedded",
        help="what laneway.embedded() gives to a test: the real one, or a lanewayd's connection",
    )
    parser.addoption(
        "--device",
        default="host",
        help='what laneway.embedded() runs on: "host", "cuda:N", or "remote", a stand-in for one',
    )


def pytest_configure(config):
    from support.vector_math import prepare_vector_math

    # A shell starts what it runs in the background with Ctrl-C ignored, and processes inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    prepare_vector_math()
    config.addinivalue_line("markers", "embedded_only: not for --service daemon; says why")
    config.addinivalue_line("markers", "host_only: not for another --device; says why")
    device = config.getoption("--device")
    if device == "remote":
        built = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build" / "dev"))
        plugin = built / "tests" / "remote_backend" / "liblaneway_remote_host.so"
        if not plugin.exists():
            raise pytest.UsageError(f"--device remote: there is no {plugin}; build it first")
        os.environ["LANEWAY_CUDA_PLUGIN"] = str(plugin)
        device = "cuda:0"
    if device != "host":
        os.environ["LANEWAY_DEVICE"] = device


def pytest_collection_modifyitems(config, items):
    if config.getoption("--service") == "daemon":
        for item in items:
            if item.get_closest_marker("embedded_only"):
                item.add_marker(pytest.mark.skip(reason="about the embedded service itself"))
    if config.getoption("--device") != "host":
        for item in items:
            if item.get_closest_marker("host_only"):
                item.add_marker(pytest.mark.skip(reason="about the host device itself"))


@pytest.fixture(autouse=True, scope="module")
def service_of_this_run(request):
    """With --service daemon, laneway.embedded() gives a connection to a lanewayd."""
    if request.config.getoption("--service") == "embedded":
        yield
        return
    from support.service_mode import daemons_instead_of_embedded

    with daemons_instead_of_embedded():
        yield


@pytest.fixture(autouse=True)
def one_thread_and_seed():
    """Every test starts from the same random state, with one thread, and leaves torch as it was."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def service():
    """A service of this test's own; where its pool matters, a file has its own fixture."""
    import laneway

    with laneway.embedded("256MiB") as opened:
        yield opened


@pytest.fixture
def program(request):
    """The bench's program that the module's PROGRAM names, as find_program is asked for it."""
    from bench.harness import find_program

    try:
        return find_program(*request.module.PROGRAM)
    except FileNotFoundError as error:
        pytest.skip(str(error))
