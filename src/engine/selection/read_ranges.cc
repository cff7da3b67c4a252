#include "engine/selection/read_ranges.h"

#include <algorithm>

#include "backend/contract/token_runs.h"
#include "base/ids.h"

namespace winnow {
namespace {

// From this token on so many heads more read, or fewer.
struct Change {
  int token = 0;
  int num_heads = 0;
};

void AddRange(int first, int end, int num_heads, VisibleTokens visible,
              std::vector<Change>* changes) {
  first = std::max(first, visible.first);
  end = std::min(end, visible.end);
  if (first >= end) return;
  changes->push_back({first, num_heads});
  changes->push_back({end, -num_heads});
}

void AddPick(const Pick& pick, int num_heads, VisibleTokens visible,
             std::vector<Change>* changes) {
  const int page_first = static_cast<int>(pick.page) * kPageTokens;
  ForEachRun(pick.tokens, [&](int first, int count) {
    AddRange(page_first + first, page_first + first + count, num_heads, visible,
             changes);
  });
}

}  // namespace

std::vector<ReadRange> RangesRead(const PickLists& lists, int row,
                                  VisibleTokens visible, int num_heads) {
  std::vector<Change> changes;
  const int num_lists = lists.NumLists(row);
  for (int list = 0; list < num_lists; ++list) {
    const int heads =
        (list + 1) * num_heads / num_lists - list * num_heads / num_lists;
    const int32_t num_picks = lists.NumPicks(row, list);
    if (num_picks == kEveryPage) {
      AddRange(visible.first, visible.end, heads, visible, &changes);
    }
    for (int32_t i = 0; i < num_picks; ++i) {
      AddPick(lists.List(row, list)[i], heads, visible, &changes);
    }
  }
  std::ranges::sort(changes, {}, &Change::token);
  std::vector<ReadRange> ranges;
  int num_reading = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    num_reading += changes[i].num_heads;
    const bool ends =
        i + 1 == changes.size() || changes[i + 1].token > changes[i].token;
    if (!ends || num_reading == 0) continue;
    const int first = changes[i].token, end = changes[i + 1].token;
    const bool continues = !ranges.empty() && ranges.back().end == first &&
                           ranges.back().num_heads == num_reading;
    if (continues) {
      ranges.back().end = end;
    } else {
      ranges.push_back({first, end, num_reading});
    }
  }
  return ranges;
}

bool KeepMostRead(size_t most, std::vector<ReadRange>* ranges) {
  if (ranges->size() <= most) return false;
  std::ranges::stable_sort(*ranges, std::ranges::greater{},
                           &ReadRange::num_heads);
  ranges->resize(most);
  std::ranges::sort(*ranges, {}, &ReadRange::first);
  return true;
}

}  // namespace winnow
