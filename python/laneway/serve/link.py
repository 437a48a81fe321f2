"""The gateway's connection to the service: made when it is needed, and anew when the service has
gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from laneway import errors
from laneway.jobs.service import Service, connect
from laneway.serve import limits
from laneway.serve.problem import Problem, of_service
from laneway.serve.waiters import Waiters


class Link:
    """Belongs to the event loop. `lost` is called when a connection is given up."""

    def __init__(self, address: str | None, lost: Callable[[], None]) -> None:
        self._address, self._lost = address, lost
        self.waiters = Waiters()
        self._service: Service | None = None
        self._making = asyncio.Lock()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._closed = False

    def begin(self) -> None:
        """Looks for the service now and then, while it is away, so that its state is known."""
        self.keep(asyncio.ensure_future(self._watch()))

    async def _watch(self) -> None:
        while not self._closed:
            with contextlib.suppress(Problem):
                service = await self.service()
                try:
                    await asyncio.to_thread(service.status)
                except errors.Error:
                    await self._look()
            await asyncio.sleep(limits.LOOK_S)

    @property
    def there(self) -> bool:
        """Whether the service answered when it was last asked."""
        return self._service is not None

    async def service(self) -> Service:
        """Raises Problem 503 while there is none."""
        async with self._making:
            if self._service is None:
                try:
                    self._service = await asyncio.to_thread(
                        connect, self._address, limits.CONNECT_S
                    )
                except errors.Error as error:
                    raise of_service(error, limits.RETRY_S) from None
            return self._service

    def look_again(self) -> None:
        """Something was unavailable: finds out whether the service is."""
        self.keep(asyncio.ensure_future(self._look()))

    async def _look(self) -> None:
        async with self._making:
            service = self._service
            if service is None:
                return
            try:
                await asyncio.to_thread(service.status)
            except errors.Error:
                self._service = None
                self._lost()
                await asyncio.to_thread(service.close)

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Holds a task that nobody waits for until it is done."""
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # was told to those who asked

    async def close(self) -> None:
        """Ends all jobs."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        service, self._service = self._service, None
        if service is not None:
            await asyncio.to_thread(service.close)
        self.waiters.end()
