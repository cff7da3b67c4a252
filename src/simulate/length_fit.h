// Estimates the work of rows at lengths that were not recorded, by a rule from
// recorded lengths. Not a measurement.
#ifndef WINNOW_SIMULATE_LENGTH_FIT_H_
#define WINNOW_SIMULATE_LENGTH_FIT_H_

#include <span>

#include "simulate/cost_model.h"

namespace winnow {

// The class of a length: the integer nearest to its logarithm to base 2.
// Lengths of one class are treated as equal.
int LengthClass(double context_tokens);

// Extrapolates the works of one cache, given for ascending lengths; dense
// layers and summaries are copied. The rule is linear in the logarithm of the
// length. It covers the logarithms of read tokens, of wanted tokens, of slots
// and of the hit share. Between two lengths the lines interpolate.
//
// Behind the last length they continue with the least-squares slope. Slopes of
// amounts are limited to [0, 1]: 0 is a budget in tokens, 1 a share of the
// context. The slope of the hit share is at most 0, so a longer context never
// misses less than the longest recorded one. The share of hints is constant.
// Lengths that the cache holds (CacheHolds) are left out of the slopes of slots
// and hits.
//
// Linear rules for the shares or their log odds were tried on recorded lengths,
// and overestimate misses more than this one. REQUIRES: at least two works, a
// context no shorter than the first, and CanPlace.
RowWork WorkAtLength(std::span<const RowWork> recorded, double context_tokens);

// If cache slots hold this share of the context, hardly anything can be missed.
inline constexpr double kHeldShare = 0.9;
inline bool CacheHolds(const RowWork& work) {
  return work.slot_tokens >= kHeldShare * work.context_tokens;
}
// False if the context is longer than all works and fewer than two of them
// count.
bool CanPlace(std::span<const RowWork> recorded, double context_tokens);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_LENGTH_FIT_H_
