"""What the user of torch.compile is told: a warning at the line that called the compiled code."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from torch._dynamo.callback import callback_handler
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.utils import counters

from laneway.user_lines import is_internal


def warn_user(text: str) -> None:
    """A RuntimeWarning at the innermost line that is neither torch's nor laneway's."""
    level, frame = 1, sys._getframe()
    while frame is not None and is_internal(frame.f_code):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


class NoGraphWatch:
    """Torch may find that it cannot make a graph of some code (a model with nn.LSTM, for one); it
    then runs it eagerly and says nothing, not even to the backend. Its callbacks around each
    compilation tell. One per process."""

    def __init__(self) -> None:
        self._graphs = 0
        self._before = (0, 0)
        self._attach()
        self._clear = callback_handler.clear
        callback_handler.clear = self._stay  # torch._dynamo.reset() clears them

    def graph_came(self) -> None:
        """The compilation under way gave a graph."""
        self._graphs += 1

    def _attach(self) -> None:
        callback_handler.register_start_callback(self._begin)
        callback_handler.register_end_callback(self._end)

    def _stay(self) -> None:
        self._clear()
        self._attach()

    def _begin(self, _: Any) -> None:
        self._before = (self._graphs, counters["unimplemented"].total())

    def _end(self, _: Any) -> None:
        reasons = counters["unimplemented"]
        if self._graphs != self._before[0] or reasons.total() <= self._before[1] or not _is_ours():
            return
        reason = next(reversed(reasons)).split("\n")[0]
        hint = ""
        if "LSTM" in reason:
            hint = "; torch._dynamo.config.allow_rnn = True lets torch try"
        warn_user(
            "torch.compile gave Laneway no graph of this code, and runs it eagerly: "
            f"{reason}{hint}. TORCH_LOGS=graph_breaks says more"
        )


def _is_ours() -> bool:
    """Whether the compilation around this call is for this backend."""
    frame = sys._getframe()
    while frame is not None:
        compiler = frame.f_locals.get("compiler_fn")
        if compiler is not None:
            return getattr(innermost_backend(compiler), "compiler_name", None) == "laneway"
        frame = frame.f_back
    return False
