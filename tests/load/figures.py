"""What a soak holds a server to: figures, and the faults that they show."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

MOST_GROWTH = 0.01  # of resident memory behind the warm-up
MOST_ANSWERS = 3  # to a prompt, of asks.py
MAPPING = re.compile(r"([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)$")
ARENA_BYTES = 64 << 20  # glibc's HEAP_MAX_SIZE
SAMPLE = re.compile(r"(?m)^([\w:]+)(?:\{([^}]*)\})? (\S+)$")


@dataclass
class Tally:
    """What clients sent and read. A client that left knows no more than that
    its sequences may have been taken in."""
    answered: int = 0         # sequences whose answers were read whole
    answered_tokens: int = 0  # that these have
    left: int = 0             # sequences whose client left
    statuses: dict[int, int] = field(default_factory=dict)  # read whole
    left_requests: int = 0
    deeds: dict[str, int] = field(default_factory=dict)  # what was done
    wrong: list[str] = field(default_factory=list)       # answers


@dataclass
class Process:
    """Of /proc."""
    resident_bytes: int
    descriptors: int
    threads: int


def read_process(pid: int) -> Process:
    status = Path(f"/proc/{pid}/status").read_text()
    number = lambda name: int(re.search(rf"{name}:\s+(\d+)", status)[1])  # noqa: E731
    return Process(number("VmRSS") << 10,
                   len(list(Path(f"/proc/{pid}/fd").iterdir())),
                   number("Threads"))


def resident_parts(smaps: str) -> dict[str, int]:
    """Bytes by what they are, of /proc/PID/smaps: of files, of malloc (the
    first heap, and those of threads, which begin at multiples of 64 MiB), and
    of what was mapped, as pools and stacks are."""
    parts = dict.fromkeys(["files", "malloc", "mapped"], 0)
    part = ""
    for line in smaps.splitlines():
        if found := MAPPING.match(line):
            begin, name = int(found[1], 16), found[2]
            heap = name == "[heap]" or (not name and begin % ARENA_BYTES == 0)
            part = ("files" if name.startswith("/") else
                    "malloc" if heap else "mapped")
        elif line.startswith("Rss:"):
            parts[part] += int(line.split()[1]) << 10
    return parts


def read_metrics(text: str) -> dict[str, float]:
    """By name and labels, the model's and the engine's left out:
    'name{tier="host"}'."""
    samples = {}
    for name, labels, value in SAMPLE.findall(text):
        kept = [label for label in re.findall(r'\w+="[^"]*"', labels)
                if not label.startswith(("model_name=", "engine="))]
        samples[name + ("{" + ",".join(kept) + "}" if kept else "")] = float(value)
    return samples


def sum_of(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items()
               if key == name or key.startswith(name + "{"))


def answer_faults(tally: Tally) -> list[str]:
    """Answers, and what the load was to reach."""
    faults = [f"wrong answer: {each}" for each in tally.wrong[:5]]
    faults += [f"{status} was answered {count} times"
               for status, count in tally.statuses.items() if status >= 500]
    if tally.answered == 0:
        faults.append("nothing was answered")
    return faults


def counter_faults(metrics: dict[str, float], tally: Tally) -> list[str]:
    """Of a server that nobody asks any more."""
    ended = sum_of(metrics, "vllm:request_success_total")
    by_reason = lambda reason: metrics[  # noqa: E731
        f'vllm:request_success_total{{finished_reason="{reason}"}}']
    finished = by_reason("stop") + by_reason("length")
    tokens = metrics["vllm:generation_tokens_total"]
    first = metrics["vllm:time_to_first_token_seconds_count"]
    rules = [
        ("requests that started", metrics["winnow:requests_started_total"],
         ended, ended),
        ("requests that run", metrics["vllm:num_requests_running"], 0, 0),
        ("requests that wait", metrics["vllm:num_requests_waiting"], 0, 0),
        ("finished", finished, tally.answered, tally.answered + tally.left),
        ("cancelled", by_reason("abort"), 0, tally.left),
        ("failed", by_reason("error"), 0, 0),
        ("tokens", tokens, tally.answered_tokens,
         tokens if tally.left else tally.answered_tokens),
        ("tokens behind the first",
         metrics["vllm:inter_token_latency_seconds_count"],
         tokens - first, tokens - first),
        ("latencies", metrics["vllm:e2e_request_latency_seconds_count"],
         ended, ended),
        ("waits", metrics["vllm:request_queue_time_seconds_count"], first,
         first)]
    for kind in (2, 4, 5):
        read = sum(count for status, count in tally.statuses.items()
                   if status // 100 == kind)
        rules.append((f"answers {kind}xx",
                      metrics[f'winnow:http_answers_total{{status="{kind}xx"}}'],
                      read, read + tally.left_requests))
    return [f"{name}: {value:g}, must be {least:g} to {most:g}"
            for name, value, least, most in rules if not least <= value <= most]


def traffic_faults(metrics: dict[str, float]) -> list[str]:
    """Of the same server, what is told twice or by parts."""
    of = lambda name: metrics[name]  # noqa: E731
    moved = lambda way: metrics[  # noqa: E731
        f'winnow:kv_bytes_total{{direction="{way}"}}']
    ended = sum_of(metrics, "vllm:request_success_total")
    first = of("vllm:time_to_first_token_seconds_count")
    behind = of("vllm:inter_token_latency_seconds_count")
    prompts = of("vllm:request_prompt_tokens_sum")
    answers = sum_of(metrics, "winnow:http_answers_total")
    most = float("inf")
    rules = [
        ("lengths of prompts", of("vllm:request_prompt_tokens_count"), ended,
         ended),
        ("tokens of prompts", of("vllm:prompt_tokens_total"),
         of("vllm:request_prefill_kv_computed_tokens_sum") / MOST_ANSWERS,
         prompts),
        ("tokens found", of("vllm:prefix_cache_hits_total"), 0,
         of("vllm:prefix_cache_queries_total")),
        ("tokens looked up", of("vllm:prefix_cache_queries_total"), 0, prompts),
        ("tokens by request", of("vllm:request_generation_tokens_sum"),
         of("vllm:generation_tokens_total"),
         of("vllm:generation_tokens_total")),
        ("times by their older name",
         of("vllm:time_per_output_token_seconds_count"), behind, behind),
        ("times of inference", of("vllm:request_inference_time_seconds_count"),
         first, first),
        ("times that requests gave way",
         of("vllm:request_num_preemptions_sum"),
         of("vllm:num_preemptions_total"), of("vllm:num_preemptions_total")),
        # Each row but the last of an answer is a token that is drawn.
        ("rows of steps", of("vllm:iteration_tokens_total_sum"),
         of("vllm:request_prefill_kv_computed_tokens_sum"), most),
        ("answers by route", sum_of(metrics, "http_requests_total"), answers,
         answers),
        # Nothing comes from where nothing went.
        ("bytes from the host", moved("host_to_device"), 0,
         most if moved("device_to_host") + moved("disk_to_host") else 0),
        ("times that pages came", of("winnow:kv_restores_total"), 0,
         most if moved("host_to_device") + moved("disk_to_host") else 0),
        ("seconds of waiting", of("winnow:kv_stall_seconds_total"), 0,
         most if moved("host_to_device") + moved("disk_to_host") else 0),
        ("misses", of("winnow:kv_misses_total"), 0,
         most if moved("device_to_host") else 0)]
    return [f"{name}: {value:g}, must be {least:g} to {most:g}"
            for name, value, least, most in rules if not least <= value <= most]


def pool_faults(before: dict[str, float], after: dict[str, float]) -> list[str]:
    """Of the KV pools, before anyone asked and when nobody does any more."""
    faults = []
    for tier in ("device", "host"):
        size = lambda at, state: at[  # noqa: E731
            f'winnow:kv_tier_bytes{{tier="{tier}",state="{state}"}}']
        whole = lambda at: sum(size(at, s) for s in ("held", "idle", "free"))  # noqa: E731
        if size(after, "held") != 0:
            faults.append(f"{size(after, 'held'):g} bytes of the {tier}'s pool "
                          "are held by nobody")
        if whole(before) != whole(after):
            faults.append(f"the {tier}'s pool has {whole(after):g} bytes, had "
                          f"{whole(before):g}")
    return faults


def growth_of(resident: list[int]) -> float:
    """Of the samples behind the warm-up: the last quarter's median beside the
    first's. 0 where there are too few to say."""
    quarter = len(resident) // 4
    if quarter < 2:
        return 0
    first = statistics.median(resident[:quarter])
    return statistics.median(resident[-quarter:]) / first - 1


def process_faults(before: Process, after: Process,
                   resident: list[int]) -> list[str]:
    faults = []
    growth = growth_of(resident)
    if growth > MOST_GROWTH:
        faults.append(f"resident memory grew by {growth:.2%}")
    if after.descriptors > before.descriptors:
        faults.append(f"{after.descriptors} descriptors are open, were "
                      f"{before.descriptors}")
    if after.threads > before.threads:
        faults.append(f"{after.threads} threads, were {before.threads}")
    return faults
