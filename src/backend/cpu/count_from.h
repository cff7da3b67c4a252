// CountFrom: counting numbers above a bar, in whatever vectors the file that
// includes this is compiled for. Lanes keep the sets' functions apart.
#ifndef WINNOW_BACKEND_CPU_COUNT_FROM_H_
#define WINNOW_BACKEND_CPU_COUNT_FROM_H_

#include <cstdint>

namespace winnow {

// REQUIRES: count < 2^31.
template <class Lanes>
int64_t CountFrom(const int32_t* keys, int64_t count, int32_t least) {
  int32_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += keys[i] >= least ? 1 : 0;
  return found;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_COUNT_FROM_H_
