// FetchAhead: what a unit kernel fetches for the work that comes after.
#ifndef WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
#define WINNOW_BACKEND_CPU_FETCH_AHEAD_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// Sets what stands ahead in `keys`: of each half of a page that is read, the
// one in its place in `next`, which follows and may be empty, and one a page
// on, in `keys` or in `next`; beside the weights, of which a kernel reads
// nothing from memory, V. REQUIRES: keys and values are read where they lie.
void FetchAhead(const TileKeys& next, TileKeys& keys);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
