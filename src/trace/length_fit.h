// What rows do at lengths that were not recorded, from those that were: a rule,
// not a measurement.
#ifndef WINNOW_TRACE_LENGTH_FIT_H_
#define WINNOW_TRACE_LENGTH_FIT_H_

#include <span>

#include "trace/cost_model.h"

namespace winnow {

// Lengths within a factor of the root of 2 of each other are taken for one: by
// the whole number nearest to its logarithm to base 2.
int LengthClass(double context_tokens);

// The works are those of one cache, of rows of ascending lengths; dense layers
// and summaries are theirs. With x the logarithm of the length:
//  * between two lengths the logarithms of what is read, wanted and of slots,
//    and the shares of what is wanted that are missed and hinted, are straight
//    in x;
//  * behind the last they go on from it with the slope of least squares over
//    all works: of the logarithms at least 0 (a budget of tokens) and at most 1
//    (a share of the context), of missed shares at least 0, so that no longer
//    context misses less than the longest recorded; they end at 1. The share
//    that is hinted stays.
// REQUIRES: two works at least, and a context of the first one's or more.
RowWork WorkAtLength(std::span<const RowWork> recorded, double context_tokens);

}  // namespace winnow

#endif  // WINNOW_TRACE_LENGTH_FIT_H_
