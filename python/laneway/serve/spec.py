"""What model.toml says of a model."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from typing import Any

from laneway.errors import InvalidInput
from laneway.jobs.control.scheduling import MAX_PRIORITY
from laneway.serve import limits
from laneway.serve.problem import Problem
from laneway.serve.tensors import DATATYPES

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """-1 in a shape is any size; in front of a model with max_batch it is the rows of a batch."""

    name: str
    datatype: str
    shape: Shape

    def metadata(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    def check(self, shape: Shape) -> None:
        """Raises Problem for another shape than the model's."""
        if len(shape) != len(self.shape) or any(
            have != want and not (want == -1 and have > 0) for have, want in zip(shape, self.shape)
        ):
            raise Problem(
                400,
                f"input '{self.name}' has shape {list(shape)}; the model takes {list(self.shape)}, "
                "where -1 is any size above 0",
            )


@dataclasses.dataclass(frozen=True)
class Spec:
    """The fields of model.toml: docs/serve.md explains them."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch: int = 1
    max_delay_us: int = 0
    priority: int = 0
    deadline_ms: float = limits.DEADLINE_MS
    queue: int = limits.QUEUE
    pin: bool = False
    preload: bool = False
    load_s: float = limits.LOAD_S

    def batched(self) -> bool:
        return self.max_batch > 1

    def smallest(self) -> Shapes:
        """The shapes with 1 in the place of -1."""
        return tuple(tuple(1 if n == -1 else n for n in spec.shape) for spec in self.inputs)


def read_spec(text: bytes) -> Spec:
    """Raises InvalidInput, which names the field, its value and what it may be."""
    try:
        given = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"model.toml: {error}") from None
    known = {"input": "inputs", "output": "outputs"}
    fields = {field.name for field in dataclasses.fields(Spec)} - set(known.values())
    unknown = sorted(set(given) - fields - set(known))
    if unknown:
        fields_told = ", ".join(["input", "output", *sorted(fields)])
        raise InvalidInput(f"model.toml: {unknown[0]} is no field of it: {fields_told}")
    tensors = {field: _tensors(name, given.pop(name, None)) for name, field in known.items()}
    for name, value in given.items():
        _CHECKS[name](name, value)
    spec = Spec(**tensors, **given)
    if spec.batched():
        for tensor in (*spec.inputs, *spec.outputs):
            if not tensor.shape or tensor.shape[0] != -1:
                raise InvalidInput(
                    f"model.toml: max_batch = {spec.max_batch}, and the shape of '{tensor.name}' "
                    f"is {list(tensor.shape)}: it must begin with -1, the rows of a batch"
                )
    elif spec.max_delay_us:
        raise InvalidInput("model.toml: max_delay_us waits for a batch: give max_batch, too")
    return spec


def _tensors(name: str, given: Any) -> tuple[TensorSpec, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= limits.TENSORS:
        raise InvalidInput(
            f"model.toml: give [[{name}]] with name, datatype and shape, 1 to {limits.TENSORS} "
            "times"
        )
    made = tuple(_tensor(name, one) for one in given)
    names = [one.name for one in made]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise InvalidInput(f"model.toml: two [[{name}]] are named '{twice}'")
    return made


def _tensor(what: str, given: Any) -> TensorSpec:
    if not isinstance(given, dict) or set(given) != {"name", "datatype", "shape"}:
        raise InvalidInput(f"model.toml: a [[{what}]] has name, datatype and shape, nothing else")
    name, datatype, shape = given["name"], given["datatype"], given["shape"]
    if not isinstance(name, str) or not re.fullmatch(
        rf"[\w.\-/:]{{1,{limits.NAME_CHARACTERS}}}", name
    ):
        raise InvalidInput(
            f"model.toml: [[{what}]] name = {name!r}: give letters, digits, _ . - / :"
        )
    if datatype not in DATATYPES:
        raise InvalidInput(
            f"model.toml: '{name}' has datatype {datatype!r}: give one of {', '.join(DATATYPES)}"
        )
    if (
        not isinstance(shape, list)
        or len(shape) > limits.DIMENSIONS
        or any(type(n) is not int or not (n == -1 or 1 <= n < 1 << 40) for n in shape)
    ):
        raise InvalidInput(
            f"model.toml: '{name}' has shape {shape!r}: give at most {limits.DIMENSIONS} sizes "
            "above 0, or -1 for any"
        )
    return TensorSpec(name, datatype, tuple(shape))


def _whole(least: int, most: int) -> Any:
    def check(name: str, value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput(f"model.toml: {name} = {value!r}: give {least} to {most}")

    return check


def _number(most: float) -> Any:
    def check(name: str, value: Any) -> None:
        if type(value) not in (int, float) or not 0 < value <= most:
            raise InvalidInput(f"model.toml: {name} = {value!r}: give more than 0, up to {most:g}")

    return check


def _boolean(name: str, value: Any) -> None:
    if type(value) is not bool:
        raise InvalidInput(f"model.toml: {name} = {value!r}: give true or false")


_CHECKS = {
    "max_batch": _whole(1, limits.BATCH_MOST),
    "max_delay_us": _whole(0, 1_000_000),
    "priority": _whole(-MAX_PRIORITY, MAX_PRIORITY),
    "deadline_ms": _number(86_400_000),
    "queue": _whole(1, limits.QUEUE_MOST),
    "pin": _boolean,
    "preload": _boolean,
    "load_s": _number(limits.LOAD_MOST_S),
}
