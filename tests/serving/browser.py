"""A headless Chromium, led over its DevTools pipe: messages are JSON, each ended by a zero byte."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",  # Chromium refuses to run as root with one
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)


class Browser:
    """One page. What it logs and what it refuses by its policy is kept in `complaints`."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._held, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[tuple[str, str]] = []  # addresses and bodies
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a command; events meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while (reply := self._next()).get("id") != self._number:
            self._note(reply)
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            data = os.read(self._read, 1 << 16)
            assert data, "the browser has ended"
            self._held += data
        message, _, self._held = self._held.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Network.requestWillBeSent":
            asked = params["request"]
            self.requests.append((asked["url"], asked.get("postData", "")))

    def run(self, script: str) -> Any:
        """What an expression of the page's gives; a promise is awaited."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until an expression of the page's is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"it never came to hold: {condition}"
            time.sleep(0.02)

    def open(self, url: str) -> None:
        """Go to a page and wait until its script has run."""
        self.call("Page.navigate", url=url)
        self.until(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def press(self, key: str, modifiers: int = 0) -> None:
        """One key, as from a keyboard."""
        text = {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "Tab": 9, " ": 32}
        fields = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **fields, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def write(self, text: str) -> None:
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """The window's size and the reader's preference of colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> Path:
        """A screenshot as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
        return path


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser of its own until the end of the context, with its files in a folder."""
    assert CHROMIUM is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # Chromium reads commands from descriptor 3 and writes to 4.
    start = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    command = ["bash", "-c", start, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"]
    with subprocess.Popen(
        command, pass_fds=(to_read, from_write), stderr=subprocess.DEVNULL
    ) as process:
        os.close(to_read)
        os.close(from_write)
        try:
            made = Browser(to_write, from_read)
            yield made
            made._session = ""
            with suppress(AssertionError, OSError):
                made.call("Browser.close")
        finally:
            os.close(to_write)
            os.close(from_read)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
