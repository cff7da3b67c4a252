#!/usr/bin/env python3
"""A server under random load for a while, held to everything that it says.

    tests/load/soak.py PATH_TO_WINNOW [--minutes 60] [--seed 1] [--json FILE]

Clients ask at random (asks.py), read, watch, leave in the middle or send what
is no request, of a server whose device has room for a few requests alone, so
that they give way to each other. Every answer that is read must be, to the
character, what another server answered when it was asked nothing else
(--batch-invariant). At the end, when nobody asks any more, the counters of
/metrics must add up with each other and with what the clients know, no page of
a pool be held, no descriptor or thread be left, and, from 10 minutes on,
resident memory not have grown by more than 1 % since the warm-up. Status 1 where
anything of that is not so.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import json
import random
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))

from asks import (  # noqa: E402
    SELECTS,
    Answer,
    Ask,
    Crowd,
    make_ask,
    make_crowds,
    whole_answer,
)
from caller import Caller  # noqa: E402
from figures import (  # noqa: E402
    Process,
    Tally,
    answer_faults,
    counter_faults,
    growth_of,
    pool_faults,
    process_faults,
    read_metrics,
    read_process,
    resident_parts,
    sum_of,
    traffic_faults,
)
from serve_process import Server, wait_until  # noqa: E402

TEMPLATE = Path(__file__).resolve().parent / "plain.jinja"
SHARED = ["--threads", "1", "--dtype", "auto", "--batch-invariant", "--select", ",".join(SELECTS),
          "--chat-template", str(TEMPLATE), "--log-level", "warning"]
# 192 pages of 32 tokens; the longest request needs 75. What a step works in is
# taken at start for its most rows and touched by use: of steps of 2,048 rows the
# largest by `retroinfer` came after 9 minutes. Every prompt fills one of 512, so
# the warm-up has seen the largest.
CROWDED = ["--device-kv", "18MiB", "--host-kv", "36MiB", "--max-num-seqs", "10",
           "--max-queued-requests", "8", "--max-num-batched-tokens", "512"]
LEAST_RIGHT = 0.8  # of the tasks, by their own files
WARM_UP = 0.25     # of the time
# Before that memory still grows to what so many requests at once may take.
LEAST_MINUTES_FOR_MEMORY = 10
SAMPLE_S = 2
LINE_S = 60  # a line of progress
CROWD_TIMEOUT_S = 600
PR_SET_THP_DISABLE = 41  # <linux/prctl.h>


def touch_small_pages() -> None:
    """Of this process and those that it starts: the server's pools ask for huge
    pages, where one more segment of summaries (0.3 % of what is resident) counts
    as 2 MiB, which are 1.3 %."""
    if ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        raise OSError("prctl: huge pages cannot be turned off")


def answers_alone(winnow: str, asks: list[Ask]) -> list[Answer]:
    server = Server(winnow, *SHARED)
    answers = []
    for ask in asks:
        status, _, text = server.ask("POST", ask.path, ask.body)
        assert status == 200, (ask.kind, ask.body["select"], text)
        answers.append(whole_answer(ask.path, text))
    assert server.end() == 0
    return answers


def share_right(asks: list[Ask], answers: list[Answer]) -> float:
    rights = [" ".join(answer.texts[0].split()) == ask.answer
              for ask, answer in zip(asks, answers) if ask.answer is not None]
    return sum(rights) / len(rights)


class Soak:
    """One server and its clients, from the first request to the last."""

    def __init__(self, winnow: str, asks: list[Ask], rights: list[Answer],
                 crowds: list[tuple[Crowd, tuple[Answer, Answer]]],
                 arguments: argparse.Namespace):
        self.server = Server(winnow, *SHARED, *CROWDED)
        self.asks, self.rights, self.crowds = asks, rights, crowds
        self.arguments = arguments
        self.tally, self.lock = Tally(), threading.Lock()
        self.until = 0.0
        self.together = threading.Barrier(arguments.clients)
        self.resident: list[int] = []
        self.parts: list[dict[str, int]] = []  # at the warm-up's end, and last
        self.most = collections.Counter()

    def scrape(self) -> dict[str, float]:
        text = self.server.ask("GET", "/metrics")[2]
        with self.lock:  # A scrape does not see itself.
            statuses = self.tally.statuses
            statuses[200] = statuses.get(200, 0) + 1
        return read_metrics(text)

    def act(self, number: int) -> None:
        draw = random.Random(f"{self.arguments.seed}:{number}")
        caller = Caller(self.server.port, self.asks, self.rights, self.tally,
                        self.lock)
        try:
            self.join_crowds(caller, number)
            while time.monotonic() < self.until:
                caller.act(draw)
                time.sleep(draw.random() * 0.1)
        except threading.BrokenBarrierError:
            pass  # Somebody else has told why.
        except Exception as fault:  # noqa: BLE001: a fault is told, not lost
            self.together.abort()
            with self.lock:
                self.tally.wrong.append(f"client {number}: {fault!r}")
        caller.close()

    def join_crowds(self, caller: Caller, number: int) -> None:
        """All clients at once ask by one selector, then by the next. The pool
        of its summaries has room for all requests that may run, each as long as
        one may be, and is touched by those that do: at random so many of one
        selector meet late. The first to ask leaves a prompt to the others, whom
        the device has room for only if they share it."""
        for crowd, (first, then) in self.crowds:
            self.together.wait(CROWD_TIMEOUT_S)
            if number == 0:
                caller.read("whole", crowd.first, first)
            self.together.wait(CROWD_TIMEOUT_S)
            caller.read("whole", crowd.then, then)

    def settle(self, most_descriptors: int = 0) -> tuple[dict[str, float], Process]:
        """When nobody asks any more, and connections have had time to be closed:
        until no more descriptors than given are open, ten seconds at most."""
        metrics: dict[str, float] = {}

        def quiet() -> bool:
            metrics.update(self.scrape())
            return (sum_of(metrics, "vllm:num_requests_running") == 0
                    and sum_of(metrics, "vllm:num_requests_waiting") == 0)

        wait_until(quiet, "nobody runs or waits", 60)
        metrics = self.scrape()
        until = time.monotonic() + 10
        time.sleep(0.5)
        process = read_process(self.server.process.pid)
        while process.descriptors > most_descriptors > 0 and time.monotonic() < until:
            time.sleep(0.1)
            process = read_process(self.server.process.pid)
        return metrics, process

    def watch(self, warm: float) -> None:
        next_line = time.monotonic() + LINE_S
        while time.monotonic() < self.until:
            time.sleep(SAMPLE_S)
            if time.monotonic() >= next_line:
                next_line += LINE_S
                self.tell()
            metrics = self.scrape()
            for name in ("running", "waiting"):
                value = int(metrics[f"vllm:num_requests_{name}"])
                self.most[name] = max(self.most[name], value)
            if time.monotonic() >= warm:
                pid = self.server.process.pid
                self.resident.append(read_process(pid).resident_bytes)
                smaps = Path(f"/proc/{pid}/smaps").read_text()
                self.parts = [*self.parts[:1], resident_parts(smaps)]

    def tell(self) -> None:
        with self.lock:
            answered, wrong = self.tally.answered, len(self.tally.wrong)
        resident = read_process(self.server.process.pid).resident_bytes
        left = max(0, self.until - time.monotonic())
        print(f"soak: {answered} answers compared, {wrong} faults, "
              f"{resident / 2**20:.1f} MiB, {left / 60:.0f} minutes left",
              file=sys.stderr, flush=True)

    def run(self) -> tuple[dict, list[str]]:
        before, process_before = self.settle()
        seconds = 60 * self.arguments.minutes
        begun = time.monotonic()
        self.until = begun + seconds
        clients = [threading.Thread(target=self.act, args=[i])
                   for i in range(self.arguments.clients)]
        for client in clients:
            client.start()
        self.watch(begun + WARM_UP * seconds)
        for client in clients:
            client.join()
        after, process_after = self.settle(process_before.descriptors)
        long = self.arguments.minutes >= LEAST_MINUTES_FOR_MEMORY
        faults = (answer_faults(self.tally)
                  + counter_faults(after, self.tally)
                  + traffic_faults(after)
                  + pool_faults(before, after)
                  + process_faults(process_before, process_after,
                                   self.resident if long else []))
        for name in ("vllm:num_preemptions_total",
                     "vllm:prefix_cache_hits_total",
                     'vllm:request_success_total{finished_reason="abort"}'):
            if after[name] == 0 and self.arguments.minutes >= 1:
                faults.append(f"{name} is 0: too light a load, or a fault")
        status = self.server.end()
        if status != 0:
            faults.append(f"the server ended with {status}")
        return self.figures(after), faults

    def figures(self, metrics: dict[str, float]) -> dict:
        reason = 'vllm:request_success_total{finished_reason="%s"}'
        return {
            "minutes": self.arguments.minutes, "clients": self.arguments.clients,
            "requests": int(metrics["winnow:requests_started_total"]),
            "finished": int(metrics[reason % "stop"]
                            + metrics[reason % "length"]),
            "cancelled": int(metrics[reason % "abort"]),
            "answers_compared": self.tally.answered,
            "wrong": len(self.tally.wrong),
            "generated_tokens": int(metrics["vllm:generation_tokens_total"]),
            "prompt_tokens": int(metrics["vllm:prompt_tokens_total"]),
            "cached_tokens": int(metrics["vllm:prefix_cache_hits_total"]),
            "gave_way": int(metrics["vllm:num_preemptions_total"]),
            "most_running": self.most["running"],
            "most_waiting": self.most["waiting"],
            "deeds": self.tally.deeds, "statuses": self.tally.statuses,
            "resident_mib": round(self.resident[-1] / 2**20, 1)
            if self.resident else None,
            "resident_growth": round(growth_of(self.resident), 5),
            # From the warm-up to the end.
            "resident_parts_mib": [
                {name: round(size / 2**20, 2) for name, size in parts.items()}
                for parts in self.parts],
            "resident_mib_over_time": [
                round(self.resident[at * (len(self.resident) - 1) // 11] / 2**20, 1)
                for at in range(12)] if self.resident else []}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("winnow")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--asks", type=int, default=84)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    touch_small_pages()
    asks = [make_ask(arguments.seed, i) for i in range(arguments.asks)]
    crowds = (make_crowds(arguments.seed)
              if arguments.minutes >= LEAST_MINUTES_FOR_MEMORY else [])
    rights = answers_alone(arguments.winnow, asks + [
        ask for crowd in crowds for ask in (crowd.first, crowd.then)])
    of_crowds = rights[len(asks):]
    crowds = list(zip(crowds, zip(of_crowds[::2], of_crowds[1::2])))
    right = share_right(asks, rights)
    print(f"soak: {len(asks)} requests asked alone, {right:.0%} of the tasks "
          "right", file=sys.stderr, flush=True)
    if right < LEAST_RIGHT:
        return 1
    figures, faults = Soak(arguments.winnow, asks, rights, crowds,
                           arguments).run()
    print(json.dumps(figures, indent=1))
    for fault in faults:
        print(f"soak: {fault}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
