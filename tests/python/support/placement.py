"""Asks the adaptor what of a captured graph it leaves to the CPU on a device that is not the CPU
(tests/adaptor/placement_dump)."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile
from typing import NamedTuple

from laneway.capture.capture import CapturedJobGraph
from laneway.graph.graph_ir import NO_VALUE, Node
from laneway.native import bindings

READ_NUMBER = "aten::_local_scalar_dense"


class Placed(NamedTuple):
    """Paths of the slots that stay on the CPU; the nodes that run there; the nodes that read a
    number from the device, each of which waits for it."""

    slots: list[tuple]
    nodes: list[Node]
    waiting: list[Node]


def placed(captured: CapturedJobGraph) -> Placed:
    """Where the adaptor puts what is in the graph, the first of its job."""
    build = bindings.library_path().resolve().parents[1]
    program = build / "tests" / "adaptor" / "placement_dump"
    assert program.exists(), f"{program} is not built: build its target placement_dump"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "graph"
        file.write_bytes(captured.encode())
        done = subprocess.run(
            [program, file], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    slots, nodes = ([int(number) for number in line.split()] for line in done.stdout.splitlines())
    on_cpu = set(nodes)
    waiting = [
        node
        for number, node in enumerate(captured.graph.nodes)
        if number not in on_cpu and node.op == READ_NUMBER and node.results[0].values[0] != NO_VALUE
    ]
    return Placed(
        slots=[captured.slots[slot].path for slot in slots],
        nodes=[captured.graph.nodes[node] for node in nodes],
        waiting=waiting,
    )
