"""The backend "laneway" of torch.compile: inference as jobs, without other changes to a script.

    compiled = torch.compile(model, backend="laneway")

Torch finds the backend by the entry point in this package's metadata, so the script imports
nothing. Each graph that torch makes of the code becomes a job over the model's weights. The job is
named after the function and its line. It runs on the service at $LANEWAY_ADDRESS; where that is not
set, on a daemon at the default address; where no daemon listens, on a service embedded in this
process. Before each call the backend uploads the weights that the user has changed.

Results have the bits of eager execution. Code that cannot run as a job runs eagerly, and one
RuntimeWarning gives the reason: code that needs gradients, draws random numbers or has graph
breaks, operators that a graph cannot hold, code of which torch makes no graph. CompileOptions
describes `options`. A job ends with its model, or at torch._dynamo.reset().
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
_warned_of_gradients = False
_watch = FrameWatch()


def laneway(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Sequence[Any]]:
    """The backend: torch.compile calls it with each graph and calls the returned function instead
    of the graph. Raises InvalidInput for a `mode` and for unknown options."""
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
    """One dictionary for each compiled graph that is alive: its "name", the names of its "jobs",
    and "eager": the reason why the graph runs eagerly, or None. Functions of which torch made no
    graph, or several, follow; they have no jobs, and "eager" is the reason."""
    made = sorted(list(_graphs), key=lambda g: g.name)
    graphs = [{"name": g.name, "jobs": g.jobs(), "eager": g.reason} for g in made]
    return graphs + _watch.rows()


def _reset() -> None:
    """Ends all jobs of the backend. torch._dynamo.reset() calls this function."""
    global _warned_of_gradients
    with _lock:
        graphs = list(_graphs)
        _graphs.clear()
        _names.clear()
        _warned_of_gradients = False
    _watch.forget()
    for graph in graphs:
        graph.close()
    close_images()


laneway.reset = _reset


def _weights(placeholders: list[torch.fx.Node]) -> dict[int, str]:
    """The parameters and buffers of modules among the arguments: position to name."""
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
    """The positions of numbers that are sizes or strides of tensors among the arguments."""
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
    """Whether a result requires a gradient. Torch guards the flags that decide this."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    return any(
        getattr(node.meta.get("example_value"), "requires_grad", False)
        for node in output.all_input_nodes
    )


def _run_with_gradients(compiled: CompiledGraph) -> None:
    global _warned_of_gradients
    warned, _warned_of_gradients = _warned_of_gradients, True  # a model in training has many graphs
    compiled.run_eagerly(
        "its results require gradients, and the backend laneway is for inference: call it under "
        "torch.no_grad() or torch.inference_mode(); for training use laneway.train_step",
        quietly=warned,
    )


def _name_of(graph: torch.fx.GraphModule, options: CompileOptions) -> str:
    """The graph's name: that of the options, or the user's function with file and line, or the
    class of a compiled module that is torch's own. A number follows where the name is taken."""
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
