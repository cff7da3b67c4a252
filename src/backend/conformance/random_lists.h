// Random lists of picks, for tests of what reads them.
#ifndef WINNOW_BACKEND_CONFORMANCE_RANDOM_LISTS_H_
#define WINNOW_BACKEND_CONFORMANCE_RANDOM_LISTS_H_

#include <algorithm>
#include <vector>

#include "backend/conformance/paged_case.h"
#include "backend/contract/picks.h"

namespace winnow {

// What the rows of a step read: by row, the lists of one scope, or every page.
struct ListsOfRows {
  struct Row {
    std::vector<std::vector<Pick>> lists;  // empty: every page
  };
  std::vector<Row> rows;

  // To the device, as rows [first, end) of a step.
  PickLists Upload(TestDevice& device, int64_t first, int64_t end,
                   int64_t num_heads) const {
    int64_t capacity = 1;
    for (const Row& row : rows) {
      for (const auto& list : row.lists) {
        capacity = std::max(capacity, std::ssize(list));
      }
    }
    TestArray picks(Dtype::kUInt32, {end - first, num_heads, capacity, 2});
    TestArray num_picks(Dtype::kInt32, {end - first, num_heads});
    std::vector<int32_t> num_lists;
    std::ranges::fill(num_picks.values, 77777.0);  // behind the lists: nothing
    for (int64_t row = first; row < end; ++row) {
      const auto& lists = rows[static_cast<size_t>(row)].lists;
      num_lists.push_back(
          static_cast<int32_t>(std::max<int64_t>(1, std::ssize(lists))));
      const int64_t of_row = (row - first) * num_heads;
      num_picks.values[static_cast<size_t>(of_row)] = kEveryPage;
      for (int64_t list = 0; list < std::ssize(lists); ++list) {
        const auto& of_list = lists[static_cast<size_t>(list)];
        num_picks.values[static_cast<size_t>(of_row + list)] =
            static_cast<double>(of_list.size());
        for (int64_t i = 0; i < std::ssize(of_list); ++i) {
          const auto at =
              static_cast<size_t>(((of_row + list) * capacity + i) * 2);
          picks.values[at] = of_list[static_cast<size_t>(i)].page;
          picks.values[at + 1] = of_list[static_cast<size_t>(i)].tokens;
        }
      }
    }
    PickLists lists;
    lists.first_row = static_cast<int>(first);
    lists.picks = device.Upload(picks);
    lists.num_picks = device.Upload(num_picks);
    lists.num_lists = device.Upload(Int32Array(num_lists));
    return lists;
  }
};

// Some pages of a row at `position`, each in part or whole; always its own.
inline std::vector<Pick> RandomList(int64_t position, double share,
                                    RandomSource& random) {
  std::vector<Pick> list;
  for (int64_t page = 0; page * kPageTokens <= position; ++page) {
    const bool is_last = (page + 1) * kPageTokens > position;
    if (!is_last && !random.Chance(share)) continue;
    const int64_t behind = (page + 1) * kPageTokens - 1 - position;
    const uint32_t visible = ~0u >> std::clamp<int64_t>(behind, 0, 31);
    uint32_t tokens =
        random.Chance(0.5)
            ? ~0u
            : static_cast<uint32_t>(random.Between(0, 0xffffffffll) &
                                    random.Between(0, 0xffffffffll));
    if (random.Chance(0.3)) tokens = 0xffu << (8 * random.Between(0, 3));
    if (is_last) tokens |= 1u << (position % kPageTokens);
    tokens &= visible;
    if (tokens != 0) list.push_back({static_cast<uint32_t>(page), tokens});
  }
  return list;
}

// Most pages of a row at `position`, each a few tokens or eight together: what
// lies scattered; always the row's own token.
inline std::vector<Pick> RandomScatteredList(int64_t position,
                                             RandomSource& random) {
  const bool are_single = random.Chance(0.5);
  std::vector<Pick> list;
  for (int64_t page = 0; page * kPageTokens <= position; ++page) {
    const bool is_last = (page + 1) * kPageTokens > position;
    uint32_t tokens = 0;
    for (int i = static_cast<int>(random.Between(0, 3)); i > 0; --i) {
      tokens |= are_single ? 1u << random.Between(0, 31)
                           : 0xffu << (8 * random.Between(0, 3));
    }
    if (random.Chance(0.03)) tokens = ~0u;
    if (is_last) {
      const auto last = static_cast<int>(position % kPageTokens);
      tokens = (tokens | 1u << last) & ~0u >> (kPageTokens - 1 - last);
    }
    if (tokens != 0) list.push_back({static_cast<uint32_t>(page), tokens});
  }
  return list;
}

// The same scope for all rows of a request; some rows read every page.
inline ListsOfRows RandomLists(const KvShape& shape,
                               const std::vector<RequestRows>& requests,
                               double share, RandomSource& random) {
  ListsOfRows lists;
  for (const RequestRows& request : requests) {
    const int num_lists = random.Among(
        {1, shape.num_kv_heads, shape.num_kv_heads, shape.num_q_heads()});
    for (int32_t t = 0; t < request.num_tokens; ++t) {
      auto& row = lists.rows.emplace_back();
      if (random.Chance(0.1)) continue;
      const bool are_scattered = random.Chance(0.4);
      for (int list = 0; list < num_lists; ++list) {
        const int64_t position = request.first_position + t;
        row.lists.push_back(are_scattered
                                ? RandomScatteredList(position, random)
                                : RandomList(position, share, random));
      }
    }
  }
  return lists;
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CONFORMANCE_RANDOM_LISTS_H_
