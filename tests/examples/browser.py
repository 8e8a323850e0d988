"""A page in headless Chromium, driven by the DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
]
SIZE = {"width": 1000, "height": 640, "deviceScaleFactor": 1, "mobile": False}


class Page:
    """One open page. Its mouse moves in the page's own coordinates."""

    def __init__(self, write: int, read: int, folder: Path) -> None:
        self._write, self._read = os.fdopen(write, "wb"), os.fdopen(read, "rb")
        self._count, self._rest = 0, b""
        self._events: list[dict[str, Any]] = []  # that nobody waited for
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        downloads = {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": True}
        self.call("Browser.setDownloadBehavior", **downloads)
        self._session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", **SIZE)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; raises RuntimeError on an error."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        return self._wait(lambda told: told.get("id") == self._count)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        options = {"awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """The first true value of an expression, looked at once a frame, on the page that a link
        or a form may lead to."""
        look = (
            "new Promise((found) => { const look = () => { let value;"
            f"try {{ value = {expression}; }} catch {{}}"
            "value ? found(value) : requestAnimationFrame(look); }; look(); })"
        )
        while True:
            try:
                return self.evaluate(look)
            except RuntimeError as error:
                if "navigated" not in str(error):
                    raise

    def drag(self, points: Sequence[tuple[float, float]]) -> None:
        """Press the mouse at the first point, move it along the others and let go at the last."""
        self._mouse("mousePressed", points[0])
        for point in points[1:]:
            self._mouse("mouseMoved", point)
        self._mouse("mouseReleased", points[-1])

    def click(self, selector: str) -> None:
        box = self.evaluate(
            f"(() => {{ const b = {selector}.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.drag([tuple(box)])

    def wait_for_download(self) -> str:
        """The name of the file that the page gave, once it is whole."""
        begun = self._wait(lambda told: told.get("method") == "Browser.downloadWillBegin")
        self._wait(
            lambda told: (
                told.get("method") == "Browser.downloadProgress"
                and told["params"]["state"] == "completed"
            )
        )
        return str(begun["suggestedFilename"])

    def screenshot(self) -> bytes:
        """The page as a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def _mouse(self, kind: str, point: tuple[float, float]) -> None:
        x, y = point
        buttons = 0 if kind == "mouseReleased" else 1
        common = {"button": "left", "buttons": buttons, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **common)

    def _wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        told = next(filter(wanted, self._events), None)
        while told is None:
            message = self._receive()
            self._events.append(message)
            told = message if wanted(message) else None
        self._events.remove(told)
        if "error" in told:
            raise RuntimeError(told["error"]["message"])
        return dict(told.get("result", told.get("params", {})))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._read.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A page in a browser of its own; what it saves goes to `folder`. Skips without Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    command = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'  # the numbers that Chromium knows
    flags = [*FLAGS, f"--user-data-dir={folder / 'profile'}"]
    browser = subprocess.Popen(
        ["bash", "-c", command, "bash", program, *flags, "about:blank"],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    page = Page(from_us, to_us, folder)
    try:
        yield page
    finally:
        page._session = None
        page.call("Browser.close")
        browser.wait()
        page._write.close()
        page._read.close()


@contextmanager
def served(folder: Path, handler: Any) -> Iterator[str]:
    """The address of a folder that is served to this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
