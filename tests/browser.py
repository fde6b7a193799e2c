"""A headless Chromium for tests of pages, spoken to through its debugging pipe (``--remote-debugging-pipe``): no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The browser's path; None where none is installed."""
SECONDS = 20.0


class Page:
    """One tab of a headless browser."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read, self.rest, self.number = write, read, b"", 0
        self.session: str | None = None
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """A command of the protocol, and its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                data = os.read(self.read, 1 << 16)
                assert data, "the browser has ended"
                self.rest += data
            one, _, self.rest = self.rest.partition(b"\0")
            found = json.loads(one)
            if found.get("id") == self.number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
            if found.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(str(found["params"])[:500])

    def js(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it is."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, str(found["exceptionDetails"])[:800]
        return found["result"].get("value")

    def open(self, url: str) -> float:
        """Go to a page that sets ``document.body.dataset.ready``; gives the seconds until it did."""
        start = time.monotonic()
        self.call("Page.navigate", url=url)
        while not self.js(f"location.href==={json.dumps(url)}&&!!document.body&&!!document.body.dataset.ready"):
            assert time.monotonic() - start < SECONDS, f"{url} is not ready: {self.errors[:3]}"
            time.sleep(0.02)
        return time.monotonic() - start

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A mouse event at a point of the page: "mousePressed", "mouseMoved" or "mouseReleased"."""
        held = kind != "mouseReleased"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(held), clickCount=1)

    def click(self, x: float, y: float) -> None:
        """Press and release the button."""
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def screenshot(self, path: Path) -> None:
        """What the page looks like, as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def page(width: int = 1200, height: int = 720) -> Iterator[Page]:
    """A tab of a browser of its own, which ends with the block."""
    assert CHROMIUM is not None
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="quire-browser-", ignore_cleanup_errors=True) as folder:
        # The pipes' ends are the browser's descriptors 3 and 4; a shell puts them there.
        words = [
            "bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}', CHROMIUM, "--headless=new", "--no-sandbox",
            "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(
            words, pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(to_write, from_read)
        finally:
            process.kill()
            process.wait()
            os.close(to_write)
            os.close(from_read)
