#include "backend/cuda/attend/attend_lists.h"

#include "base/check.h"
#include "base/ids.h"

namespace winnow {

static_assert(device::kAttendPageTokens == kPageTokens);
static_assert(device::kAttendUnitPages == kUnitPicks);
static_assert(device::kAttendGroupUnits == kGroupUnits);
static_assert(device::kAttendUnitTokens == kPromptTileTokens);

device::AttendLists DeviceLists(const LayerStep& step, const AttendArgs& args) {
  CHECK(args.sources.size() == 1, "sources={}", args.sources.size());
  device::AttendLists lists = {};
  lists.num_heads = static_cast<int>(args.q.dim(1));
  lists.num_rows = step.num_rows;
  const AttendSource& source = args.sources[0];
  if (source.kind == AttendSource::Kind::kAllPages) return lists;
  const PickLists& picks = source.picks;
  CHECK(picks.first_row >= 0 &&
            picks.first_row + picks.num_rows() <= step.num_rows,
        "first_row={} num_picks {} rows={}", picks.first_row,
        ToString(picks.num_picks), step.num_rows);
  CHECK(picks.num_picks.dim(1) >= args.q.dim(1) &&
            picks.picks.dim(1) >= args.q.dim(1),
        "q {} picks {} num_picks {}", ToString(args.q), ToString(picks.picks),
        ToString(picks.num_picks));
  lists.first_row = picks.first_row;
  lists.num_rows = picks.num_rows();
  lists.picks = picks.picks.As<uint32_t>();
  lists.num_picks = picks.num_picks.As<int32_t>();
  lists.num_lists = picks.num_lists.As<int32_t>();
  lists.picks_row_stride = picks.picks.stride[0];
  lists.picks_list_stride = picks.picks.stride[1];
  lists.num_picks_stride = picks.num_picks.stride[0];
  return lists;
}

}  // namespace winnow
