// KeyRun: consecutive keys of a request, wherever their pages lie.
#ifndef WINNOW_BACKEND_CPU_SELECT_KEY_RUN_H_
#define WINNOW_BACKEND_CPU_SELECT_KEY_RUN_H_

#include <algorithm>
#include <array>

#include "backend/cpu/step_rows.h"

namespace winnow {

// Bounds what a worker keeps on its stack; the largest known is MLA's 576.
inline constexpr int kMaxKeyDim = 1024;
using Channels = std::array<float, kMaxKeyDim>;  // [k_dim]

// Tokens [first, first + count) of a request and KV head.
template <typename Kv>
struct KeyRun {
  const LayerCache& cache;
  int request = 0;
  int head = 0;
  int64_t first = 0;
  int count = 0;

  const Kv* Key(int64_t token) const {
    const std::byte* slice = cache.Slice(
        StepRows::KvBlock(cache, request, token / kPageTokens), head);
    return reinterpret_cast<const Kv*>(slice) +
           token % kPageTokens * cache.format.k_dim;
  }
  // f(channel, value) for every key, in order: each channel's own chain, so
  // that the channels are the lanes of vectors whatever the order of tokens.
  template <typename F>
  void ForEach(F&& f) const {
    const auto k_dim = static_cast<size_t>(cache.format.k_dim);
    for (int64_t token = first; token < first + count;) {
      const int64_t in_page =
          std::min(first + count - token, kPageTokens - token % kPageTokens);
      const Kv* key = Key(token);
      for (const Kv* end = key + in_page * cache.format.k_dim; key < end;
           key += k_dim) {
        for (size_t c = 0; c < k_dim; ++c) f(c, static_cast<float>(key[c]));
      }
      token += in_page;
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_KEY_RUN_H_
