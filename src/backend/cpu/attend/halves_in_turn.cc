#include "backend/cpu/attend/halves_in_turn.h"

#include <algorithm>

#include "backend/preconditions.h"

namespace winnow {

static_assert(kFarAgain <= 2 * kPageHalves);

namespace {

int InHalves(int bytes, int64_t half_bytes, int least, int most) {
  return static_cast<int>(std::clamp<int64_t>(bytes / half_bytes, least, most));
}

}  // namespace

HalvesInTurn::HalvesInTurn(int near_bytes, int64_t half_bytes,
                           int pages_at_once)
    : far_(InHalves(kFarBytes, half_bytes, 2 * kPageHalves, kMaxAhead)),
      near_(InHalves(near_bytes, half_bytes, kPageHalves, far_)),
      pages_at_once_(pages_at_once) {}

void HalvesInTurn::Add(std::span<const TileKeys> units) {
  const int num_left = end_ - begin_;
  CHECK(num_left <= kMaxAdded && units.size() <= kMaxItemHeads,
        "left={} units={}", num_left, units.size());
  std::copy(halves_.begin() + begin_, halves_.begin() + end_, halves_.begin());
  begin_ = 0;
  end_ = num_left;
  ForEach(units.size(), [&](size_t unit, int page, int end) {
    const TileKeys& keys = units[unit];
    const auto add = [&](const std::byte* const(&halves)[kTileHalves]) {
      for (int i = page * kPageHalves; i < end * kPageHalves; ++i) {
        if (!ReadsHalf(keys, i * kHalfTokens)) continue;
        halves_[static_cast<size_t>(end_++)] = halves[i];
      }
    };
    add(keys.k);
    if (keys.v_dim > 0) add(keys.v);
  });
  if (end_ == 0) return;
  std::fill_n(halves_.begin() + end_, kMaxAhead,
              halves_[static_cast<size_t>(end_ - 1)]);
}

int HalvesInTurn::CountHalves(const TileKeys& keys, int page, int end) {
  int count = 0;
  for (int i = page * kPageHalves; i < end * kPageHalves; ++i) {
    count += ReadsHalf(keys, i * kHalfTokens);
  }
  return keys.v_dim > 0 ? 2 * count : count;
}

HalvesAhead HalvesInTurn::Take(int count) {
  if (begin_ == end_) return {};
  CHECK(count <= end_ - begin_, "count={} left={}", count, end_ - begin_);
  const std::byte* const* at = halves_.data() + begin_;
  begin_ += count;
  return {at + far_, at + near_};
}

}  // namespace winnow
