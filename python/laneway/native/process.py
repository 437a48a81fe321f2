"""What a process does to those who live in it: locks that know their process, changes of the
process that threads share, waits that hear Ctrl-C.

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


class SharedChange:
    """A change of something that all threads see (an attribute of a class, say), made by the first
    thread that enters and undone by the last that leaves. In a child made by fork() those inside
    are not there, save the thread that forked. Made by modules, once and for all.

    `undo` may come without `make`: a fork may fall between the two."""

    def __init__(self, make: Callable[[], object], undo: Callable[[], object]) -> None:
        self._make, self._undo = make, undo
        self._lock = threading.Lock()
        self._inside = 0  # entries of all threads
        self._mine = threading.local()  # .inside: those of this thread
        os.register_at_fork(after_in_child=self._after_fork)

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self._mine.inside = getattr(self._mine, "inside", 0) + 1
            if self._inside == 1:
                self._make()

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            self._mine.inside -= 1
            if self._inside == 0:
                self._undo()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        before, self._inside = self._inside, getattr(self._mine, "inside", 0)
        if before > 0 and self._inside == 0:
            self._undo()


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
