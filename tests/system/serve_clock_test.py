#!/usr/bin/env python3
"""A wall clock that jumps while a server runs moves no deadline, no timeout and
no figure: only what says the time of day.

    serve_clock_test.py PATH_TO_WINNOW PATH_TO_JUMPING_CLOCK
"""

from __future__ import annotations

import http.client
import json
import mmap
import re
import struct
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from serve_process import Server, wait_until

WINNOW = ""
JUMPING_CLOCK = ""
HOUR_S = 3600
# There, back, and to before the server began.
JUMPS_S = [10 * HOUR_S, 0, -20 * HOUR_S, 5, 0]
# Far more than a test takes, and far less than a jump.
LONG_S = 600


class Clock:
    """How far off the server's time of day is."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 8)

    def jump(self, seconds: int):
        self.bytes[:] = struct.pack("=q", seconds)


class ClockTest(unittest.TestCase):

    def setUp(self):
        if re.search(rb"__[at]san_init", Path(WINNOW).read_bytes()):
            self.skipTest("a sanitizer wants to be loaded first")
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "offset"
        self.clock = Clock(path)
        self.server = Server(
            WINNOW, "--log-format", "json", "--request-timeout", "60",
            "--kv-disk", str(Path(self.folder.name) / "kv"),
            "--kv-disk-size", "64MiB", LD_PRELOAD=JUMPING_CLOCK,
            WINNOW_CLOCK_OFFSET=str(path))

    def tearDown(self):
        self.clock.jump(HOUR_S)  # Its end waits for nothing either.
        self.assertEqual(self.server.end(), 0)
        self.folder.cleanup()

    def jump_until(self, ended: threading.Event) -> int:
        num_jumps = 0
        while not ended.wait(0.02):
            self.clock.jump(JUMPS_S[num_jumps % len(JUMPS_S)])
            num_jumps += 1
        return num_jumps

    def while_it_jumps(self, work):
        """What `work` returns, with a clock that jumps fifty times a second."""
        ended, told = threading.Event(), []

        def run():
            try:
                told.append(work())
            finally:
                ended.set()

        worker = threading.Thread(target=run)
        worker.start()
        self.assertGreater(self.jump_until(ended), 3)
        worker.join()
        self.assertTrue(told, "it failed: see above")
        return told[0]

    def test_it_is_the_servers_clock(self):
        self.clock.jump(-20 * HOUR_S)
        created = self.server.complete(prompt="the man",
                                       max_tokens=1)["created"]
        self.assertAlmostEqual(created, time.time() - 20 * HOUR_S, delta=LONG_S)

    def test_deadlines_do_not_move(self):
        body = {"prompt": "the man", "max_tokens": 4000, "ignore_eos": True,
                "timeout": 0.5}

        def ask():
            began = time.monotonic()
            status, _, text = self.server.ask("POST", "/v1/completions", body)
            return status, text, time.monotonic() - began

        status, text, seconds = self.while_it_jumps(ask)
        self.assertEqual(status, 504, text)
        self.assertGreaterEqual(seconds, 0.5)
        # And whoever has time gets all of it.
        body.update(timeout=50, max_tokens=2000)
        status, text, _ = self.while_it_jumps(ask)
        self.assertEqual(status, 200, text)
        self.assertEqual(json.loads(text)["usage"]["completion_tokens"], 2000)

    def test_a_connection_is_not_cut_off(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port,
                                                timeout=60)
        for seconds in JUMPS_S:
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(),
                             b'{"status":"ok"}')
            socket = connection.sock
            self.clock.jump(seconds)
            time.sleep(0.1)
            self.assertIs(connection.sock, socket)
        connection.close()
        # Nor one within a request.
        with self.server.connect() as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
            for seconds in JUMPS_S:
                self.clock.jump(seconds)
                time.sleep(0.05)
            client.sendall(b"\r\n")
            self.assertTrue(client.recv(64).startswith(b"HTTP/1.1 200 "))

    def test_figures_do_not_move(self):
        began = time.monotonic()

        def ask():
            for _ in range(5):
                self.server.complete(prompt="the man and the dog " * 20,
                                     max_tokens=60, ignore_eos=True)

        self.while_it_jumps(ask)
        elapsed = time.monotonic() - began
        text = self.server.ask("GET", "/metrics")[2]
        sums = {name: float(value) for name, value in re.findall(
            r"(?m)^([\w:]+_seconds_sum)\{[^}]*\} (\S+)$", text)}
        for name in ["vllm:time_to_first_token_seconds_sum",
                     "vllm:e2e_request_latency_seconds_sum",
                     "vllm:inter_token_latency_seconds_sum"]:
            self.assertGreater(sums[name], 0, name)
        for name, seconds in sums.items():
            self.assertGreaterEqual(seconds, 0, name)
            self.assertLessEqual(seconds, 5 * elapsed + 1, name)
        self.assertGreaterEqual(self.server.metric(
            "vllm:kv_cache_usage_perc"), 0)
        wait_until(lambda: len(self.request_lines()) >= 6, "a line a request")
        for line in self.request_lines():
            times = {name: line[name] for name in line if name.endswith("_ms")}
            self.assertIn("total_ms", times)
            for name, ms in times.items():
                self.assertGreaterEqual(ms, 0, line)
                self.assertLessEqual(ms, 1000 * elapsed + 1000, line)

    def request_lines(self) -> list[dict]:
        return [json.loads(line) for line in list(self.server.lines)
                if line.startswith("{") and '"request"' in line]


if __name__ == "__main__":
    WINNOW, JUMPING_CLOCK = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
