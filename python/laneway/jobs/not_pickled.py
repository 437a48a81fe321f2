"""NotPickled: handles of a service, which mean nothing in another process."""

from __future__ import annotations

from typing import Any

from laneway.errors import InvalidInput


class NotPickled:
    """A base of classes whose objects are neither copied nor pickled: both raise InvalidInput."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise InvalidInput(
            f"a {type(self).__name__} belongs to its process and its service, and is not copied or "
            "pickled: pass the model, or a file of step.save(), and make a new one there; or make "
            "the step with shared=True and use laneway.attach() there"
        )
