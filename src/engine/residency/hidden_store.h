// Hidden states of chunks that are between two layer ranges.
#ifndef WINNOW_ENGINE_RESIDENCY_HIDDEN_STORE_H_
#define WINNOW_ENGINE_RESIDENCY_HIDDEN_STORE_H_

#include <map>

#include "backend/backend.h"

namespace winnow {

// Owns rows on the device, handed out whole chunks at a time, lowest free
// range first. A sequence has at most one range. Used by one Runner.
class HiddenStore {
 public:
  // REQUIRES: backend outlives the store.
  static Result<HiddenStore> Create(Backend& backend, int max_rows,
                                    int hidden_size);

  // The sequence's rows, f32 [num_rows, hidden]; taken if it has none yet.
  // REQUIRES: a range of that size is free, or the range it has is that size.
  View Rows(SequenceId id, int num_rows);
  bool Holds(SequenceId id) const { return ranges_.contains(id); }
  // Gives the rows back; nothing where the sequence has none.
  void Release(SequenceId id) { ranges_.erase(id); }

 private:
  struct Range {
    int first = 0;
    int count = 0;
  };
  HiddenStore(Buffer buffer, int max_rows, int hidden_size)
      : buffer_(std::move(buffer)),
        max_rows_(max_rows),
        hidden_size_(hidden_size) {}
  int FirstFree(int num_rows) const;

  Buffer buffer_;
  int max_rows_;
  int hidden_size_;
  std::map<SequenceId, Range> ranges_;
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_RESIDENCY_HIDDEN_STORE_H_
