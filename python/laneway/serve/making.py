"""Making a model: children that import and capture it, and what they leave."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import multiprocessing
import os
import shutil
import signal
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from laneway.serve import limits
from laneway.serve.problem import Problem
from laneway.serve.repository import Facts
from laneway.serve.scratch import Scratch
from laneway.serve.spec import Shape, Shapes

_ANSWER = "answer.json"


@dataclasses.dataclass(frozen=True)
class Form:
    """One graph, for inputs of these shapes. `inputs`: of each input of the graph, which of the
    model's it is, or a file with its bytes. `every`: datatype and shape of the graph's outputs;
    `outputs`: which of them the model's are."""

    shapes: Shapes
    graph: Path
    inputs: list[int | Path]
    every: list[tuple[str | None, Shape]]
    outputs: list[int]

    def forget(self) -> None:
        """Removes its files."""
        for path in (self.graph, *(one for one in self.inputs if isinstance(one, Path))):
            path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a job is made of. Of a slot: name, kind, bytes, offset in the file, checksum."""

    folder: Path
    image: Path
    random_state: Path
    slots: list[dict[str, Any]]
    digest: str
    first: Form

    def forget(self) -> None:
        """Removes its files."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Making:
    """Runs the children. They are forked from a server that has imported torch, and end with the
    gateway."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["laneway.serve.nursery"])
        self._room = asyncio.Semaphore(limits.LOADS)

    def begin(self) -> None:
        """Starts the server of which they are forked; it gets ready by itself."""
        forkserver.ensure_running()

    async def plan(
        self, facts: Facts, shapes: list[Shapes], kernels: str
    ) -> tuple[Plan, list[Form]]:
        """The model with forms of these shapes; the first is also the plan's. Raises Problem."""
        folder, answer = await self._run(facts, shapes, kernels, None)
        forms = [_form(one, folder) for one in answer["forms"]]
        plan = Plan(
            folder,
            folder / answer["image"],
            folder / answer["random_state"],
            answer["slots"],
            answer["digest"],
            forms[0],
        )
        return plan, forms

    async def forms(
        self, facts: Facts, plan: Plan, shapes: list[Shapes], kernels: str
    ) -> list[Form]:
        """More graphs for the job of a plan. Raises Problem."""
        wanted = [plan.first.shapes, *shapes]
        folder, answer = await self._run(facts, wanted, kernels, plan.digest)
        kept = plan.folder / folder.name
        folder.rename(kept)
        return [_form(one, kept) for one in answer["forms"]]

    async def _run(
        self, facts: Facts, shapes: list[Shapes], kernels: str, digest: str | None
    ) -> tuple[Path, dict[str, Any]]:
        folder = self._scratch.folder(facts.name)
        wish = {
            "folder": str(facts.folder),
            "weights": None if facts.weights is None else str(facts.weights),
            "out": str(folder),
            "kernels": kernels,
            "digest": digest,
            "shapes": [[list(shape) for shape in form] for form in shapes],
            "batched": facts.spec.batched(),
            "datatypes": [spec.datatype for spec in facts.spec.inputs],
            "outputs": [[o.name, o.datatype, list(o.shape)] for o in facts.spec.outputs],
        }
        try:
            async with self._room:
                await self._child(facts, wish)
            answer = _read(folder / _ANSWER)
            if "error" in answer:
                raise Problem(409, f"model '{facts.name}' could not be loaded: {answer['error']}")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return folder, answer

    async def _child(self, facts: Facts, wish: dict[str, Any]) -> None:
        """Runs one to its end. Raises Problem when it leaves no answer."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        starting = asyncio.ensure_future(asyncio.to_thread(_started, self._context, wish))
        try:
            child = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_when_started)
            raise
        loop.add_reader(child.sentinel, ended.set)
        try:
            async with asyncio.timeout(facts.spec.load_s):
                await ended.wait()
        except TimeoutError:
            raise Problem(
                409,
                f"model '{facts.name}' was not imported and captured within load_s = "
                f"{facts.spec.load_s:g} s, and was given up",
            ) from None
        finally:
            loop.remove_reader(child.sentinel)
            if not ended.is_set():
                _kill(child)
            await asyncio.to_thread(child.join)
            code = child.exitcode
            child.close()
        if not (Path(wish["out"]) / _ANSWER).exists():
            how = f"signal {-code}" if code and code < 0 else f"exit code {code}"
            raise Problem(
                409, f"model '{facts.name}' could not be loaded: its process ended ({how})"
            )


def _started(context: Any, wish: dict[str, Any]) -> Any:
    child = context.Process(target=_make, args=(wish,), daemon=True)
    child.start()
    return child


def _end_when_started(starting: asyncio.Future[Any]) -> None:
    """Of a child that nobody waits for any more."""
    if not starting.cancelled() and starting.exception() is None:
        _kill(starting.result())


def _kill(child: Any) -> None:
    """It, and what its model started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has no group of its own yet
        child.kill()


def _make(wish: dict[str, Any]) -> None:
    from laneway.serve import maker  # torch: never in the gateway's own process

    maker.make(wish)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def _form(given: dict[str, Any], folder: Path) -> Form:
    return Form(
        tuple(tuple(shape) for shape in given["shapes"]),
        folder / given["graph"],
        [one if isinstance(one, int) else folder / one for one in given["inputs"]],
        [(one["datatype"], tuple(one["shape"])) for one in given["every"]],
        given["outputs"],
    )
