"""How a job is named in a request: by its number, or by its name. The service has the same rule
(service/wire/job_ref.h)."""

from __future__ import annotations

from typing import Any

from laneway.errors import InvalidInput

_BY_NAME = "name:"


def by_name(name: str) -> str:
    """The text that means the job of this name, also where the name is a number."""
    return _BY_NAME + name


def text_of(job: str | int) -> str:
    """The job as requests have it: decimal digits are a number, "name:NAME" is a name whatever it
    looks like, any other text is a name."""
    return str(job)


def line_of(lines: list[dict[str, Any]], job: str | int) -> dict[str, Any]:
    """The one of these lines of a status that the text means. Raises InvalidInput when there is
    none, or several have that name."""
    text = text_of(job)
    if text.startswith(_BY_NAME):
        found = [line for line in lines if line["name"] == text.removeprefix(_BY_NAME)]
    elif text.isascii() and text.isdigit():
        found = [line for line in lines if line["id"] == int(text)]
    else:
        found = [line for line in lines if line["name"] == text]
    if len(found) == 1:
        return found[0]
    if found:
        ids = "".join(f" {line['id']}" for line in found)
        raise InvalidInput(f"several jobs are named {text!r}: give one of their numbers:{ids}")
    named = [line for line in lines if line["name"] == text]
    hint = f"; one is named so: `--name {text}`" if named else ""
    raise InvalidInput(f"there is no job {text!r}; `laneway jobs` lists them{hint}")
