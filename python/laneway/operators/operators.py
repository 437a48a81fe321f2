"""Facts about operators that their schemas do not have.

Three tables: operators that do not declare what they write, with forms that do; operators that are
refused, each with a remedy; and operators that draw random numbers, with forms that draw from the
job's own generator.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from laneway.errors import CaptureError
from laneway.operators import number_forms, refusal_words

aten = torch.ops.aten

# Operators of other namespaces are never recorded: their schemas cannot be trusted.
ALLOWED_NAMESPACES = frozenset({"aten"})

# Operators that return their argument: no node is needed.
IDENTITY_OPERATORS = frozenset({aten.detach.default, aten.alias.default, aten.detach_.default})

# A new tensor from a Python literal: an alias as long as no node writes to it (functional_buffers
# gives a written one a copy of its own).
CONSTANT_OPERATORS = frozenset({aten.lift_fresh.default, aten.lift.default})

# These return a Python value that depends on shapes alone.
ANSWERED_BY_SHAPES = frozenset({aten.is_same_size.default, aten._has_same_storage_numel.default})
# These return a Python bool that depends on the data of tensors.
ANSWERED_BY_DATA = frozenset({aten.equal.default, aten.allclose.default})

_MUTATES_REMEDY = "it changes a tensor's memory in place: make a new tensor instead"
_PACKED_REMEDY = (
    "its result's shape depends on the lengths: run the layer on the padded batch and mask what it "
    "returns, or group batches by length"
)
_FUSED_DROPOUT_REMEDY = "it draws random numbers from a generator of its own"

REFUSED_OPERATORS: dict[str, str] = {
    "aten::set_": _MUTATES_REMEDY,
    "aten::resize_": refusal_words.RESIZED,
    "aten::resize_as_": refusal_words.RESIZED_AS,
    "aten::set_data": _MUTATES_REMEDY,
    "aten::swap_": _MUTATES_REMEDY,
    "aten::_resize_output_": _MUTATES_REMEDY,
    "aten::nonzero": refusal_words.MASKED,
    "aten::masked_select": refusal_words.MASKED,
    "aten::_unique2": refusal_words.DISTINCT,
    "aten::unique_dim": refusal_words.DISTINCT,
    "aten::unique_consecutive": refusal_words.DISTINCT,
    "aten::linalg_eig": refusal_words.EIGENVALUES,
    "aten::linalg_eigvals": refusal_words.EIGENVALUES,
    "aten::_linalg_eigvals": refusal_words.EIGENVALUES,
    "aten::_nested_tensor_from_mask_left_aligned": "nested tensors have shapes that depend on "
    "data: give torch.nn.TransformerEncoder enable_nested_tensor=False",
    "aten::_pack_padded_sequence": _PACKED_REMEDY,
    "aten::from_file": "load the file before the step",
    "aten::record_stream": "streams belong to the service",
    "aten::native_dropout": _FUSED_DROPOUT_REMEDY,
    "aten::_fused_dropout": _FUSED_DROPOUT_REMEDY,
    # This operator writes running statistics that its schema does not declare, and has no declared
    # form.
    "aten::batch_norm_update_stats": "use torch.nn.BatchNorm",
    "aten::_batch_norm_impl_index": "use torch.nn.BatchNorm",
    # These keep memory of a lane between iterations.
    "aten::_unsafe_masked_index": "use torch.where(mask, x[indices], fill)",
    "aten::_unsafe_masked_index_put_accumulate": "use x.index_put(indices, torch.where(mask, "
    "values, 0), accumulate=True)",
}


def name_of(overload: torch._ops.OpOverload) -> str:
    """ "aten::add.Tensor"; without the dot for the default overload."""
    return overload._schema.name + (
        f".{overload._schema.overload_name}" if overload._schema.overload_name else ""
    )


@functools.cache
def plain_view(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The operator that returns as a view what this one does to its argument's shape: transpose
    for transpose_."""
    family = getattr(aten, overload._schema.name.removeprefix("aten::").rstrip("_"), None)
    wanted = [(a.name, str(a.type)) for a in overload._schema.arguments]
    for name in family.overloads() if family is not None else ():
        candidate = getattr(family, name)
        if [(a.name, str(a.type)) for a in candidate._schema.arguments] == wanted:
            return candidate
    return None


@functools.cache
def out_arguments(overload: torch._ops.OpOverload) -> tuple[str, ...]:
    """Names of the arguments that receive results (out=)."""
    return tuple(argument.name for argument in overload._schema.arguments if argument.is_out)


@functools.cache
def without_out(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload of the same operator that returns the results that this one writes into its out=
    arguments."""
    wanted = [(a.name, str(a.type)) for a in overload._schema.arguments if not a.is_out]
    for name in overload.overloadpacket.overloads():
        candidate = getattr(overload.overloadpacket, name)
        if [(a.name, str(a.type)) for a in candidate._schema.arguments] == wanted:
            return candidate
    return None


@functools.cache
def written_positions(overload: torch._ops.OpOverload) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the arguments that the schema declares as written."""
    written = [
        (position, argument.name)
        for position, argument in enumerate(overload._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return tuple(position for position, _ in written), tuple(name for _, name in written)


@functools.cache
def written_returns(overload: torch._ops.OpOverload) -> tuple[bool, ...]:
    """For each return whether it is one of the written arguments."""
    return tuple(
        answer.alias_info is not None and answer.alias_info.is_write
        for answer in overload._schema.returns
    )


@functools.cache
def generator_argument(overload: torch._ops.OpOverload) -> str | None:
    """Name of the argument that takes a generator, or None."""
    for argument in overload._schema.arguments:
        if "Generator" in str(argument.type):
            return argument.name
    return None


@functools.cache
def may_draw(overload: torch._ops.OpOverload) -> bool:
    """Whether the operator draws random numbers for some arguments."""
    return (
        generator_argument(overload) is not None
        or torch.Tag.nondeterministic_seeded in overload.tags
    )


def draws(overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether this call draws random numbers. Attention and recurrent layers without dropout do
    not."""
    if not may_draw(overload):
        return False
    for position, argument in enumerate(overload._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            default = argument.default_value
            given = args[position] if position < len(args) else kwargs.get(argument.name, default)
            return given != 0
    return True


@functools.cache
def with_generator(overload: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The overload of the same operator that has all of its arguments and a generator."""
    needed = {argument.name for argument in overload._schema.arguments}
    for name in overload.overloadpacket.overloads():
        candidate = getattr(overload.overloadpacket, name)
        names = {argument.name for argument in candidate._schema.arguments}
        if names - {generator_argument(candidate)} == needed and names != needed:
            return candidate
    return None


def with_plain_integers(
    overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The call with plain integers and booleans where its schema wants such: sizes, dimensions and
    flags shape the result, so a number of the graph must be known there. A graph's number may stay
    where the schema takes any number, or a float. Raises CaptureError for one that is not known."""
    arguments = overload._schema.arguments
    types = {argument.name: str(argument.type) for argument in arguments}

    def plain(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(plain, value))
        if isinstance(value, torch.SymInt):
            return int(value)
        return bool(value) if isinstance(value, torch.SymBool) else value

    def wanted(kind: str, value: Any) -> Any:
        is_number = "number" in kind or "float" in kind
        return value if is_number or not _holds_symbol(value) else plain(value)

    return (
        tuple(wanted(types[argument.name], a) for argument, a in zip(arguments, args)),
        {name: wanted(types[name], value) for name, value in kwargs.items()},
    )


def _holds_symbol(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_symbol, value))
    return isinstance(value, (torch.SymInt, torch.SymBool))


def declared_form(
    overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
) -> tuple[torch._ops.OpOverload, tuple, dict[str, Any]]:
    """An equal call with a schema that declares its writes; for almost all operators the call
    itself."""
    family = overload._schema.name
    if family == "aten::native_batch_norm" and overload is aten.native_batch_norm.default:
        named = _by_name(overload, args, kwargs)
        return _batch_norm_form(named)
    if overload is aten.mkldnn_rnn_layer.default:
        # Its kernel does not use this argument but the gradient mode; the job sets the mode by the
        # argument.
        return overload, (*args[:-1], torch.is_grad_enabled()), kwargs
    if family in ("aten::cudnn_batch_norm", "aten::miopen_batch_norm"):
        named = _by_name(overload, args, kwargs)
        named["momentum"] = named.pop("exponential_average_factor")
        named["eps"] = named.pop("epsilon")
        return _batch_norm_form(named)
    return overload, args, kwargs


def _by_name(
    overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
) -> dict[str, Any]:
    names = [argument.name for argument in overload._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _batch_norm_form(
    named: dict[str, Any],
) -> tuple[torch._ops.OpOverload, tuple, dict[str, Any]]:
    head = (named["input"], named["weight"], named["bias"])
    mean, variance = named["running_mean"], named["running_var"]
    tail = (number_forms.momentum_of_call(named["momentum"]), named["eps"])
    if mean is None or variance is None:
        return aten._native_batch_norm_legit.no_stats, (*head, named["training"], *tail), {}
    if not named["training"]:
        return aten._native_batch_norm_legit_no_training.default, (*head, mean, variance, *tail), {}
    return aten._native_batch_norm_legit.default, (*head, mean, variance, True, *tail), {}


def without_generator(
    overload: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any]
) -> tuple[torch._ops.OpOverload, tuple, dict[str, Any], str | None, torch.Generator | None]:
    """A drawing call as one of an overload that takes a generator, without that argument; the
    argument's name; and the generator that the call brings, None for torch's default one. Other
    calls as they are, and None twice. Raises CaptureError for a drawing operator that takes no
    generator."""
    if not draws(overload, args, kwargs):
        return overload, args, kwargs, None, None
    if generator_argument(overload) is None:
        replaced = with_generator(overload)
        if replaced is None:
            raise CaptureError(
                "this operator draws random numbers and cannot be told from which generator",
                remedy="write it with torch.nn.functional.dropout or torch.bernoulli",
            )
        overload = replaced
    name = generator_argument(overload)
    names = [argument.name for argument in overload._schema.arguments]
    given = kwargs.get(name)
    position = names.index(name)
    if position < len(args):
        given = args[position]
        kwargs = {**dict(zip(names[position + 1 :], args[position + 1 :])), **kwargs}
        args = args[:position]
    if given is torch.default_generator:
        given = None
    return overload, args, {k: v for k, v in kwargs.items() if k != name}, name, given


def check_allowed(overload: torch._ops.OpOverload) -> None:
    """Raises CaptureError, without a line, for an operator that a graph must not contain."""
    if overload.namespace not in ALLOWED_NAMESPACES:
        raise CaptureError(
            f"operators of {overload.namespace} cannot be part of a step",
            remedy="write it with torch's own operators, or compute it outside the step",
        )
    remedy = REFUSED_OPERATORS.get(overload._schema.name)
    if remedy is None and torch.Tag.inplace_view in overload.tags and not plain_view(overload):
        remedy = "it changes a tensor's shape in place: use the form that returns a new tensor"
    if remedy is not None:
        raise CaptureError("this operator cannot be part of a step", remedy=remedy)
