"""Where a program listens (`laneway web`, `laneway serve`), and with which token."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import secrets
import socket
import stat
from pathlib import Path

from laneway.errors import InvalidInput, Refused
from laneway.web import limits


@dataclasses.dataclass(frozen=True)
class Place:
    """A host with a port (0: one is chosen), or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def loopback(self) -> bool:
        """Whether only this machine's programs reach it."""
        if self.path or self.host == "localhost":
            return True
        address = _address(self.host)
        return address is not None and address.is_loopback

    def netloc(self) -> str:
        """HOST:PORT as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(text: str, option: str = "--listen") -> Place:
    """HOST:PORT, [IPV6]:PORT or unix:PATH. Raises InvalidInput."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise InvalidInput(f"{option} unix: has no path: give unix:PATH")
        return Place(path=os.path.abspath(path))
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/?#@\s]+)):(\d{1,5})", text)
    if match is None or int(match.group(3)) > 65535:
        raise InvalidInput(
            f"{option} {text!r} is no place: give HOST:PORT, [IPV6]:PORT or unix:PATH; port 0 "
            "chooses one"
        )
    return Place(host=match.group(1) or match.group(2), port=int(match.group(3)))


def token_of(place: Place, file: str | None) -> str:
    """The token of the file, or a new one. Raises InvalidInput as check_reach and token_in do."""
    check_reach(place, file, "--listen", "--token-file")
    return secrets.token_urlsafe(24) if file is None else token_in(file, "--token-file")


def check_reach(place: Place, file: str | None, listen: str, option: str) -> None:
    """Raises InvalidInput for a place that others reach without a file of a token."""
    if file is None and not place.loopback:
        raise InvalidInput(
            f"{listen} {place.netloc()} can be reached from other machines: give {option} FILE, or "
            "listen on 127.0.0.1 and reach it through ssh -L"
        )


def token_in(file: str, option: str) -> str:
    """The token of the file. Raises InvalidInput for a file that others may read, or whose content
    is no token."""
    try:
        with open(file, encoding="ascii") as opened:
            facts = os.fstat(opened.fileno())
            text = opened.read(limits.TOKEN_CHARACTERS[1] + 2).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{option} {file}: {error}") from None
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in (0, os.geteuid()):
        raise InvalidInput(f"{option} {file}: it must be a file of your own, or of root")
    if facts.st_mode & 0o077:
        mode = stat.S_IMODE(facts.st_mode)
        raise InvalidInput(
            f"{option} {file}: others may read or write it (mode {mode:04o}); chmod 600 {file}"
        )
    least, most = limits.TOKEN_CHARACTERS
    if not least <= len(text) <= most or not re.fullmatch(r"[A-Za-z0-9._~-]+", text):
        raise InvalidInput(
            f"{option} {file}: a token has {least} to {most} letters, digits or any of ._~- ; "
            'write one with: python3 -c "import secrets; print(secrets.token_urlsafe(24))"'
        )
    return text


def opened(place: Place) -> tuple[socket.socket, Place]:
    """A listening socket, and the place with the port that it has. Raises Refused when somebody
    else has the place, or it cannot be had."""
    try:
        if place.path:
            return _unix(place.path), place
        family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        listening = socket.create_server((place.host, place.port), family=family, backlog=128)
    except OSError as error:
        where = place.path or place.netloc()
        raise Refused(f"cannot listen on {where}: {error.strerror or error}") from None
    return listening, dataclasses.replace(place, port=listening.getsockname()[1])


def _unix(path: str) -> socket.socket:
    """A socket that only this user may connect to. A dead one at the path is replaced."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode) and not _answers(path):
                os.unlink(path)
        except FileNotFoundError:
            pass
        old = os.umask(0o177)
        try:
            listening.bind(path)
        finally:
            os.umask(old)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            return False
        return True


def forget(place: Place) -> None:
    """Removes what opened() left in the file system."""
    if place.path:
        Path(place.path).unlink(missing_ok=True)


def hosts_of(place: Place) -> frozenset[str] | None:
    """The values of Host that name this place; None: see known_host."""
    if place.path or not place.loopback:
        return None
    names = {"localhost", "127.0.0.1", "[::1]", Place(place.host).netloc()[:-2]}
    full = {f"{name}:{place.port}" for name in names}
    return frozenset(full | (names if place.port == 80 else set()))


def known_host(place: Place, host: str, hosts: frozenset[str] | None) -> bool:
    """Whether a Host means this place. A page of somebody else reaches it only under a name of his
    own (DNS rebinding), never under an address, this machine's name or localhost."""
    if hosts is not None:
        return host in hosts
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+))(?::(\d{1,5}))?", host)
    if match is None:
        return False
    name = (match.group(1) or match.group(2)).lower()
    if place.path:  # forwarded by ssh or curl --unix-socket
        return name == "localhost" or (_address(name) is not None)
    if int(match.group(3) or 80) != place.port:
        return False
    return _address(name) is not None or name in {
        "localhost",
        place.host.lower(),
        socket.gethostname().lower(),
    }


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
