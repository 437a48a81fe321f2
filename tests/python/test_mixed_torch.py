"""A client, a lanewayd and the torch that its workers load, of different minor versions: what the
client is told, once, what the status shows, and which words a refused graph has. The client, or the
library, only says that it is of another version; what a supervisor does with workers of several
ones is in tests/service/supervisor/supervisor_torch_test.cc."""

import copy
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import laneway
from laneway.capture import capture
from laneway.graph.graph_encode import encode_graph
from laneway.graph.graph_ir import Graph, Node
from laneway.native.torch_versions import minor_of
from support.daemon import Lanewayd, wait_until

OTHER = "2.99.0+cpu"
BUILD = Path(os.environ.get("LANEWAY_BUILD", Path(__file__).parents[2] / "build" / "dev"))
OTHER_LIBRARY = BUILD / "tests" / "adaptor" / "libother_torch.so"
RUNS = str(torch.__version__).partition("+")[0]
MISMATCH = f"this program was built for torch {RUNS} and has loaded torch 2.99.1: install torch"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Lanewayd]:
    with Lanewayd("--standby", "0") as running:
        yield running


def notices(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(one.message) for one in caught if "captures with torch" in str(one.message)]


def test_the_status_has_the_torch_of_workers_and_clients(daemon: Lanewayd) -> None:
    with daemon.connect() as service, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predict = laneway.inference(nn.Linear(4, 2), service=service, name="of this torch")
        predict(torch.ones(1, 4))
        status = service.status()
    assert notices(caught) == []
    (worker,) = status["workers"]
    assert minor_of(worker["torch"]["built"]) == minor_of(torch.__version__)
    assert worker["torch"]["running"] == RUNS
    (job,) = [job for job in status["jobs"] if job["name"] == "of this torch"]
    assert job["client_torch"] == str(torch.__version__)


def test_a_client_of_another_minor_is_told_once(
    daemon: Lanewayd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", OTHER)
    with daemon.connect() as service, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("first", "second"):
            predict = laneway.inference(nn.Linear(4, 2), service=service, name=name)
            predict(torch.ones(1, 4))
            (job,) = [job for job in service.status()["jobs"] if job["name"] == name]
            assert job["client_torch"] == OTHER
    (notice,) = notices(caught)
    assert f"captures with torch {OTHER}, and the service runs torch {RUNS}: " in notice
    assert "only with the same minor version on both sides" in notice


def rename_operator(node: Node) -> None:
    node.op += "_of_tomorrow"


def name_an_argument(node: Node) -> None:
    node.arguments.append(("of_tomorrow", 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [(rename_operator, "addmm_of_tomorrow"), (name_an_argument, "no argument named 'of_tomorrow'")],
)
@pytest.mark.filterwarnings("ignore:this process captures with torch")
def test_a_graph_that_this_torch_does_not_know_is_refused_with_both_versions(
    daemon: Lanewayd,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Node], None],
    words: str,
) -> None:
    """As one that a client with another torch captured."""

    def encode_changed(graph: Graph) -> bytes:
        changed = copy.deepcopy(graph)
        (node,) = [node for node in changed.nodes if node.op == "aten::addmm"]
        change(node)
        return encode_graph(changed)

    monkeypatch.setattr(capture, "encode_graph", encode_changed)
    for version, told in ((OTHER, True), (str(torch.__version__), False)):
        monkeypatch.setattr(torch, "__version__", version)
        with daemon.connect() as service, pytest.raises(laneway.GraphError) as refused:
            laneway.inference(nn.Linear(4, 2), service=service)(torch.ones(1, 4))
        assert "aten::addmm" in str(refused.value) and words in str(refused.value)
        both = f"captured with torch {OTHER}, and the service runs torch {RUNS}"
        assert (both in str(refused.value)) == told


def test_a_worker_that_loads_another_minor_is_not_started_again() -> None:
    daemon = Lanewayd(environment={"LD_PRELOAD": str(OTHER_LIBRARY)})
    with pytest.raises(AssertionError) as not_ready, daemon:
        pytest.fail("it is ready")
    log = str(not_ready.value)
    assert f"the service ends: no worker can serve it: {MISMATCH}" in log
    assert len(re.findall("worker [0-9]+ started", log)) == 1


def test_a_service_whose_torch_was_replaced_ends_when_its_worker_dies(tmp_path: Path) -> None:
    """From that moment on the loader finds the library that says so."""
    replaced = tmp_path / "replaced.so"
    with Lanewayd("--standby", "0", environment={"LD_PRELOAD": str(replaced)}) as daemon:
        replaced.symlink_to(OTHER_LIBRARY)
        daemon.kill(daemon.active_worker())
        wait_until(lambda: daemon.process.poll() is not None, "the end of the service")
        assert daemon.process.returncode == 1
        assert f"the service ends: no worker can serve it: {MISMATCH}" in daemon.log()
        assert len(re.findall("worker [0-9]+ started", daemon.log())) == 2
