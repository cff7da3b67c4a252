#include "kv/extent_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace winnow {
namespace {

constexpr size_t kWordBits = 64;

uint64_t BitOf(size_t index) { return uint64_t{1} << (index % kWordBits); }

}  // namespace

ExtentPool::ExtentPool(int64_t num_extents) : num_free_(num_extents) {
  CHECK(num_extents >= 0 && num_extents <= kMaxExtents,
        "num_extents={} at most {}", num_extents, kMaxExtents);
  const auto size = static_cast<size_t>(num_extents);
  references_.resize(size);
  versions_.resize(size);
  free_bits_.resize((size + kWordBits - 1) / kWordBits, ~uint64_t{0});
  if (size % kWordBits != 0) free_bits_.back() = BitOf(size) - 1;
}

ExtentPool::~ExtentPool() {
  CHECK(num_in_use() == 0, "{} of {} extents are still in use", num_in_use(),
        num_extents());
}

uint32_t ExtentPool::num_references(ExtentId id) const {
  CHECK(id.value() < references_.size(), "extent={} num_extents={}", id.value(),
        num_extents());
  return references_[id.value()];
}

bool ExtentPool::is_free(ExtentId id) const {
  CHECK(id.value() < references_.size(), "extent={} num_extents={}", id.value(),
        num_extents());
  return (free_bits_[id.value() / kWordBits] & BitOf(id.value())) != 0;
}

uint64_t ExtentPool::version(ExtentId id) const {
  CHECK(id.value() < versions_.size(), "extent={} num_extents={}", id.value(),
        num_extents());
  return versions_[id.value()];
}

std::optional<ExtentId> ExtentPool::Take() {
  if (num_free_ == 0) return std::nullopt;
  while (free_bits_[first_word_] == 0) ++first_word_;
  uint64_t& word = free_bits_[first_word_];
  const size_t index =
      first_word_ * kWordBits + static_cast<size_t>(std::countr_zero(word));
  word &= word - 1;
  --num_free_;
  references_[index] = 1;
  ++versions_[index];
  return ExtentId(static_cast<uint32_t>(index));
}

void ExtentPool::Share(ExtentId id) {
  CheckInUse(id);
  ++references_[id.value()];
}

void ExtentPool::Release(ExtentId id) {
  CheckInUse(id);
  if (--references_[id.value()] > 0) return;
  const size_t word = id.value() / kWordBits;
  free_bits_[word] |= BitOf(id.value());
  first_word_ = std::min(first_word_, word);
  ++num_free_;
}

void ExtentPool::NewVersion(ExtentId id) {
  CheckInUse(id);
  ++versions_[id.value()];
}

void ExtentPool::CheckInUse(ExtentId id) const {
  CHECK(num_references(id) > 0, "extent={} is free", id.value());
}

}  // namespace winnow
