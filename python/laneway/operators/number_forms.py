"""Forms that a graph can hold of decisions in torch's own Python by a number that is known only in
an iteration: the larger of two numbers, the factor of a cumulative average, an optimizer with
another branch from its sixth step on.

During a capture these functions replace torch's. For arguments that are no numbers of a graph they
behave as torch's functions, so threads that do not capture notice no difference.
"""

from __future__ import annotations

import builtins
import importlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from laneway.graph.target import captured_for
from laneway.native.process import SharedChange
from laneway.operators import ctc
from laneway.operators.scalars import ScalarNode

_SYMBOLS = (torch.SymFloat, torch.SymInt)
# More than the distance between two neighbouring doubles of about 5.
_STEEP = 1e300

_calling = threading.local()  # .momentum: that of the thread's present batch normalisation

_adafactor = importlib.import_module("torch.optim._adafactor")
_asgd = importlib.import_module("torch.optim.asgd")
_radam = importlib.import_module("torch.optim.radam")
_batchnorm = importlib.import_module("torch.nn.modules.batchnorm")
_functional = torch.nn.functional


def smaller(*given: Any) -> Any:
    """min() of numbers; of two numbers, one may be a graph's."""
    return _compared(builtins.min, "sym_min", given)


def larger(*given: Any) -> Any:
    """max(), likewise; a tensor of one double is allowed too."""
    if len(given) == 2 and isinstance(given[1], torch.Tensor) and captured_for():
        return given[1].clamp_min(given[0])
    return _compared(builtins.max, "sym_max", given)


def _compared(plain: Callable[..., Any], method: str, given: tuple) -> Any:
    nodes = [number.node for number in given if isinstance(number, _SYMBOLS)]
    if len(given) != 2 or not nodes or not isinstance(nodes[0], ScalarNode):
        return plain(*given)
    first, second = (_node(number, nodes[0]) for number in given)
    return getattr(first, method)(second).symbol()


def _node(number: Any, other: ScalarNode) -> ScalarNode:
    if isinstance(number, _SYMBOLS):
        return number.node
    if isinstance(number, int) and other.is_int():
        return other.wrap_int(number)
    return other.wrap_float(builtins.float(number))


def _float(given: Any = 0.0) -> Any:
    if isinstance(given, torch.Tensor) and captured_for():
        return torch.sym_float(given.item())
    return builtins.float(given)


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Batch normalisation with a momentum that may be a graph's number; torch's C++ takes plain
    floats only."""
    given = (input, running_mean, running_var, weight, bias, training)
    if not isinstance(momentum, torch.SymFloat) or not isinstance(momentum.node, ScalarNode):
        return _plain["batch_norm"](*given, momentum, eps)
    _calling.momentum = momentum
    try:
        return _plain["batch_norm"](*given, 0.5, eps)
    finally:
        _calling.momentum = None


def momentum_of_call(given: float) -> Any:
    """The momentum of this thread's present batch normalisation: `given`, or the number of the
    graph that `given` stands for."""
    momentum = getattr(_calling, "momentum", None)
    return given if momentum is None else momentum


def _ctc_loss(*given: Any, **named: Any) -> Any:
    return ctc.loss(_plain["ctc_loss"], *given, **named)


# ASGD.


def _asgd_value(given: Any) -> Any:
    """The value itself: ASGD over lists makes a number of a step count and then a tensor of that
    number; this form omits the number."""
    if isinstance(given, torch.Tensor) and captured_for():
        return given.double()
    return _plain["asgd_value"](given)


def _single_asgd(
    params: list[Any],
    grads: list[Any],
    axs: list[Any],
    mus: list[Any],
    etas: list[Any],
    state_steps: list[Any],
    **options: Any,
) -> None:
    """ASGD's step. The average is a copy as long as its weight is 1; this form computes both and
    selects one."""
    lists = (params, grads, axs, mus, etas, state_steps)
    if options["capturable"] or not captured_for():
        _plain["single_asgd"](*lists, **options)
        return
    lr, lambd, alpha = options["lr"], options["lambd"], options["alpha"]
    for param, grad, ax, mu, eta, step in zip(*lists, strict=True):
        grad = -grad if options["maximize"] else grad
        if param.is_complex():
            param, grad, ax = map(torch.view_as_real, (param, grad, ax))
        step.add_(1)
        if options["weight_decay"] != 0:
            grad = grad.add(param, alpha=options["weight_decay"])
        rate = eta.item()
        param.mul_(1 - lambd * rate)
        param.add_(grad, alpha=-rate)
        ax.copy_(torch.where(mu != 1, ax + param.sub(ax).mul_(mu), param))
        count = step.item()
        eta.copy_(_tensor(lr / ((1 + lambd * lr * count) ** alpha)))
        mu.copy_(_tensor(1 / larger(1, count - options["t0"])))


def _tensor(number: Any) -> Any:
    return number if isinstance(number, torch.Tensor) else torch.full((), number)


# RAdam: rectified once its average is long enough, from the sixth step or so on.


def _single_radam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    **options: Any,
) -> None:
    lists = (params, grads, exp_avgs, exp_avg_sqs, state_steps)
    if options["capturable"] or options["differentiable"] or not captured_for():
        _plain["single_radam"](*lists, **options)
        return
    beta1, beta2, lr = options["beta1"], options["beta2"], options["lr"]
    decay = options["weight_decay"]
    for param, grad, average, square, step in zip(*lists, strict=True):
        grad = -grad if options["maximize"] else grad
        if param.is_complex():
            param, grad, average, square = map(torch.view_as_real, (param, grad, average, square))
        step.add_(1)
        count = step.item()
        if decay != 0 and options["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        average.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2**count
        rectified, rect = _rectification(beta2, count)
        update = average / (1 - beta1**count) * lr
        adapted = update * ((correction**0.5) / square.sqrt().add_(options["eps"])) * rect
        param.add_(torch.where(torch.full((), rectified) > 0, adapted, update), alpha=-1.0)


def _multi_radam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    state_steps: list[Any],
    **options: Any,
) -> None:
    lists = [params, grads, exp_avgs, exp_avg_sqs, state_steps]
    if options["capturable"] or options["differentiable"] or not captured_for():
        _plain["multi_radam"](*lists, **options)
        return
    grouped = torch.optim.Optimizer._group_tensors_by_device_and_dtype(lists)
    for (params, grads, averages, squares, steps), _ in grouped.values():
        _radam_of_lists(params, grads, averages, squares, steps, options)


def _radam_of_lists(
    params: list[Any],
    grads: Any,
    averages: list[Any],
    squares: list[Any],
    steps: list[Any],
    options: dict[str, Any],
) -> None:
    beta1, beta2, lr = options["beta1"], options["beta2"], options["lr"]
    decay = options["weight_decay"]
    torch._foreach_add_(steps, torch.tensor(1.0), alpha=1.0)
    if options["has_complex"]:
        _radam._view_as_real(params, grads, averages, squares)
    if options["maximize"]:
        grads = torch._foreach_neg(grads)
    if decay != 0 and options["decoupled_weight_decay"]:
        torch._foreach_mul_(params, 1 - lr * decay)
    elif decay != 0 and options["maximize"]:
        torch._foreach_add_(grads, params, alpha=decay)
    elif decay != 0:
        grads = torch._foreach_add(grads, params, alpha=decay)
    torch._foreach_lerp_(averages, grads, 1 - beta1)
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)

    divisors, plain_rates = [], []
    for count in [step.item() for step in steps]:
        rectified, rect = _rectification(beta2, count)
        correction = 1 - beta1**count
        plain_rates.append((lr * (1.0 - rectified) / correction) * -1)
        rate = lr * (rect * rectified) / correction
        divisors.append(((1 - beta2**count) ** 0.5) * rate * -1)
    buffer = torch._foreach_sqrt(squares)
    torch._foreach_add_(buffer, options["eps"])
    torch._foreach_div_(buffer, divisors)
    torch._foreach_reciprocal_(buffer)
    torch._foreach_add_(buffer, plain_rates)
    torch._foreach_addcmul_(params, averages, buffer)


def _rectification(beta2: float, count: Any) -> tuple[Any, Any]:
    """1.0 where the step is rectified and else 0.0; and the factor of the rectification where it
    is."""
    most = 2 / (1 - beta2) - 1
    length = most - 2 * count * (beta2**count) / (1 - beta2**count)
    rectified = smaller(1.0, larger(0.0, (length - 5.0) * _STEEP))
    ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
    return rectified, larger(0.0, ratio) ** 0.5


# (where torch looks it up, its name there, what stands there, the original's name in _plain)
_FORMS: list[tuple[Any, str, Any, str]] = [
    (_adafactor, "min", smaller, ""),
    (_adafactor, "max", larger, ""),
    (_asgd, "max", larger, ""),
    (_asgd, "_get_value", _asgd_value, "asgd_value"),
    (_asgd, "_single_tensor_asgd", _single_asgd, "single_asgd"),
    (_radam, "_single_tensor_radam", _single_radam, "single_radam"),
    (_radam, "_multi_tensor_radam", _multi_radam, "multi_radam"),
    (_batchnorm, "float", _float, ""),
    (_functional, "batch_norm", _batch_norm, "batch_norm"),
    (torch, "ctc_loss", _ctc_loss, "ctc_loss"),
]
_plain: dict[str, Any] = {kept: getattr(place, name) for place, name, _, kept in _FORMS if kept}


_replaced = {(place.__name__, name): (form, kept) for place, name, form, kept in _FORMS if kept}


def is_replaced(entries: dict[str, Any], name: str) -> bool:
    """Whether a Python module, of these entries, has one of these forms under the name at times."""
    return (entries.get("__name__"), name) in _replaced


def own(entries: dict[str, Any], name: str) -> Any:
    """What such a module has there without the form."""
    form, kept = _replaced[entries["__name__"], name]
    value = entries.get(name)
    return _plain[kept] if value is form else value


def _put_in() -> None:
    for place, name, form, kept in _FORMS:
        if kept:
            _plain[kept] = getattr(place, name)
        setattr(place, name, form)


def _take_out() -> None:
    for place, name, form, kept in _FORMS:
        if place.__dict__.get(name) is not form:
            continue
        if kept:
            setattr(place, name, _plain[kept])
        else:
            delattr(place, name)


# Inside this context, torch's Python uses these forms.
in_place = SharedChange(_put_in, _take_out)
