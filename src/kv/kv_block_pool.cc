#include "kv/kv_block_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace winnow {
namespace {

constexpr size_t kWordBits = 64;

uint64_t BitOf(size_t index) { return uint64_t{1} << (index % kWordBits); }

}  // namespace

KvBlockPool::KvBlockPool(int64_t num_kv_blocks) : num_free_(num_kv_blocks) {
  CHECK(num_kv_blocks >= 0 && num_kv_blocks <= kMaxKvBlocks,
        "num_kv_blocks={} at most {}", num_kv_blocks, kMaxKvBlocks);
  const auto size = static_cast<size_t>(num_kv_blocks);
  references_.resize(size);
  versions_.resize(size);
  free_bits_.resize((size + kWordBits - 1) / kWordBits, ~uint64_t{0});
  if (size % kWordBits != 0) free_bits_.back() = BitOf(size) - 1;
}

KvBlockPool::~KvBlockPool() {
  CHECK(num_in_use() == 0, "{} of {} KV blocks are still in use", num_in_use(),
        num_kv_blocks());
}

uint32_t KvBlockPool::num_references(KvBlockId id) const {
  CHECK(id.value() < references_.size(), "KV block={} num_kv_blocks={}",
        id.value(), num_kv_blocks());
  return references_[id.value()];
}

bool KvBlockPool::is_free(KvBlockId id) const {
  CHECK(id.value() < references_.size(), "KV block={} num_kv_blocks={}",
        id.value(), num_kv_blocks());
  return (free_bits_[id.value() / kWordBits] & BitOf(id.value())) != 0;
}

uint64_t KvBlockPool::version(KvBlockId id) const {
  CHECK(id.value() < versions_.size(), "KV block={} num_kv_blocks={}",
        id.value(), num_kv_blocks());
  return versions_[id.value()];
}

std::optional<KvBlockId> KvBlockPool::Take() {
  if (num_free_ == 0) return std::nullopt;
  while (free_bits_[first_word_] == 0) ++first_word_;
  uint64_t& word = free_bits_[first_word_];
  const size_t index =
      first_word_ * kWordBits + static_cast<size_t>(std::countr_zero(word));
  word &= word - 1;
  --num_free_;
  references_[index] = 1;
  ++versions_[index];
  return KvBlockId(static_cast<uint32_t>(index));
}

void KvBlockPool::Share(KvBlockId id) {
  CheckInUse(id);
  ++references_[id.value()];
}

void KvBlockPool::Release(KvBlockId id) {
  CheckInUse(id);
  if (--references_[id.value()] > 0) return;
  const size_t word = id.value() / kWordBits;
  free_bits_[word] |= BitOf(id.value());
  first_word_ = std::min(first_word_, word);
  ++num_free_;
}

void KvBlockPool::NewVersion(KvBlockId id) {
  CheckInUse(id);
  ++versions_[id.value()];
}

void KvBlockPool::CheckInUse(KvBlockId id) const {
  CHECK(num_references(id) > 0, "KV block={} is free", id.value());
}

}  // namespace winnow
