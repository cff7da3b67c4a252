"""Chromium without a screen, driven over a pipe by its DevTools protocol
(https://chromedevtools.github.io/devtools-protocol)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_browser() -> str | None:
    """Debian's, if it is there."""
    return os.environ.get("WINNOW_CHROMIUM") or shutil.which("chromium")


class Browser:
    """One process with one page. Errors of the page's scripts, and what its
    policy refused, are kept in `complaints`."""

    def __init__(self, width: int = 1360, height: int = 900):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.commands = os.pipe()
        self.events, from_browser = os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", "--disable-gpu",
                 "--no-first-run", "--disable-extensions",
                 "--disable-background-networking", "--disable-dev-shm-usage",
                 "--hide-scrollbars", f"--user-data-dir={self.profile.name}",
                 f"--window-size={width},{height}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium refuses root with it.

        def place_pipes():  # where Chromium looks for them: 3 and 4
            # Out of the way first, as either may be what the other becomes.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10)
                    for end in (to_browser, from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [find_browser(), *flags, "about:blank"], close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place_pipes)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.session = b"", 0, None
        self.complaints = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"]
                      if t["type"] == "page")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.events)
        self.profile.cleanup()

    def _receive(self, end: float) -> dict:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.events], [], [],
                                        max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError("the browser says nothing")
            data = os.read(self.events, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self.rest += data
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message: dict):
        given = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded":
            entry = given["entry"]
            if entry["level"] == "error" and entry["source"] != "network":
                self.complaints.append(entry["text"])

    def call(self, method: str, **given) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while True:
            answer = self._receive(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(self, url: str):
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, script: str):
        """Its value, as JSON has it; promises are waited for."""
        done = self.call("Runtime.evaluate", expression=script,
                         awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait_for(self, script: str, seconds: float = 60):
        end = time.monotonic() + seconds
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}")
            time.sleep(0.05)

    def text(self, selector: str) -> str:
        return self.evaluate(
            f"document.querySelector({json.dumps(selector)}).textContent")

    def type(self, selector: str, text: str):
        """In place of what a field holds, key by key as a person's keyboard."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus();"
                      f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def click(self, selector: str):
        """With the mouse, at its middle."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y,
                      button="left", clickCount=1)

    def hover(self, selector: str):
        x, y = self.evaluate(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot",
                                          format="png")["data"])
