"""A `winnow serve` process, and how tests ask it."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import own_cache  # noqa: F401
from sanitized import allowed_seconds

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = str(ROOT / "lab/models/winnow-lab")


class Server:
    """One process, on a port that was free. What it says on standard error
    after its address is kept in `lines` as it comes."""

    program = ""  # of the last one; all of a test's are the same

    def __init__(self, winnow: str, *flags: str, model: str = MODEL,
                 port: int = 0, popen: dict | None = None, **environment: str):
        Server.program = winnow
        usual = {"--max-model-len": "4K", "--dtype": "float32", "--threads": "2"}
        self.process = subprocess.Popen(
            [winnow, "serve", model, "--port", str(port), *flags,
             *(word for pair in usual.items() if pair[0] not in flags
               for word in pair)],
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment}, **(popen or {}))
        atexit.register(self.process.kill)
        self.lines = []
        self.port = None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r" at http://127\.0\.0\.1:(\d+) ", line)
            if found:
                self.port = int(found[1])
                break
        if self.port is None:
            raise AssertionError("no address: " + "".join(self.lines))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def ask(self, method: str, path: str, body=None, headers=None):
        """(status, headers, text); bytes are sent as they are."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=allowed_seconds(self.program, 60))
        data = body if body is None or isinstance(body, bytes) else (
            json.dumps(body).encode())
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def complete(self, expected=200, path="/v1/completions", **body):
        status, _, text = self.ask("POST", path, {"temperature": 0, **body})
        if status != expected:
            raise AssertionError(f"{status}, not {expected}: {text}")
        return json.loads(text)

    def stream(self, path="/v1/completions", **body) -> list:
        """Its events, [DONE] checked and left out."""
        status, headers, text = self.ask(
            "POST", path, {"temperature": 0, "stream": True, **body})
        assert status == 200, text
        assert headers["Content-Type"] == "text/event-stream", headers
        events = [event for event in text.split("\n\n")
                  if event and event != ": ping"]
        assert all(event.startswith("data: ") for event in events), text
        assert events[-1] == "data: [DONE]", events[-1]
        return [json.loads(event[6:]) for event in events[:-1]]

    def metric(self, name: str, labels: str = "") -> float:
        text = self.ask("GET", "/metrics")[2]
        found = re.search(rf"(?m)^{name}{{[^}}]*{labels}[^}}]*}} (\S+)$", text)
        assert found, name
        return float(found[1])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def open_stream(self, **body) -> socket.socket:
        """A connection on which a stream has begun."""
        data = json.dumps({"temperature": 0, "stream": True, **body}).encode()
        client = self.connect()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Length: %d\r\n\r\n" % len(data) + data)
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        return client

    def end(self, *signals: int) -> int:
        for number in signals or [signal.SIGTERM]:
            self.process.send_signal(number)
            time.sleep(0.05)
        return self.wait()

    def wait(self) -> int:
        status = self.process.wait(allowed_seconds(self.program, 60))
        self.reader.join(10)
        self.process.stderr.close()
        return status


def wait_until(holds, what: str, seconds: float = 30):
    seconds = allowed_seconds(Server.program, seconds)
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)
