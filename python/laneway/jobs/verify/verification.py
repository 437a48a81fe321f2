"""Verification: some iterations of a step or inference run in eager execution as well, and every
bit of what they leave is compared. A net for what no capture can see: state of C code."""

from __future__ import annotations

from typing import Any

from laneway.errors import InvalidInput, VerificationError
from laneway.graph.target import Target
from laneway.jobs.calls.job import Future
from laneway.jobs.verify.bit_compare import first_difference
from laneway.jobs.verify.eager_run import EagerRun, Values
from laneway.jobs.watch.capture_gate import CaptureGate, JointGate

_REMEDY = (
    "The step depends on something that is none of its arguments, and that no capture sees "
    "(state of C code, a setting that a call gives): give it to the step as an argument, or "
    "compute it in tensors"
)


def check_verify(verify: bool | int | None, shared: bool) -> None:
    """Raises InvalidInput when it is not a choice of train_step and inference."""
    if verify is not None and (not isinstance(verify, int) or verify < 0):
        raise InvalidInput(
            f"verify = {verify!r}: give True (iterations 1, 2, 4, 8 and so on run in eager "
            "execution too), a number N (every N-th does besides), or None"
        )
    if verify and shared:
        raise InvalidInput(
            "verify is for a job that one client has: others may change the state of a shared one "
            "between its two runs; leave verify or shared out"
        )


def verification_of(
    verify: bool | int | None, what: str, target: Target, gate: CaptureGate | JointGate
) -> Verification | None:
    """The verification that was asked for. Raises InvalidInput for a device that computes other
    bits than eager execution on the CPU."""
    if not verify:
        return None
    if target is not Target.cpu:
        raise InvalidInput(
            f"verify compares with eager execution on the CPU, and kernels of {target.value} round "
            "otherwise: verify on a service of the host (laneway.embedded()), then leave it out"
        )
    return Verification(verify, what, gate)


class Verification:
    """Of one step or inference, whose calls come one at a time."""

    def __init__(self, verify: bool | int, what: str, gate: CaptureGate | JointGate) -> None:
        self._every = None if verify is True else int(verify)
        self._what, self._gate = what, gate
        self._calls = 0

    def is_due(self) -> bool:
        """Whether the call that begins is one to verify."""
        self._calls += 1
        is_power = self._calls & (self._calls - 1) == 0
        return is_power or (self._every is not None and self._calls % self._every == 0)

    def begin(self, run: EagerRun, args: tuple, kwargs: dict[str, Any]) -> Check:
        """Runs the iteration in eager execution; compare() of the result belongs behind the job's
        own."""
        expected: Values | Exception
        try:
            with self._gate.capturing():
                expected = run.run(args, kwargs)
        except Exception as error:
            expected = error
        return Check(f"iteration {self._calls} of this {self._what}", self._calls, run, expected)


class Check:
    """What eager execution made of one iteration, or the error that it raised."""

    def __init__(
        self, where: str, iteration: int, run: EagerRun, expected: Values | Exception
    ) -> None:
        self._where, self._iteration = where, iteration
        self._run, self._expected = run, expected

    def compare(self, result: Any, args: tuple | None, kwargs: dict[str, Any]) -> None:
        """Raises VerificationError with the first value in which the job's iteration, which gave
        `result`, differs. `args` is None where it did not write them."""
        expected = self._expected
        if isinstance(expected, Exception):
            raise VerificationError(
                f"{self._where} differs from eager execution, which raises "
                f"{type(expected).__name__}: {expected}. {_REMEDY}",
                self._iteration,
            ) from expected
        given = self._run.of_job(result, args, kwargs)
        without = self._run.of_inputs if args is None else ()
        found = first_difference(given, {n: v for n, v in expected.items() if n not in without})
        if found is not None:
            raise VerificationError(
                f"{self._where} differs from eager execution in {found.words}. {_REMEDY}",
                self._iteration,
                found.name,
                found.index,
                found.given,
                found.expected,
            )

    def compare_later(self, future: Future, kwargs: dict[str, Any]) -> None:
        """The same for an iteration that was submitted, which is waited for."""
        future.wait()
        try:
            result = future.result()
        except Exception:
            return  # whoever has the future gets it
        self.compare(result, None, kwargs)
