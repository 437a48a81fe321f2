"""What a Python client of the service waits for one iteration of the empty graph.

    python -m bench.python_roundtrip ADDRESS CORE

The counterpart of laneway-client-roundtrip: `predict(x)` of an inference that gives its input back.
CORE is where this process stays (-1: anywhere); trials as in bench/trial_loop.h."""

from __future__ import annotations

import gc
import os
import random
import sys
import time


def main(arguments: list[str]) -> int:
    address, core = arguments[0], int(arguments[1])
    if core >= 0:
        os.sched_setaffinity(0, {core})
    import torch

    import laneway

    torch.set_num_threads(1)
    clock = time.perf_counter_ns
    with laneway.connect(address) as service:
        predict = laneway.inference(torch.nn.Identity(), service=service, name="empty-python")
        x = torch.zeros(4)
        predict(x)
        print("ready", flush=True)
        for line in sys.stdin:
            times = []
            count, gap_us = map(int, line.split())
            gap = random.Random(0)  # the same gaps in each trial
            gc.collect()
            gc.disable()
            for _ in range(count):
                if gap_us:
                    time.sleep(gap.uniform(0, 2e-6 * gap_us))
                start = clock()
                predict(x)
                times.append(clock() - start)
            gc.enable()
            print(*times, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
