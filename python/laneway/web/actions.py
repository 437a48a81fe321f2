"""What a page may ask the service to do: POST /api/VERB with a JSON object. Each request has a
connection of its own, as `laneway VERB` has, so one that waits keeps nobody else waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneway.errors import InvalidInput
from laneway.jobs.control import job_ref, scheduling
from laneway.jobs.service import Service, connect, parse_bytes
from laneway.web import limits

Document = dict[str, Any]


class BadRequest(Exception):
    """The request itself is wrong; the sentence says how."""


def act(verb: str, given: Any, address: str | None) -> Document:
    """Does it and returns the answer. Raises BadRequest, and errors.Error for what the service says
    to it."""
    check, do = VERBS[verb]
    wanted = check(given)
    with connect(address, timeout=limits.CONNECT_S) as service:
        return do(service, **wanted)


def _fields(given: Any, *names: str) -> Document:
    """The object with exactly these fields."""
    if not isinstance(given, dict) or set(given) != set(names):
        has = sorted(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise BadRequest(f"the body must be an object with {', '.join(names)}; it has {has}")
    return given


def _ref(given: Any) -> str:
    """As the command line has it: a number, or decimal digits, is an id; another text is a name."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return job_ref.text_of(given)
    if isinstance(given, str) and given and "\0" not in given:
        return job_ref.text_of(given)
    raise BadRequest(
        f"job = {given!r}: give its number, above 0, or its name; 'name:7' is the job named 7"
    )


def _of_job(given: Any) -> Document:
    return {"job": _ref(_fields(given, "job")["job"])}


def _of_set(given: Any) -> Document:
    if not isinstance(given, dict) or "job" not in given:
        raise BadRequest("the body must be an object with job and what is set, such as weight")
    settings = {key: value for key, value in given.items() if key != "job"}
    try:
        scheduling.changed(scheduling.UNSAID, settings)
    except (InvalidInput, TypeError, OverflowError) as error:
        raise BadRequest(str(error)) from None
    return {"job": _ref(given["job"]), "settings": settings}


def _of_policy(given: Any) -> Document:
    policy = _fields(given, "policy")["policy"]
    if not isinstance(policy, str) or not policy or "\0" in policy:
        raise BadRequest(f"policy = {policy!r}: give NAME[:key=value…]")
    return {"policy": policy}


def _of_pool(given: Any) -> Document:
    size = _fields(given, "size")["size"]
    try:
        return {"size": parse_bytes(size)}
    except (InvalidInput, OverflowError) as error:
        raise BadRequest(f"size: {error}") from None


def _command(verb: str) -> Callable[..., Document]:
    def do(service: Service, job: str) -> Document:
        service.command(verb, job)
        return {"done": verb}

    return do


def _load(service: Service, job: str) -> Document:
    service.load(job, timeout=limits.ACTION_S)
    return {"done": "load"}


def _unload(service: Service, job: str) -> Document:
    service.unload(job, timeout=limits.ACTION_S)
    return {"done": "unload"}


def _set(service: Service, job: str, settings: Document) -> Document:
    service.set(job, **settings)
    return {"done": "set"}


def _policy(service: Service, policy: str) -> Document:
    service.command("policy", policy)
    return {"done": "policy"}


def _pool(service: Service, size: int) -> Document:
    service.resize_pool(size, timeout=limits.ACTION_S)
    return {"done": "pool", "pool_bytes": service.status()["pool"]["capacity_bytes"]}


# By verb: what checks the body, and what does it.
VERBS: dict[str, tuple[Callable[[Any], Document], Callable[..., Document]]] = {
    "kill": (_of_job, _command("kill")),
    "release": (_of_job, _command("release")),
    "pin": (_of_job, _command("pin")),
    "unpin": (_of_job, _command("unpin")),
    "load": (_of_job, _load),
    "unload": (_of_job, _unload),
    "set": (_of_set, _set),
    "policy": (_of_policy, _policy),
    "pool": (_of_pool, _pool),
}
