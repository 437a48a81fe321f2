"""The backend "laneway" of torch.compile: inference as jobs, in scripts that know nothing of it.

    compiled = torch.compile(model, backend="laneway")

Torch finds it by the entry point in this package's metadata, so nothing needs to be imported. Each
graph that torch makes of the code is a job over the model's weights, named after its function and
line, on the service at $LANEWAY_ADDRESS, else on a daemon at the default address, else on this
process's own. Weights that the user changes are uploaded before the next call. Results are those of
eager execution to the last bit; what cannot have them as a job runs eagerly, and a RuntimeWarning
says why, once: code that needs gradients, draws random numbers or has graph breaks,
operators that a graph cannot hold, code that torch makes no graph of. `options` are those of
CompileOptions. Jobs end with the model and with torch._dynamo.reset().
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.source import (
    TensorProperty,
    TensorPropertySource,
    is_from_unspecialized_param_buffer_source,
)
from torch.fx._lazy_graph_module import _LazyGraphModule

from laneway.capture.user_lines import is_internal_file
from laneway.compile.compile_notices import FrameWatch, name_of_function
from laneway.compile.compile_options import CompileOptions
from laneway.compile.compiled_graph import CompiledGraph
from laneway.compile.weight_image import close_images
from laneway.errors import InvalidInput

_lock = threading.Lock()
_graphs: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()
_names: collections.Counter[str] = collections.Counter()
_told_of_gradients = False
_watch = FrameWatch()


def laneway(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Sequence[Any]]:
    """What torch.compile calls with each graph that it makes. Raises InvalidInput for options that
    it does not know."""
    _watch.graph_came()
    checked = CompileOptions.of(options)
    if mode is not None:
        raise InvalidInput(f"mode {mode!r}: the backend laneway has no modes; leave it out")
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    _LazyGraphModule.force_recompile(graph)  # else its forward is a way round, which prints errors
    with _lock:
        compiled = CompiledGraph(
            graph.forward,
            _weights(placeholders),
            _derived(placeholders),
            _name_of(graph, checked),
            checked,
        )
        _graphs.add(compiled)
    if _needs_gradients(graph):
        _run_with_gradients(compiled)
    elif any(m.training for m in graph.children()) or next(graph.parameters(), None) is not None:
        compiled.run_eagerly(
            "torch keeps modules inside the graph: inline_inbuilt_nn_modules is off"
        )
    return compiled


def report() -> list[dict[str, Any]]:
    """What torch.compile made so far that is still there: per graph its "name", the names of its
    "jobs", and "eager": why it runs eagerly, or None. Functions that torch made no graph of, or
    several, follow, with no jobs and the reason."""
    made = sorted(list(_graphs), key=lambda g: g.name)
    graphs = [{"name": g.name, "jobs": g.jobs(), "eager": g.reason} for g in made]
    return graphs + _watch.rows()


def _reset() -> None:
    """torch._dynamo.reset() calls it."""
    global _told_of_gradients
    with _lock:
        graphs = list(_graphs)
        _graphs.clear()
        _names.clear()
        _told_of_gradients = False
    _watch.forget()
    for graph in graphs:
        graph.close()
    close_images()


laneway.reset = _reset


def _weights(placeholders: list[torch.fx.Node]) -> dict[int, str]:
    """Positions of the parameters and buffers of modules, and their names."""
    found = {}
    for position, node in enumerate(placeholders):
        argument = node.meta.get("grapharg")
        source = getattr(argument, "source", None)
        if node.type is torch.nn.Parameter or (
            source is not None and is_from_unspecialized_param_buffer_source(source)
        ):
            found[position] = node.name
    return found


def _derived(placeholders: list[torch.fx.Node]) -> frozenset[int]:
    """Positions of numbers that the shapes of tensors among the arguments determine."""
    sources = [getattr(node.meta.get("grapharg"), "source", None) for node in placeholders]
    names = {_name_of_source(s) for s in sources if s is not None}
    return frozenset(
        position
        for position, source in enumerate(sources)
        if isinstance(source, TensorPropertySource)
        and source.prop in (TensorProperty.SIZE, TensorProperty.STRIDE)
        and _name_of_source(source.base) in names
    )


def _name_of_source(source: Any) -> str:
    name = source.name
    return name() if callable(name) else name


def _needs_gradients(graph: torch.fx.GraphModule) -> bool:
    """Whether a result requires a gradient. Torch guards what that depends on."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    return any(
        getattr(node.meta.get("example_value"), "requires_grad", False)
        for node in output.all_input_nodes
    )


def _run_with_gradients(compiled: CompiledGraph) -> None:
    global _told_of_gradients
    told, _told_of_gradients = _told_of_gradients, True  # a model in training has many graphs
    compiled.run_eagerly(
        "its results require gradients, and the backend laneway is for inference: call it under "
        "torch.no_grad() or torch.inference_mode(); for training use laneway.train_step",
        quietly=told,
    )


def _name_of(graph: torch.fx.GraphModule, options: CompileOptions) -> str:
    """The name of the options; else the user's function with file and line, or the class of a
    module of torch's own that is compiled itself. With a number if there are more."""
    name = options.name
    if name is None:
        stack = getattr(getattr(graph, "compile_subgraph_reason", None), "user_stack", None)
        if stack and not is_internal_file(stack[0].filename):
            name = name_of_function(stack[0].name, stack[0].filename, stack[0].lineno)
        else:
            name = _outermost_module(graph) or "compiled"
    _names[name] += 1
    return name if _names[name] == 1 else f"{name}-{_names[name]}"


def _outermost_module(graph: torch.fx.GraphModule) -> str:
    for node in graph.graph.nodes:
        for _, kind in (node.meta.get("nn_module_stack") or {}).values():
            return kind if isinstance(kind, str) else kind.__name__
    return ""
