// A range of a sequence's pages that leave the device together, as plain data.
#ifndef WINNOW_KV_PAGE_RANGE_H_
#define WINNOW_KV_PAGE_RANGE_H_

#include <cstdint>

namespace winnow {

// Pages [first, end), of which `num_whole` are resident.
struct PageRange {
  int64_t first = 0;
  int64_t end = 0;
  int64_t num_whole = 0;

  friend bool operator==(const PageRange&, const PageRange&) = default;
};

}  // namespace winnow

#endif  // WINNOW_KV_PAGE_RANGE_H_
