#!/usr/bin/env python3
"""What a soak holds a server to can fail: each figure that is off is named."""

from __future__ import annotations

import sys
import unittest
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from asks import (  # noqa: E402
    KINDS,
    SELECTS,
    make_ask,
    make_crowds,
    streamed_answer,
    whole_answer,
)
from figures import (  # noqa: E402
    Process,
    Tally,
    answer_faults,
    counter_faults,
    growth_of,
    pool_faults,
    process_faults,
    read_metrics,
    resident_parts,
    traffic_faults,
)

# 12 taken in: 7 and 2 ended by themselves, 3 left; 8 of the 9 were read.
TALLY = Tally(answered=8, answered_tokens=80, left=5, left_requests=4,
              statuses={200: 8, 400: 2, 429: 1}, deeds={}, wrong=[])
ENDED = 'vllm:request_success_total{finished_reason="%s"}'
METRICS = {
    "winnow:requests_started_total": 12, ENDED % "stop": 7, ENDED % "length": 2,
    ENDED % "abort": 3, ENDED % "error": 0,
    "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
    "vllm:generation_tokens_total": 100,
    "vllm:time_to_first_token_seconds_count": 11,
    "vllm:inter_token_latency_seconds_count": 89,
    "vllm:e2e_request_latency_seconds_count": 12,
    "vllm:request_queue_time_seconds_count": 11,
    'winnow:http_answers_total{status="2xx"}': 11,
    'winnow:http_answers_total{status="4xx"}': 3,
    'winnow:http_answers_total{status="5xx"}': 0}
TRAFFIC = {
    **METRICS,
    "vllm:request_prompt_tokens_count": 12, "vllm:request_prompt_tokens_sum": 900,
    "vllm:prompt_tokens_total": 850,
    "vllm:request_prefill_kv_computed_tokens_sum": 600,
    "vllm:prefix_cache_queries_total": 900, "vllm:prefix_cache_hits_total": 256,
    "vllm:request_generation_tokens_sum": 100,
    "vllm:time_per_output_token_seconds_count": 89,
    "vllm:request_inference_time_seconds_count": 11,
    "vllm:request_num_preemptions_sum": 3, "vllm:num_preemptions_total": 3,
    "vllm:iteration_tokens_total_sum": 700,
    'http_requests_total{handler="none",method="GET",status="4xx"}': 3,
    'http_requests_total{handler="/health",method="GET",status="2xx"}': 11,
    'winnow:kv_bytes_total{direction="device_to_host"}': 4096,
    'winnow:kv_bytes_total{direction="host_to_device"}': 1024,
    'winnow:kv_bytes_total{direction="host_to_disk"}': 0,
    'winnow:kv_bytes_total{direction="disk_to_host"}': 0,
    "winnow:kv_restores_total": 1, "winnow:kv_stall_seconds_total": 0.5,
    "winnow:kv_hits_total": 9, "winnow:kv_misses_total": 2}
POOLS = {f'winnow:kv_tier_bytes{{tier="{tier}",state="{state}"}}': size
         for tier in ("device", "host")
         for state, size in (("held", 0), ("idle", 64), ("free", 32))}


class FiguresTest(unittest.TestCase):

    def assert_named(self, faults: list[str], *words: str):
        self.assertEqual(len(faults), 1, faults)
        for word in words:
            self.assertIn(word, faults[0])

    def test_nothing_is_wrong_with_what_adds_up(self):
        self.assertEqual(answer_faults(TALLY), [])
        self.assertEqual(counter_faults(METRICS, TALLY), [])
        self.assertEqual(traffic_faults(TRAFFIC), [])
        self.assertEqual(pool_faults(POOLS, POOLS), [])
        process = Process(1 << 20, 9, 5)
        self.assertEqual(process_faults(process, process, [100] * 40), [])

    def test_each_counter_is_held(self):
        for name, value, word in [
                ("winnow:requests_started_total", 13, "started"),
                ("vllm:num_requests_running", 1, "run"),
                ("vllm:num_requests_waiting", 1, "wait"),
                ("vllm:generation_tokens_total", 79, "tokens"),
                ("vllm:inter_token_latency_seconds_count", 90, "behind"),
                ("vllm:e2e_request_latency_seconds_count", 11, "latencies"),
                ("vllm:request_queue_time_seconds_count", 12, "waits"),
                (ENDED % "error", 1, "failed"),
                ('winnow:http_answers_total{status="2xx"}', 7, "2xx"),
                ('winnow:http_answers_total{status="4xx"}', 8, "4xx")]:
            faults = counter_faults({**METRICS, name: value}, TALLY)
            self.assertTrue(any(word in fault for fault in faults),
                            (name, faults))
        lost = {**METRICS, ENDED % "stop": 5, ENDED % "abort": 5}
        self.assert_named(counter_faults(lost, TALLY), "finished")
        gone = {**METRICS, ENDED % "stop": 4, ENDED % "abort": 6}
        self.assertEqual(len(counter_faults(gone, TALLY)), 2)  # and cancelled

    def test_what_is_told_twice_is_held(self):
        for name, value, word in [
                ("vllm:request_prompt_tokens_count", 11, "lengths"),
                ("vllm:prompt_tokens_total", 901, "tokens of prompts"),
                ("vllm:prompt_tokens_total", 199, "tokens of prompts"),
                ("vllm:prefix_cache_hits_total", 901, "found"),
                ("vllm:prefix_cache_queries_total", 901, "looked up"),
                ("vllm:request_generation_tokens_sum", 99, "by request"),
                ("vllm:time_per_output_token_seconds_count", 90, "older"),
                ("vllm:request_inference_time_seconds_count", 12, "inference"),
                ("vllm:request_num_preemptions_sum", 2, "gave way"),
                ("vllm:iteration_tokens_total_sum", 599, "rows"),
                ('http_requests_total{handler="/health",method="GET",'
                 'status="2xx"}', 12, "by route")]:
            self.assert_named(traffic_faults({**TRAFFIC, name: value}), word)
        still = {**TRAFFIC, 'winnow:kv_bytes_total{direction="device_to_host"}': 0}
        self.assertEqual(len(traffic_faults(still)), 2)  # bytes and misses
        still['winnow:kv_bytes_total{direction="host_to_device"}'] = 0
        self.assertEqual(len(traffic_faults(still)), 3)  # and what came back

    def test_answers_are_held(self):
        self.assert_named(answer_faults(replace(TALLY, wrong=["7 not 8"])),
                          "7 not 8")
        self.assert_named(answer_faults(replace(TALLY, statuses={503: 2})),
                          "503", "2 times")
        self.assert_named(answer_faults(replace(TALLY, answered=0)), "nothing")

    def test_pools_are_held(self):
        held = 'winnow:kv_tier_bytes{tier="host",state="held"}'
        free = 'winnow:kv_tier_bytes{tier="host",state="free"}'
        after = {**POOLS, held: 32, free: 0}
        self.assert_named(pool_faults(POOLS, after), "32 bytes", "host")
        self.assert_named(pool_faults(POOLS, {**POOLS, free: 0}), "had 96")

    def test_a_process_is_held(self):
        before = Process(1 << 20, 9, 5)
        self.assert_named(
            process_faults(before, replace(before, descriptors=10), []),
            "10 descriptors")
        self.assert_named(
            process_faults(before, replace(before, threads=6), []), "6 threads")
        slow = [1000 + i for i in range(40)]  # 3 % over all of it
        self.assertAlmostEqual(growth_of(slow), 30 / 1004.5)
        self.assert_named(process_faults(before, before, slow), "2.99%")

    def test_metrics_are_read_without_the_model(self):
        text = ('# HELP a b\na{model_name="m",engine="0"} 3\n'
                'b{model_name="m",tier="host",state="free"} 1.5e+06\n')
        self.assertEqual(read_metrics(text), {
            "a": 3, 'b{tier="host",state="free"}': 1500000})

    def test_what_is_resident_is_told_apart(self):
        mapping = "%s-7f0000000000 rw-p 00000000 00:00 0 %s\nRss: %d kB\n"
        text = "".join(mapping % each for each in [
            ("55e0c0021000", "   [heap]", 3), ("7fa064000000", "", 5),
            ("7fa064001000", "", 7), ("7fa075000000", "   /a b/c", 11)])
        self.assertEqual(resident_parts(text), {
            "files": 11 << 10, "malloc": 8 << 10, "mapped": 7 << 10})

    def test_what_is_asked_depends_on_the_seed_alone(self):
        asks = [make_ask(3, i) for i in range(len(KINDS))]
        self.assertEqual(asks, [make_ask(3, i) for i in range(len(KINDS))])
        self.assertEqual([ask.kind for ask in asks], KINDS)
        self.assertNotEqual(asks[1].body, make_ask(4, 1).body)

    def test_a_crowd_asks_by_one_selector(self):
        crowds = make_crowds(3)
        for crowd, select in zip(crowds, SELECTS, strict=True):
            self.assertEqual({crowd.first.body["select"],
                              crowd.then.body["select"]}, {select})
            shared = crowd.first == crowd.then
            self.assertEqual(shared, not select.startswith("snapkv"))

    def test_a_stream_reads_as_the_whole_answer(self):
        whole = whole_answer("/v1/completions", (
            '{"choices": [{"text": "ab", "finish_reason": "stop"}],'
            ' "usage": {"completion_tokens": 3}}'))
        chunk = ('data: {"choices": [{"index": 0, "text": "%s",'
                 ' "finish_reason": %s}]}\n\n')
        usage = 'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\n'
        text = chunk % ("a", "null") + chunk % ("b", '"stop"') + usage
        self.assertEqual(streamed_answer("/v1/completions", text, 1),
                         (whole, []))
        with self.assertRaises(AssertionError):
            streamed_answer("/v1/completions", 'data: {"error": {}}\n', 1)


if __name__ == "__main__":
    unittest.main()
