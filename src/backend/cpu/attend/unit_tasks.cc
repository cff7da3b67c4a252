#include "backend/cpu/attend/unit_tasks.h"

#include <algorithm>

#include "backend/cpu/attend/tile_pages.h"
#include "backend/cpu/select/packed_keys.h"

namespace winnow {

int UnitPicks(std::span<const Pick> list) {
  const size_t middle = list.size() / 2 / kUnitPicks * kUnitPicks;
  const auto first =
      list.subspan(middle, std::min<size_t>(kUnitPicks, list.size() - middle));
  return PackedKeys::NumTogether(first) == 0 ? kUnitPicks
                                             : PackedKeys::kMaxPicks;
}

TaskCursor::TaskCursor(const AttendJob& job)
    : job_(job),
      num_tokens_(job.picks == nullptr
                      ? kUnitRows / std::min(job.group_heads, kUnitRows)
                      : 1) {}

bool TaskCursor::Next(UnitTask& task) {
  while (row_ >= end_row_) {
    if (++request_ >= job_.step.num_requests) return false;
    StartRequest();
  }
  const int num_heads = NumHeads();
  task.rows = {
      .request = request_,
      .kv_head = kv_head_,
      .first_head = head_,
      .num_heads = num_heads,
      .first_row = static_cast<int32_t>(row_ - job_.rows.first_row(request_)),
      .num_rows = static_cast<int32_t>(
          std::min<int64_t>(num_tokens_, end_row_ - row_))};
  SetUnits(task);
  Advance(num_heads);
  return true;
}

void TaskCursor::StartRequest() {
  const int64_t first = job_.rows.first_row(request_);
  row_ = std::max(first + job_.rows.num_prefill_rows(request_), job_.first_row);
  end_row_ = std::min(first + job_.rows.num_tokens(request_), job_.end_row);
}

void TaskCursor::SetUnits(UnitTask& task) const {
  const LanePlace place = PlaceOf(job_, task.rows, 0);
  const RowPicks picks = PicksOf(job_, place);
  if (!picks.every_page) {
    const int unit_picks = UnitPicks(picks.list);
    const int64_t num_units =
        (std::ssize(picks.list) + unit_picks - 1) / unit_picks;
    CHECK(num_units > 0, "row={} head={} reads nothing", place.row,
          place.q_head);
    task.first_unit = 0;
    task.end_unit = static_cast<int>(num_units);
    return;
  }
  const int64_t first = job_.rows.position(place.row);
  const int64_t last = first + task.rows.num_rows - 1;
  task.first_unit =
      static_cast<int>(FirstVisible(first, job_.step.window) / kTileKeys);
  task.end_unit = static_cast<int>(last / kTileKeys + 1);
}

int TaskCursor::NumHeads() const {
  const int left = std::min(job_.group_heads - head_, kUnitRows);
  if (job_.picks == nullptr) return left;
  // List i serves heads [i * heads / lists, (i + 1) * heads / lists).
  const int64_t num_heads = job_.args.q.dim(1);
  const int64_t num_lists = job_.picks->NumLists(row_);
  const int64_t head = int64_t{kv_head_} * job_.group_heads + head_;
  const int64_t list = head * num_lists / num_heads;
  const int64_t end = (list + 1) * num_heads / num_lists;
  return static_cast<int>(std::min<int64_t>(left, end - head));
}

void TaskCursor::Advance(int num_heads) {
  head_ += num_heads;
  if (head_ < job_.group_heads) return;
  head_ = 0;
  if (++kv_head_ < job_.cache.num_kv_heads) return;
  kv_head_ = 0;
  row_ += num_tokens_;
}

}  // namespace winnow
