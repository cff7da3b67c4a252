// ForcedPartitions: what a row reads whatever its scores.
#ifndef WINNOW_BACKEND_CPU_SELECT_FORCED_PARTITIONS_H_
#define WINNOW_BACKEND_CPU_SELECT_FORCED_PARTITIONS_H_

#include <algorithm>

#include "backend/contract/select_program.h"

namespace winnow {

// The partitions that a row at position `context - 1` reads for sure.
class ForcedPartitions {
 public:
  // `fixed_end`: where the rows begin that a choice is fixed for, or 0.
  ForcedPartitions(const SelectProgram& program, int64_t context,
                   int64_t fixed_end)
      : own_((context - 1) / program.block_tokens) {
    const int64_t block = program.block_tokens;
    const auto blocks = [&](int64_t tokens) {
      return (tokens + block - 1) / block;
    };
    const int64_t last = fixed_end > 0 ? fixed_end / block : own_;
    end_of_sink_ = std::min(blocks(program.forced.sink_tokens), last);
    first_recent_ =
        std::max(last - blocks(program.forced.recent_tokens), end_of_sink_);
  }

  // What is not forced: [first_free(), end_free()).
  int64_t first_free() const { return end_of_sink_; }
  int64_t end_free() const { return first_recent_; }
  int64_t count() const { return end_of_sink_ + own_ + 1 - first_recent_; }

 private:
  int64_t own_;  // of the row's token
  int64_t end_of_sink_;
  int64_t first_recent_;
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_FORCED_PARTITIONS_H_
