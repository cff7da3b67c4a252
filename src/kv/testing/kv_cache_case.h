// What tests of a KvCache and its sequences have in common.
#ifndef WINNOW_KV_TESTING_KV_CACHE_CASE_H_
#define WINNOW_KV_TESTING_KV_CACHE_CASE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/kv_cache.h"

namespace winnow {

inline constexpr SequenceId kA(1), kB(2), kC(3), kD(4);

inline void ExpectSound(const KvCache& cache) {
  EXPECT_EQ(BrokenInvariants(cache.Snapshot()), std::vector<std::string>());
}

}  // namespace winnow

#endif  // WINNOW_KV_TESTING_KV_CACHE_CASE_H_
