"""lanewayd raises its limit of open files, and broker and worker inherit it: shown with a soft
limit that is below the hard one when lanewayd starts."""

import resource
from collections.abc import Iterator

import pytest

from support.daemon import Lanewayd

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
