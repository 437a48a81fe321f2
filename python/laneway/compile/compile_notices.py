"""Notices for the user of torch.compile: a warning at the line that called the compiled code, and
the entries of report() for code without a graph."""

from __future__ import annotations

import collections
import functools
import os
import re
import sys
import warnings
from types import MethodType
from typing import Any

from torch._dynamo.convert_frame import CatchErrorsWrapper, ConvertFrame, compile_lock
from torch._dynamo.eval_frame import innermost_backend
from torch._dynamo.exc import (
    BackendCompilerFailed,
    InternalTorchDynamoError,
    TorchRuntimeError,
    Unsupported,
)
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from laneway.capture.user_lines import is_internal, is_internal_file
from laneway.compile.compile_options import CompileOptions
from laneway.errors import CaptureError, Error

# Torch's name for the rest of a function behind a graph break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
# What torch itself says would help: as a hint in some versions, in the explanation in others.
_OPTION = re.compile(r"\bSet (torch\._dynamo\.config\.\w+) ?= ?(\w+) to enable\b")
_HINTS = {
    "recompile_limit": "pass what changes from call to call as a tensor, or raise "
    "torch._dynamo.config.recompile_limit",
}


def warn_user(text: str) -> None:
    """Issues a RuntimeWarning at the innermost line outside of torch and laneway."""
    level, frame = 1, sys._getframe()
    while frame is not None and is_internal(frame.f_code):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def name_of_function(name: str, filename: str, line: int) -> str:
    """ "forward@model.py:12"; for a part behind a graph break, the name of its function."""
    resumed = _RESUMED.fullmatch(name)
    return f"{resumed.group(1) if resumed else name}@{os.path.basename(filename)}:{line}"


class FrameWatch:
    """Finds code that torch runs eagerly without notice, even to the backend: code without a graph
    (a model with nn.LSTM, for example), code between two graphs of a function, functions that torch
    skips, calls beyond its limit of recompilations. FrameWatch sees every function that torch
    compiles for this backend, and the outcome. One per process."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], str] = {}  # (function, file, reason) -> its name
        self._graphs = 0
        self._ask = CatchErrorsWrapper.__call__
        CatchErrorsWrapper.__call__ = self._asked()

    def graph_came(self) -> None:
        """The compilation under way gave a graph."""
        self._graphs += 1

    def rows(self) -> list[dict[str, Any]]:
        """The rows of report(): functions that run eagerly, in whole or in part, without a
        graph."""
        told = list(self._told.items())
        return [{"name": name, "jobs": [], "eager": reason} for (*_, reason), name in told]

    def forget(self) -> None:
        """Forgets the notices, so that each is given again."""
        self._told.clear()

    def _asked(self) -> Any:
        ask = self._ask

        @functools.wraps(ask)
        def watched(wrapper: CatchErrorsWrapper, frame: Any, *arguments: Any) -> ConvertFrameReturn:
            backend = innermost_backend(wrapper)
            if getattr(backend, "compiler_name", None) != "laneway":
                return ask(wrapper, frame, *arguments)
            options = CompileOptions.of(backend.kwargs.get("options"))
            return self._watched(options, wrapper, frame, *arguments)

        return watched

    def _watched(
        self, options: CompileOptions, wrapper: CatchErrorsWrapper, frame: Any, *arguments: Any
    ) -> ConvertFrameReturn:
        whole = not isinstance(wrapper._torchdynamo_orig_backend, ConvertFrame)  # fullgraph=True
        try:
            with compile_lock:  # counts in between belong to this function
                graphs, before = self._graphs, _reasons()
                answer = self._ask(wrapper, frame, *arguments)
                met, partly = _reasons() - before, self._graphs > graphs
        except BackendCompilerFailed as error:
            if isinstance(error.inner_exception, Error):
                raise error.inner_exception from None
            raise
        except (TorchRuntimeError, InternalTorchDynamoError, Unsupported) as error:
            if not options.strict and (whole or isinstance(error, Unsupported)):
                raise  # the user asked torch for it
            self._tell(options, frame, f"torch could not trace it: {_first_words(error)}", error)
            # This call only: its arguments may be the reason.
            again = FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT)
            return ConvertFrameReturn(frame_exec_strategy=again, apply_to_code=False)
        if met:
            self._tell(options, frame, _said(list(met), partly), partly=partly)
        elif answer.guarded_code is None:
            reason = _why_skipped(frame)
            if reason is not None:
                self._tell(options, frame, reason)
        return answer

    def _tell(
        self,
        options: CompileOptions,
        frame: Any,
        reason: str,
        cause: Exception | None = None,
        partly: bool = False,
    ) -> None:
        """Warns, unless the notice was given before. Raises CaptureError instead if the options are
        strict."""
        name = _name_of(frame)
        if options.strict:
            raise CaptureError(
                f"{name} does not run as jobs of Laneway alone: {reason}",
                remedy="leave out the option strict, and it runs eagerly",
            ) from cause
        key = (name.partition("@")[0], frame.f_code.co_filename, reason)
        if key not in self._told:
            self._told[key] = name
            part = "in part " if partly else ""
            warn_user(f"{name} runs {part}eagerly, not as a job of Laneway: {reason}")


def _reasons() -> collections.Counter[str]:
    """Torch's reasons for no graph, with their counts."""
    return counters["graph_break"] + counters["unimplemented"]


def _said(reasons: list[str], has_graph: bool) -> str:
    texts = dict.fromkeys(map(_first_words, reasons))
    options = dict.fromkeys(option for reason in reasons for option in _OPTION.findall(reason))
    hints = [f"{name} = {value} lets torch try" for name, value in options]
    hints += [hint for word, hint in _HINTS.items() if any(word in reason for reason in reasons)]
    what = (
        "torch.compile gave several graphs, and what is between them is part of none"
        if has_graph
        else "torch.compile gave no graph of it, or none up to here"
    )
    return "; ".join([f"{what}: {'; '.join(texts)}", *hints, "TORCH_LOGS=graph_breaks says more"])


def _first_words(reason: object) -> str:
    """Torch's finding and its explanation, without the hints."""
    lines = [line.strip() for line in str(reason).strip().split("\n")]
    explanation = next((x for x in lines if x.startswith("Explanation: ")), "")
    explanation = explanation.removeprefix("Explanation: ").rstrip(".")
    text = f"{lines[0].rstrip('.:')} ({explanation})" if explanation else lines[0].rstrip(".:")
    return text if len(text) <= 400 else f"{text[:400]}…"


def _why_skipped(frame: Any) -> str | None:
    """Why torch did not trace a function. None where it traced and found no operator, and for
    functions of torch, except one that the user compiled."""
    modes = _get_current_dispatch_mode_stack()
    if not modes or any(type(mode).__module__.startswith("laneway.") for mode in modes):
        return None  # Laneway's own mode records the operators
    asked_by = sys._getframe(3).f_code  # behind watched() and _watched()
    if is_internal_file(frame.f_code.co_filename) and asked_by.co_name != "compile_wrapper":
        return None
    name = type(modes[-1]).__name__
    return f"a TorchDispatchMode ({name}) is on, under which torch.compile looks at nothing"


def _name_of(frame: Any) -> str:
    code = frame.f_code
    if is_internal_file(code.co_filename):  # a module or function of torch's is compiled itself
        owner = frame.f_locals.get("self", frame.f_locals.get("fn"))
        owner = owner.__self__ if isinstance(owner, MethodType) else owner
        return getattr(owner, "__name__", type(owner).__name__ if owner else code.co_name)
    return name_of_function(code.co_name, code.co_filename, code.co_firstlineno)
