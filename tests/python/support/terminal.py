"""The command line `laneway` on a terminal of the test's own."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_DEADLINE_S = 120.0
_COLOUR = re.compile(r"\x1b\[\d*m")


class OnTerminal:
    """A running `laneway WORDS` whose output is a terminal of so many columns; `errors_only`: whose
    standard error is, and not its output, which is lost."""

    def __init__(
        self,
        *words: str,
        columns: int = 80,
        rows: int = 60,
        errors_only: bool = False,
        **environment: str,
    ) -> None:
        self._own, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (rows, columns))
        paths = os.pathsep.join([str(_ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        known |= {"PYTHONPATH": paths, "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "laneway.cli", *words],
            stdin=terminal,
            stdout=subprocess.DEVNULL if errors_only else terminal,
            stderr=terminal,
            env=known | environment,
            start_new_session=True,
        )
        os.close(terminal)
        self.text = ""
        # A read may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)

    def until(self, text: str) -> None:
        """Reads until the text was written, after what was read before."""
        begun, end = len(self.text), time.monotonic() + _DEADLINE_S
        while text not in self.text[begun:]:
            assert time.monotonic() < end, f"{text!r} did not come: {self.text[-2000:]!r}"
            assert self._read(), f"it ended without {text!r}: {self.text!r}"

    def rest(self) -> int:
        """Reads to the end, and returns the exit code."""
        while self._read():
            pass
        return self.process.wait(_DEADLINE_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._own], [], [], _DEADLINE_S)
        assert ready, f"nothing more came after {self.text!r}"
        try:
            read = os.read(self._own, 1 << 16)
        except OSError:  # nobody has the terminal open any more
            return False
        self.text = (self.text + self._decoder.decode(read)).replace("\r\n", "\n")
        return bool(read)


def shown(*words: str, columns: int = 80, **environment: str) -> list[str]:
    """The lines that a finished `laneway WORDS` has written, which ended with 0; with colours."""
    with OnTerminal(*words, columns=columns, **environment) as running:
        assert running.rest() == 0, running.text
        return running.text.splitlines()


def plain(text: str) -> str:
    """The text without colours."""
    return _COLOUR.sub("", text)
