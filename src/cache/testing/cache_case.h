// The sizes that tests of caches give theirs.
#ifndef WINNOW_CACHE_TESTING_CACHE_CASE_H_
#define WINNOW_CACHE_TESTING_CACHE_CASE_H_

#include <cstdint>

#include "base/ids.h"

namespace winnow {

inline constexpr int kNumLayers = 3, kNumHeads = 2;
// Of float32.
inline constexpr int kKDim = 4, kVDim = 8;
inline constexpr int64_t kHeadBlockBytes = kPageTokens * (kKDim + kVDim) * 4;

}  // namespace winnow

#endif  // WINNOW_CACHE_TESTING_CACHE_CASE_H_
