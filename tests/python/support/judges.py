"""Programs that judge the page and the metrics from outside: promtool and a headless Chromium. They
are on the PATH, or were unpacked by tools/fetch_judges.sh, which installs nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.daemon import wait_until

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "laneway" / "judges"


def _found(*names: str) -> str | None:
    for name in names:
        if found := shutil.which(name):
            return found
        for folder in ("usr/bin", "usr/lib/chromium"):
            path = _CACHE / "root" / folder / name
            if path.exists() and path.read_bytes()[:4] == b"\x7fELF":
                return str(path)
    return None


PROMTOOL = _found("promtool")
CHROMIUM = _found("chromium-headless-shell", "chromium")
_HINT = "tools/fetch_judges.sh unpacks it"
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=f"no promtool here; {_HINT}")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason=f"no Chromium here; {_HINT}")


def promtool(*words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(PROMTOOL), *words], input=given, capture_output=True, timeout=120, check=False
    )


class Browser:
    """A headless Chromium with one page, spoken to by the DevTools protocol. Notes every request,
    exception and error of the console. A context manager."""

    def __init__(self, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        self._size, self._dark = (width, height), dark
        self._number = 0
        self.requests: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Browser:
        import websocket

        self._folder = Path(tempfile.mkdtemp(prefix="lw-chromium-"))
        libraries = _CACHE / "root/usr/lib/x86_64-linux-gnu"
        paths = f"{libraries}:{libraries}/pulseaudio"
        self._process = subprocess.Popen(
            [
                *(str(CHROMIUM), "--headless", "--no-sandbox", "--no-proxy-server"),
                *("--disable-gpu", "--remote-debugging-port=0", "--remote-allow-origins=*"),
                *(f"--user-data-dir={self._folder}", "about:blank"),
            ],
            env=os.environ | {"LD_LIBRARY_PATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port_file = self._folder / "DevToolsActivePort"
        wait_until(lambda: port_file.exists() and port_file.read_text().strip(), "Chromium")
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [page for page in json.load(answer) if page["type"] == "page"]
        self._socket = websocket.create_connection(pages[0]["webSocketDebuggerUrl"], timeout=120)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        width, height = self._size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(json.dumps(params["entry"]))

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression; of a promise, what it becomes."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        return wait_until(lambda: self.value(expression), expression)

    def press(self, *keys: str) -> None:
        for key in keys:
            text = {"Enter": "\r", "Space": " "}.get(key, "")
            name = " " if key == "Space" else key
            codes = {"Enter": 13, "Tab": 9, "Space": 32, "Escape": 27}
            facts = {"key": name, "windowsVirtualKeyCode": codes[key]}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
            self.call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def screenshot(self) -> bytes:
        import base64

        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def axe(self) -> Sequence[str]:
        """What axe finds wrong with the page: rule and element of each violation."""
        import axe_core_python

        script = next(Path(axe_core_python.__file__).parent.rglob("axe.min.js"))
        self.call("Runtime.evaluate", expression=script.read_text())
        found = self.value("axe.run().then((r) => JSON.stringify(r.violations))")
        return [f"{v['id']}: {n['html']}" for v in json.loads(found) for n in v["nodes"]]
