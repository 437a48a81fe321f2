"""What a step leaves in attributes of modules: attention maps, auxiliary losses, the last features.

A tensor or number of the step that a module has as an attribute afterwards is one more output of
the graph, and each call sets the attribute, as eager execution does. A capture itself sets none.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Left:
    """The attribute `name` of the module with these attributes, and what the step set it to."""

    attributes: dict[str, Any]
    name: str
    value: Any

    def put(self, value: Any) -> None:
        """Sets the attribute."""
        self.attributes[self.name] = value
