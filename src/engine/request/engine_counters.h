// EngineCounters: what an engine has done since it began.
#ifndef WINNOW_ENGINE_REQUEST_ENGINE_COUNTERS_H_
#define WINNOW_ENGINE_REQUEST_ENGINE_COUNTERS_H_

#include <cstdint>

#include "engine/request/request.h"

namespace winnow {

// KV that went from one tier to the next, each time that it did: pages, layer
// blocks of them and pieces. What passes through the host's memory on its way
// between device and disk counts on both parts of its way.
struct KvTraffic {
  int64_t device_to_host_bytes = 0;
  int64_t host_to_device_bytes = 0;
  int64_t host_to_disk_bytes = 0;
  int64_t disk_to_host_bytes = 0;
};

// Plain data; no count is ever less than before. Of all requests: of those that
// have ended, those that run, and of nobody's pages.
struct EngineCounters {
  int64_t num_rows = 0;         // that have come through all layers
  int64_t num_preemptions = 0;  // times that a request was preempted
  // Prompts of requests that look for cached pages, when they start, and what
  // they found, on whatever tier.
  int64_t num_looked_up_tokens = 0;
  int64_t num_found_tokens = 0;
  FetchedPieces brought;  // of rows that landed
  KvTraffic traffic;
  // Times that whole pages came from the host or the disk for a request: when
  // it started, when it came back, or when it was made whole again.
  int64_t num_restores = 0;
  // Requests that ended with an error because nothing could run: bugs.
  int64_t num_given_up = 0;
  double stall_ms = 0;  // as KvCounters has it: over requests
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_REQUEST_ENGINE_COUNTERS_H_
