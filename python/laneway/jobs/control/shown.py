"""Shown: what steps, inferences and services say of themselves at a prompt and in a notebook."""

from __future__ import annotations

import html
from typing import Any

from laneway.errors import Error
from laneway.jobs.control import residency
from laneway.printable import escaped

_LONGEST = 200  # characters of a value; a reason can be longer


class Shown:
    """A mixin: repr() and the table of notebooks, of what shown() has."""

    def shown(self) -> dict[str, Any]:
        """What is to be said, by name; for the package itself. May raise Error."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """One line, whatever the names hold; it asks the service, and raises no Error."""
        told = ", ".join(f"{key} {_line(value)}" for key, value in _facts(self).items())
        return f"<laneway {type(self).__name__}: {told}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(_cut(str(value)))}</td></tr>"
            for key, value in _facts(self).items()
        )
        kind = html.escape(type(self).__name__)
        return f"<table><caption>laneway {kind}</caption>{rows}</table>"


def _facts(shown: Shown) -> dict[str, Any]:
    try:
        return shown.shown()
    except Error as error:
        return {"state": f"not known: {error}"}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."


def _line(value: Any) -> str:
    """A name in quotes, with escapes; of other text control characters as escapes."""
    if isinstance(value, Name):
        return _cut(ascii(str(value)))
    return _cut(escaped(str(value)))


class Name(str):
    """A name that a user gave."""


def job_facts(name: str | None, line: dict[str, Any] | None) -> dict[str, Any]:
    """What is said of a job, by its line of the status; None: it has none yet."""
    facts: dict[str, Any] = {} if name is None else {"name": Name(name)}
    if line is None:
        return facts | {"state": "no job yet: it is made with the first call"}
    done, whole = line["iterations"], line["total_iterations"]
    facts |= {"state": line["state"]}
    facts |= {"iterations": f"{done:,}" if whole is None else f"{done:,} of {whole:,}"}
    if line["reason"] is not None:
        since = "" if line["waiting_s"] is None else f", since {line['waiting_s']:.1f} s"
        facts |= {"waits": f"{line['reason']['text']}{since}"}
    return facts


def service_facts(status: dict[str, Any]) -> dict[str, Any]:
    """What is said of a service, by its status: of jobs those that are not over."""
    service = status["service"]
    jobs = [job for job in status["jobs"] if job["state"] not in residency.OVER]
    states = [job["state"] for job in jobs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    pool = status["pool"]
    facts = {"pid": service["pid"], "device": service["device"], "policy": service["policy"]}
    facts |= {"pool": f"{pool['free_bytes'] >> 20:,} of {pool['capacity_bytes'] >> 20:,} MiB free"}
    facts |= {"jobs": counts or "none"}
    facts |= {"iterations": f"{sum(job['iterations'] for job in jobs):,}"}
    return facts | {"wait": sum(job["reason"] is not None for job in jobs)}
