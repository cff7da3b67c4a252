#include "cli/command/kv_use.h"

#include "base/size_text.h"
#include "cli/command/progress.h"

namespace winnow {

void KvUse::Add(const Completion& completion) {
  const KvCounters& kv = completion.kv;
  *this += {.prompt_tokens = completion.num_prompt_tokens,
            .cached_tokens = completion.num_cached_tokens,
            .device_bytes = kv.device_bytes,
            .host_bytes = kv.host_bytes,
            .pieces = {.picks = kv.picks,
                       .hits = kv.hits,
                       .misses = kv.misses,
                       .hints = kv.hints,
                       .hints_used = kv.hints_used,
                       .fetched_bytes = kv.fetched_bytes},
            .written_bytes = kv.written_bytes,
            .stall_ms = kv.stall_ms};
}

KvUse& KvUse::operator+=(const KvUse& other) {
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  device_bytes += other.device_bytes;
  host_bytes += other.host_bytes;
  pieces += other.pieces;
  written_bytes += other.written_bytes;
  stall_ms += other.stall_ms;
  return *this;
}

std::string PicksText(const KvUse& use) {
  const FetchedPieces& pieces = use.pieces;
  std::string text;
  if (pieces.picks > 0) {
    text = fmt::format("{:.1f} % of {} picks near",
                       100.0 * static_cast<double>(pieces.hits) /
                           static_cast<double>(pieces.picks),
                       FormatCount(pieces.picks));
  }
  if (pieces.fetched_bytes > 0) {
    text += fmt::format("{}{} fetched", text.empty() ? "" : ", ",
                        FormatBytes(pieces.fetched_bytes));
  }
  return text;
}

}  // namespace winnow
