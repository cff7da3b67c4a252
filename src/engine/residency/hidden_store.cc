#include "engine/residency/hidden_store.h"

#include <algorithm>
#include <vector>

namespace winnow {

Result<HiddenStore> HiddenStore::Create(Backend& backend, int max_rows,
                                        int hidden_size) {
  // Twice the rows of a step: chunks end in another order than they begin, and
  // a range must be found in one piece whatever holes that leaves.
  const int num_rows = 2 * max_rows;
  const size_t num_bytes = static_cast<size_t>(num_rows) *
                           static_cast<size_t>(hidden_size) * sizeof(float);
  ASSIGN_OR_RETURN(Buffer buffer,
                   backend.Allocate(Tier::kDevice, num_bytes, "hidden states"));
  return HiddenStore(std::move(buffer), num_rows, hidden_size);
}

int HiddenStore::FirstFree(int num_rows) const {
  std::vector<Range> taken;
  for (const auto& [id, range] : ranges_) taken.push_back(range);
  std::sort(taken.begin(), taken.end(),
            [](Range a, Range b) { return a.first < b.first; });
  int first = 0;
  for (const Range& range : taken) {
    if (range.first - first >= num_rows) return first;
    first = range.first + range.count;
  }
  CHECK(first + num_rows <= max_rows_, "num_rows={} max_rows={} taken={}",
        num_rows, max_rows_, taken.size());
  return first;
}

View HiddenStore::Rows(SequenceId id, int num_rows) {
  auto found = ranges_.find(id);
  if (found == ranges_.end()) {
    found = ranges_.emplace(id, Range{FirstFree(num_rows), num_rows}).first;
  }
  const Range range = found->second;
  CHECK(range.count == num_rows, "count={} num_rows={}", range.count, num_rows);
  return buffer_.At(0, Dtype::kFloat32, {max_rows_, hidden_size_})
      .Slice(range.first, num_rows);
}

}  // namespace winnow
