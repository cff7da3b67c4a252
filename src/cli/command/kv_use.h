// What the KV of several requests cost, for people and for --json.
#ifndef WINNOW_CLI_COMMAND_KV_USE_H_
#define WINNOW_CLI_COMMAND_KV_USE_H_

#include <string>

#include "engine/request/request.h"

namespace winnow {

// Sums over requests that have ended: plain data.
struct KvUse {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of these, not computed
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  FetchedPieces pieces;  // fetched_bytes: those of whole pages too
  int64_t written_bytes = 0;
  double stall_ms = 0;

  void Add(const Completion& completion);
  KvUse& operator+=(const KvUse& other);
};

// "93.0 % of 1,204 picks near, 3 MiB fetched"; "" where all was on the device
// and stayed there.
std::string PicksText(const KvUse& use);

}  // namespace winnow

#endif  // WINNOW_CLI_COMMAND_KV_USE_H_
