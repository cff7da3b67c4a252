// KvUse: the KV traffic of several requests, for people and for --json.
#ifndef WINNOW_CLI_COMMAND_KV_USE_H_
#define WINNOW_CLI_COMMAND_KV_USE_H_

#include <string>

#include "engine/request/request.h"

namespace winnow {

// Sums over ended requests: plain data.
struct KvUse {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // included above, not computed
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  FetchedPieces pieces;  // fetched_bytes includes resident pages
  int64_t written_bytes = 0;
  double stall_ms = 0;

  void Add(const Completion& completion);
  KvUse& operator+=(const KvUse& other);
};

// "93.0 % of 1,204 picks near, 3 MiB fetched"; "" if all pages were resident
// throughout.
std::string PicksText(const KvUse& use);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_KV_USE_H_
