"""A process that judges cases when its parent says so, and may crash while it does.

    python -m bench.corpus.worker

reads one JSON object a line from stdin, what parts.cases() takes and "skip", and answers with lines
on what was stdout: {"begin": case} before a case, {"row": row} after it, {"done": true} behind the
last. The first `skip` cases are left out. {"failed": text} stands for the rest when the cases could
not be made. End of input ends it. The parent's end is pool.py."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import warnings
from typing import Any, TextIO

POOL = "256MiB"


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import torch

    import laneway
    from laneway.jobs import service as services

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        with services._default_lock:
            if services._default is None or services._default.closed:
                services._default = laneway.embedded(POOL)
        _judge(json.loads(line), services._default, answers)
    return 0


def _judge(request: dict[str, Any], service: Any, answers: TextIO) -> None:
    from . import parts
    from .outcomes import Row

    def answer(reply: dict[str, Any]) -> None:
        answers.write(json.dumps(reply) + "\n")

    skip = request.pop("skip")
    try:
        cases = parts.cases(**request)
        for number, (case, judge) in enumerate(cases):
            if number < skip:
                continue
            answer({"begin": dataclasses.asdict(case)})
            answer({"row": Row(case, judge(service)).as_json()})
    except Exception as error:
        answer({"failed": f"{type(error).__name__}: {error}"})
        return
    answer({"done": True})


if __name__ == "__main__":
    sys.exit(main())
