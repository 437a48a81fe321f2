"""The process in which the start bench takes the time of choosing a binary, started afresh for
every sample.

    python -m bench.choice_probe

imports laneway, then finds the torch that is there and the embedded library for it, as a first
call does. Prints one JSON object: "import_s", "choose_s". Ends with 1 when torch was imported by
then."""

from __future__ import annotations

import json
import sys
import time


def main() -> int:
    clock = time.perf_counter
    begun = clock()
    import laneway  # noqa: F401
    from laneway.native import bindings

    imported = clock()
    bindings.chosen_library()
    chosen = clock()
    if "torch" in sys.modules:
        print("torch is imported before a job needs it", file=sys.stderr)
        return 1
    print(json.dumps({"import_s": imported - begun, "choose_s": chosen - imported}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
