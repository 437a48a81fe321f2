"""The process that the memory bench looks at: trains one model and reads /proc/self meanwhile.

    python -m bench.memory_probe MODEL ITERATIONS

prints one JSON object: P and E of the job, the bytes of them that are mapped and resident in the
pool; anonymous memory before capture, before the first iteration and after each one."""

from __future__ import annotations

import gc
import sys
from typing import Any

from .models import make
from .probe import run_probe
from .process_memory import anonymous_bytes, resident_in_file
from .runners import Embedded

POOL = "laneway-pool"  # name of the pool's memfd


def probe(model: str, iterations: int) -> dict[str, Any]:
    work = make(model)
    batches = [work.batch(i) for i in range(iterations)]
    gc.collect()
    before_capture = anonymous_bytes()
    runner = Embedded(work)
    gc.collect()
    before = anonymous_bytes()
    after = []
    for batch in batches:
        runner.run([batch])
        after.append(anonymous_bytes())
    job = runner.report()
    p, e = job["image_bytes"], job["graphs"][0]["planned_peak_bytes"]
    pieces = {piece["kind"]: piece for piece in runner.service.status()["map"]}
    resident = resident_in_file(POOL, pieces["image"]["offset"], p)
    resident += resident_in_file(POOL, pieces["region"]["offset"], e)
    runner.close()
    return {
        "persistent_bytes": p,
        "ephemeral_bytes": e,
        "resident_bytes": resident,
        "anonymous_before_capture_bytes": before_capture,
        "anonymous_before_bytes": before,
        "anonymous_bytes": after,
    }


def main(arguments: list[str]) -> int:
    return run_probe(lambda: probe(arguments[0], int(arguments[1])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
