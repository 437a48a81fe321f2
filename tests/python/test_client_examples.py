"""Shows that the examples of the C interface (service/api/examples) do what they say against a
lanewayd: a job made of a graph file, iterations, a second handle by name, the state."""

import os
import subprocess
from pathlib import Path

from support.daemon import DEADLINE_S, Lanewayd

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LANEWAY_BUILD", ROOT / "build" / "dev"))
EXAMPLES = BUILD / "service" / "client"
WRITE_GRAPH = BUILD / "tests" / "service" / "write_tiny_graph"


def run(*words):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_run_against_a_daemon(tmp_path):
    graph = tmp_path / "tiny.graph"
    run(WRITE_GRAPH, graph)
    with Lanewayd("--standby", "0", pool="64MiB") as daemon:
        assert run(EXAMPLES / "example_run_graph", daemon.address, graph) == "out 6 12 18 24\n"
        told = run(EXAMPLES / "example_read_job", daemon.address, graph)
        assert '"name":"example"' in told
        assert told.splitlines()[-1] == "out 8 state 8"
