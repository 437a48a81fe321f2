"""What a process does to those who live in it: locks that know their process, waits that hear
Ctrl-C.

A child made by fork() inherits locks in the state in which other
threads of the parent held them, but not those threads: waiting there would never end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from laneway.errors import ServiceUnavailable


class ProcessLock:
    """A re-entrant lock for the threads of the process that made it. In any other process entering
    raises ServiceUnavailable instead of waiting."""

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """Whether this process is the lock's."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises ServiceUnavailable, naming both processes, unless this process is the lock's."""
        if not self.is_here():
            raise ServiceUnavailable(
                f"the service belongs to process {self._pid}, this is process {os.getpid()}, which "
                "was forked from it and has neither the service's threads nor its memory: use it "
                f"in process {self._pid}, or open a service of this process's own"
            )

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def run_interruptibly(call: Callable[[Any], object], argument: Any) -> None:
    """call(argument), of the library, which may wait for an iteration to end. Ctrl-C is heard at
    once; the call then goes on by itself, and the interpreter does not end before it."""
    if threading.current_thread() is not threading.main_thread() or not _can_start_threads():
        call(argument)
        return
    waiting = threading.Thread(target=call, args=(argument,), name="laneway-close")
    waiting.start()
    waiting.join()


def _can_start_threads() -> bool:
    # Not once the interpreter has joined its threads: its exit handlers run then.
    return threading.main_thread().is_alive()
