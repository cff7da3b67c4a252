#!/usr/bin/env python3
"""Whose pages a browser lets ask a server (CORS).

    serve_origins_test.py PATH_TO_WINNOW
"""

from __future__ import annotations

import subprocess
import sys
import unittest

from serve_process import MODEL, Server

WINNOW = ""
PAGE, OTHER = "https://chat.example", "https://evil.example"
ALLOWED = "Access-Control-Allow-Origin"
ASKS_FIRST = {"Access-Control-Request-Method": "POST",
              "Access-Control-Request-Headers": "authorization,content-type"}


class OriginsTest(unittest.TestCase):

    def test_none_unless_it_is_said(self):
        server = Server(WINNOW)
        for method, status in [("GET", 200), ("OPTIONS", 405)]:
            got, headers, _ = server.ask(method, "/v1/models",
                                         headers={"Origin": PAGE, **ASKS_FIRST})
            self.assertEqual(got, status)
            self.assertNotIn(ALLOWED, headers)
        self.assertEqual(server.end(), 0)

    def test_pages_of_those_that_are_named(self):
        server = Server(WINNOW, "--allowed-origins", f'["{PAGE}"]',
                        "--api-key", "secret")
        key = {"Authorization": "Bearer secret"}
        prompt = {"prompt": [5, 6, 7], "max_tokens": 2}
        for path, body, sent, status in [
                ("/v1/models", None, key, 200), ("/v1/models", None, {}, 401),
                ("/nowhere", None, key, 404),
                ("/v1/completions", prompt, key, 200),
                ("/v1/completions", {**prompt, "stream": True}, key, 200),
                ("/v1/completions", {}, key, 400)]:
            for origin in (PAGE, OTHER):
                method = "GET" if body is None else "POST"
                got, headers, text = server.ask(method, path, body,
                                                {**sent, "Origin": origin})
                is_refused = method == "POST" and origin == OTHER
                self.assertEqual(got, 403 if is_refused else status, text)
                self.assertEqual("--allowed-origins" in text, is_refused)
                self.assertEqual(headers[ALLOWED],
                                 PAGE if origin == PAGE else None)
                self.assertNotIn("Access-Control-Allow-Credentials", headers)
        # A browser asks first, without the key.
        got, headers, text = server.ask("OPTIONS", "/v1/chat/completions",
                                        headers={"Origin": PAGE, **ASKS_FIRST})
        self.assertEqual((got, text, headers[ALLOWED]), (200, "", PAGE))
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        self.assertEqual(headers["Access-Control-Allow-Headers"],
                         "authorization,content-type")
        got, headers, _ = server.ask("OPTIONS", "/v1/chat/completions",
                                     headers={"Origin": OTHER, **ASKS_FIRST})
        self.assertEqual((got, headers[ALLOWED]), (401, None))
        self.assertEqual(server.end(), 0)

    def test_everyones_where_that_is_said(self):
        server = Server(WINNOW, "--allowed-origins", "*")
        prompt = {"prompt": [5, 6, 7], "max_tokens": 2}
        for page in [{"Origin": OTHER}, {"Origin": "null"},
                     {"Sec-Fetch-Site": "cross-site"}]:
            got, headers, text = server.ask("POST", "/v1/completions", prompt,
                                            page)
            self.assertEqual((got, headers[ALLOWED]),
                             (200, page.get("Origin")), text)
        self.assertEqual(server.end(), 0)

    def test_what_is_no_origin_is_refused(self):
        done = subprocess.run(
            [WINNOW, "serve", MODEL, "--allowed-origins", PAGE + "/"],
            text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("an origin without a path", done.stderr)


if __name__ == "__main__":
    WINNOW = sys.argv.pop(1)
    unittest.main()
