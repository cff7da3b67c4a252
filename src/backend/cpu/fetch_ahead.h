// FetchAhead: what a unit kernel fetches for the work that comes after.
#ifndef WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
#define WINNOW_BACKEND_CPU_FETCH_AHEAD_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// Sets what stands ahead in `keys`: of each half of a page that is read, two
// that are read some halves later, in `keys` or in `next`, which follows and
// may be empty. REQUIRES: keys and values of `element_bytes` are read where
// they lie.
void FetchAhead(const TileKeys& next, int element_bytes, TileKeys& keys);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_FETCH_AHEAD_H_
