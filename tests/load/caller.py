"""One client of a soak: asks, reads whole, watches, leaves in the middle, sends
what is no request; and says what it was answered."""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import struct
import threading
import time

from asks import CODE, Answer, Ask, streamed_answer, whole_answer
from figures import Tally

DEEDS = {"whole": 30, "stream": 35, "watch": 8, "leave": 15, "leave early": 6,
         "tear": 3, "wrong": 3}
RESET = struct.pack("ii", 1, 0)  # closes without a farewell
TIMEOUT = 300
WRONG = [(400, {"prompt": "x", "temperature": "cold"}),
         (400, {"prompt": [5000]}), (404, {"prompt": "x", "model": "another"}),
         (400, {"prompt": "x", "max_tokens": 10**6}),
         (400, {"prompt": "x", "guided_regex": "("}), (400, {})]


class Caller:
    """Of one thread, with a connection that it keeps while it can."""

    def __init__(self, port: int, asks: list[Ask], rights: list[Answer],
                 tally: Tally, lock: threading.Lock):
        self.port, self.asks, self.rights = port, asks, rights
        self.tally, self.lock = tally, lock
        self.connection = None

    def close(self) -> None:
        if self.connection:
            self.connection.close()
        self.connection = None

    def act(self, draw: random.Random) -> None:
        deed = draw.choices(list(DEEDS), list(DEEDS.values()))[0]
        number = draw.randrange(len(self.asks))
        ask = self.asks[number]
        if deed == "watch" and not ask.can_be_watched:
            deed = "stream"
        with self.lock:
            self.tally.deeds[deed] = self.tally.deeds.get(deed, 0) + 1
        if deed in ("whole", "stream", "watch"):
            self.read(deed, ask, self.rights[number])
        elif deed == "wrong":
            status, body = draw.choice(WRONG)
            got, text = self._post("/v1/completions", body)
            if got != status:
                self._wrong(f"{got} in place of {status}: {text[:200]}")
        else:
            self._leave(deed, ask, draw)
        if draw.random() < 0.1:
            self.close()

    def _wrong(self, what: str) -> None:
        with self.lock:
            self.tally.wrong.append(what)

    def _post(self, path: str, body: dict) -> tuple[int, str]:
        data = json.dumps(body).encode()
        while True:
            fresh = self.connection is None
            if fresh:
                self.connection = http.client.HTTPConnection(
                    "127.0.0.1", self.port, timeout=TIMEOUT)
            try:
                self.connection.request("POST", path, data)
                answer = self.connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                # One that has been idle for long may be at its end.
                self.close()
                if fresh:
                    raise
                continue
            text = answer.read().decode()
            with self.lock:
                statuses = self.tally.statuses
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
            return answer.status, text

    def read(self, deed: str, ask: Ask, right: Answer) -> None:
        body = dict(ask.body)
        if deed != "whole":
            body["stream"] = True
            if ask.path.endswith("completions"):
                body["stream_options"] = {"include_usage": True}
        if deed == "watch":
            body["winnow"] = {"picks": True}
        status, text = self._post(ask.path, body)
        if status == 429:  # as it should be where it is full
            time.sleep(0.05)
            return
        picks = []
        if status != 200:
            answer = f"{status} {text[:300]}"
        elif deed == "whole":
            answer = whole_answer(ask.path, text)
        else:
            answer, picks = streamed_answer(ask.path, text, len(right.texts))
        with self.lock:
            if status == 200:
                self.tally.answered += ask.num_sequences
                self.tally.answered_tokens += right.num_tokens
        if deed != "whole" and not isinstance(answer, str):
            # Events of several answers come in any order.
            same = sorted(answer.logprobs) == sorted(right.logprobs)
            answer.logprobs = right.logprobs if same else answer.logprobs
        if answer != right:
            self._wrong(f"{deed} {ask.kind} {ask.path} {ask.body.get('select')}:"
                        f" {answer}, alone {right}")
        elif deed == "watch" and len(picks) != right.num_tokens:
            self._wrong(f"{len(picks)} picks of {right.num_tokens} tokens")
        elif ask.kind == "grammar" and not re.fullmatch(CODE, answer.texts[0]):
            self._wrong(f"not of the grammar: {answer.texts[0]}")

    def _leave(self, deed: str, ask: Ask, draw: random.Random) -> None:
        with self.lock:
            self.tally.left_requests += 1
            self.tally.left += ask.num_sequences
        body = {**ask.body, "stream": draw.random() < 0.7}
        data = json.dumps(body).encode()
        head = (f"POST {ask.path} HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(data)}\r\n\r\n").encode()
        sent = head + data
        if deed == "tear":
            sent = sent[:draw.randrange(1, len(sent))]
        client = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
        client.sendall(sent)
        if deed == "leave":
            left = draw.randrange(1, 4000)
            while left > 0:
                piece = client.recv(min(left, 500))
                if not piece:
                    break
                left -= len(piece)
                if piece.endswith(b"0\r\n\r\n"):
                    break  # All is told.
        else:
            time.sleep(draw.random() * 0.3)
        if draw.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
