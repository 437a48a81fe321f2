"""Waiters: a few threads that wait for the service, whatever the number of requests. laneway.h has
no descriptor that becomes readable when an iteration is over, so somebody must be inside a wait:
each thread takes one wait, and while more are open than there are threads, they take turns."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from typing import Protocol

from laneway.serve import limits


class Wait(Protocol):
    """Both say whether it is over. They are called by one thread at a time."""

    def begin(self) -> bool: ...

    def look(self, timeout_ns: int) -> bool: ...


class Waiters:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: queue.SimpleQueue[tuple[Wait, asyncio.Future[None], bool] | None] = (
            queue.SimpleQueue()
        )
        for number in range(limits.WAITERS):
            # Daemons: a service that says nothing keeps the gateway from no end.
            name = f"laneway-serve-{number}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def over(self, wait: Wait) -> asyncio.Future[None]:
        """Done when the wait is over; exceptions of the wait itself are its result."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._open.put((wait, answer, False))
        return answer

    def end(self) -> None:
        for _ in range(limits.WAITERS):
            self._open.put(None)

    def _run(self) -> None:
        while (entry := self._open.get()) is not None:
            wait, answer, begun = entry
            error: BaseException | None = None
            try:
                over = not begun and wait.begin()
                while not over and self._open.empty():
                    over = wait.look(limits.SLICE_NS)
                if not over:
                    over = wait.look(limits.SHORT_SLICE_NS)
            except BaseException as raised:  # the request's, not the thread's
                over, error = True, raised
            if not over:
                self._open.put((wait, answer, True))
                continue
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_settle, answer, error)


def _settle(answer: asyncio.Future[None], error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)
