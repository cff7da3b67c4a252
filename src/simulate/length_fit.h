// What rows do at lengths that were not recorded, from those that were: a rule,
// not a measurement.
#ifndef WINNOW_SIMULATE_LENGTH_FIT_H_
#define WINNOW_SIMULATE_LENGTH_FIT_H_

#include <span>

#include "simulate/cost_model.h"

namespace winnow {

// Lengths within a factor of the root of 2 of each other are taken for one: by
// the whole number nearest to its logarithm to base 2.
int LengthClass(double context_tokens);

// The works are those of one cache, of rows of ascending lengths; dense layers
// and summaries are theirs. Straight in the logarithm of the length are the
// logarithms of what is read, of what is wanted, of slots and of the share of
// what is wanted that is near: where a context is twice as long, so many times
// less is near. Between two lengths they are the straight line; behind the last
// they go on from it with the slope of least squares: of amounts at least 0 (a
// budget of tokens) and at most 1 (a share of the context), of the share that
// is near at most 0, so that no longer context misses less than the longest
// recorded. The share that is hinted stays. For slots and what is near only
// lengths count, behind the last, that the cache does not hold (CacheHolds).
// (Tried on recorded lengths: lines in the shares themselves, or in their log
// odds, say more misses than come, and more so than this.)
// REQUIRES: two works at least, a context of the first one's or more, and
// CanPlace.
RowWork WorkAtLength(std::span<const RowWork> recorded, double context_tokens);

// Slots for so much of the context that hardly anything can be missed.
inline constexpr double kHeldShare = 0.9;
inline bool CacheHolds(const RowWork& work) {
  return work.slot_tokens >= kHeldShare * work.context_tokens;
}
// False where the context is longer than all works, of which fewer than two
// count.
bool CanPlace(std::span<const RowWork> recorded, double context_tokens);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_LENGTH_FIT_H_
