// KvHeadsOfUnit: whether workers that each make whole lists end together.
#ifndef WINNOW_BACKEND_CPU_SELECT_SELECT_UNITS_H_
#define WINNOW_BACKEND_CPU_SELECT_SELECT_UNITS_H_

#include <cstdint>
#include <span>

namespace winnow {

// What one KV head of some rows takes.
struct KvHeadWork {
  int64_t cost = 0;        // in whatever unit all have; 0: none worth counting
  int64_t num_scores = 0;  // that are kept while its lists are made
};

// A unit of several KV heads has so many scores at most, so that they are still
// in a core's second cache level when its lists are made.
inline constexpr int64_t kUnitScores = 16384;

// The most KV heads, at most `max_heads`, of each of the works that may be a
// unit, such that `num_workers` that take unit after unit, in whatever order,
// end within a sixteenth of the least time; 0: none may.
int KvHeadsOfUnit(std::span<const KvHeadWork> works, int num_kv_heads,
                  int max_heads, int num_workers);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_SELECT_UNITS_H_
