"""lanewayd raises its limit of open files, and broker and worker inherit it: shown with a soft
limit that is below the hard one when lanewayd starts. Standard descriptors that were closed, and a
limit on the size of files, are what others set before the start, too."""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import laneway
from support.daemon import Lanewayd, wait_until

LOW = 4_000


@pytest.fixture
def low_soft_limit() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= LOW:
        pytest.skip(f"the system allows {hard} open files; the test needs more than {LOW}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_broker_and_worker_may_open_as_many_files_as_the_system_allows(low_soft_limit: int) -> None:
    with Lanewayd() as daemon:
        for pid in (daemon.pid, daemon.broker(), daemon.active_worker()):
            limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            assert limit == (low_soft_limit, low_soft_limit)


def started_as(daemon: Lanewayd, change: Callable[[], None], **streams: Any) -> subprocess.Popen:
    """lanewayd, with `change` done in its process before it starts."""
    return subprocess.Popen(
        daemon._words, preexec_fn=change, start_new_session=True, text=True, **streams
    )


def test_descriptors_that_were_closed_are_no_file_of_the_services() -> None:
    daemon = Lanewayd()
    daemon.process = started_as(daemon, lambda: os.closerange(0, 3), stdout=subprocess.PIPE)

    def answers() -> bool:
        try:
            with daemon.connect():
                return True
        except laneway.Error:
            return False

    try:
        wait_until(answers, "an answer")
        for pid in (daemon.pid, daemon.broker(), daemon.active_worker()):
            open_as = [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]
            assert open_as == ["/dev/null"] * 3
    finally:
        daemon.__exit__()


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_a_limit_on_the_size_of_files_is_named(limit: int) -> None:
    daemon = Lanewayd()
    sizes = (limit, limit)
    change = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, sizes)  # noqa: E731
    process = started_as(daemon, change, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        shutil.rmtree(daemon.folder, ignore_errors=True)
    assert process.returncode > 0, said
    assert "File too large" in said, said
    if limit > 0:  # with none not even the lock file can be written
        assert "RLIMIT_FSIZE" in said and "ulimit -f unlimited" in said, said
