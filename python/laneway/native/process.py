"""Locks that know their process, changes of the process that all threads share, and waits that
Ctrl-C interrupts.

A child made by fork() inherits each lock as the parent's threads held it, but not the threads that
would release it: a wait for such a lock would never end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from laneway.errors import ServiceUnavailable


class ProcessLock:
    """A re-entrant lock for the threads of the process that made it. In any other process `with`
    raises ServiceUnavailable instead of waiting."""

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """Whether this process made the lock."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises ServiceUnavailable, which names both processes, unless this one made the lock."""
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
    """A change that all threads see (for example an attribute of a class). The first thread that
    enters makes the change, the last thread that leaves undoes it. In a child made by fork() only
    the entries of the thread that forked count.

    Requires: the object lives as long as the process (a module's global). `undo` must work without
    `make` before it, because a fork may happen between the two."""

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
    """Runs call(argument), a function of the C library that may wait for an iteration. Ctrl-C
    raises KeyboardInterrupt at once; the call then continues in a thread of its own, and the
    interpreter ends after it."""
    if threading.current_thread() is not threading.main_thread() or not _can_start_threads():
        call(argument)
        return
    waiting = threading.Thread(target=call, args=(argument,), name="laneway-close")
    waiting.start()
    waiting.join()


def _can_start_threads() -> bool:
    # False when exit handlers run: the interpreter has then joined its threads.
    return threading.main_thread().is_alive()
