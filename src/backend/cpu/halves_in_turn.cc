#include "backend/cpu/halves_in_turn.h"

#include <algorithm>

#include "backend/preconditions.h"

namespace winnow {
namespace {

bool Reads(const TileKeys& keys, int half) {
  const int first = half * kHalfTokens;
  if (first + kHalfTokens <= keys.begin || first >= keys.end) return false;
  return !keys.picked ||
         (keys.tokens[half / kPageHalves] >> half % kPageHalves * kHalfTokens &
          0xffff) != 0;
}

int InHalves(int bytes, int64_t half_bytes, int least, int most) {
  return static_cast<int>(std::clamp<int64_t>(bytes / half_bytes, least, most));
}

}  // namespace

int CountHalves(const TileKeys& keys, int begin, int end) {
  int count = 0;
  for (int i = begin * kPageHalves; i < end * kPageHalves; ++i) {
    count += Reads(keys, i);
  }
  return keys.v[0] == nullptr ? count : 2 * count;
}

HalvesInTurn::HalvesInTurn(int far_bytes, int near_bytes, int64_t half_bytes,
                           int pages_at_once)
    : far_(InHalves(far_bytes, half_bytes, kFarAgain, kMaxAhead)),
      near_(InHalves(near_bytes, half_bytes, kPageHalves, far_)),
      pages_at_once_(pages_at_once) {}

void HalvesInTurn::Add(std::span<const TileKeys> units) {
  const int num_left = end_ - begin_;
  CHECK(num_left <= kMaxAdded && units.size() <= kMaxItemHeads,
        "left={} units={}", num_left, units.size());
  std::copy(halves_.begin() + begin_, halves_.begin() + end_, halves_.begin());
  begin_ = 0;
  end_ = num_left;
  const auto add = [&](const TileKeys& keys,
                       const std::byte* const(&halves)[kTileHalves], int page) {
    const int end = (page + pages_at_once_) * kPageHalves;
    for (int i = page * kPageHalves; i < end; ++i) {
      if (Reads(keys, i)) halves_[static_cast<size_t>(end_++)] = halves[i];
    }
  };
  for (int page = 0; page < kTilePages; page += pages_at_once_) {
    for (const TileKeys& keys : units) {
      add(keys, keys.k, page);
      if (keys.v[0] != nullptr) add(keys, keys.v, page);
    }
  }
  if (end_ == 0) return;
  std::fill_n(halves_.begin() + end_, kMaxAhead,
              halves_[static_cast<size_t>(end_ - 1)]);
}

HalvesAhead HalvesInTurn::Take(int count) {
  CHECK(count <= end_ - begin_, "count={} left={}", count, end_ - begin_);
  const std::byte* const* at = halves_.data() + begin_;
  begin_ += count;
  return {at + far_, at + near_};
}

}  // namespace winnow
