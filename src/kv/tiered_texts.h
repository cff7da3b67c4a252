// TieredTexts: a KvCache of two tiers for tests. Its texts are words of one
// page each. Header only.
#ifndef WINNOW_KV_TIERED_TEXTS_H_
#define WINNOW_KV_TIERED_TEXTS_H_

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/kv_cache.h"

namespace winnow {

constexpr std::array<PageKind, 1> kOneKind = {0};
using TierCopies = std::vector<TierCopy>;

inline TierCopy ToHost(uint32_t device, uint32_t host) {
  return {TierCopy::Direction::kToHost, KvBlockId(device), KvBlockId(host)};
}
inline TierCopy ToDevice(uint32_t host, uint32_t device) {
  return {TierCopy::Direction::kToDevice, KvBlockId(device), KvBlockId(host)};
}

class TieredTexts : public testing::Test {
 protected:
  void TearDown() override { ExpectSound(); }

  void Make(int64_t num_kv_blocks, int64_t num_host_kv_blocks) {
    cache_.emplace(num_kv_blocks, kPageTokens, num_host_kv_blocks);
  }
  void ExpectSound() {
    EXPECT_EQ(BrokenInvariants(cache_->Snapshot()), std::vector<std::string>());
    EXPECT_EQ(BrokenInvariants(cache_->prefixes().Snapshot()),
              std::vector<std::string>());
  }
  static std::vector<int32_t> Text(const std::vector<int32_t>& words) {
    std::vector<int32_t> tokens;
    for (const int32_t word : words) {
      tokens.insert(tokens.end(), kPageTokens, word);
    }
    return tokens;
  }
  PrefixHit Find(const std::vector<int32_t>& words,
                 std::span<const PageKind> kinds = kOneKind) {
    const std::vector<int32_t> tokens = Text(words);
    return cache_->prefixes().Find({"", tokens}, words.size(), kinds);
  }
  // The places of the pages that a request would find: 'd' for the device, 'h'
  // for the host alone.
  std::string Places(const std::vector<int32_t>& words) {
    const PrefixHit hit = Find(words);
    return std::string(hit.kv_blocks.size(), 'd') +
           std::string(hit.host_kv_blocks.size(), 'h');
  }
  void Grow(SequenceId sequence, int num_tokens) {
    const std::array<Growth, 1> growth = {{{sequence, num_tokens}}};
    std::optional<Reservation> room = cache_->Reserve(growth);
    ASSERT_TRUE(room.has_value());
    TakeCopies();
    room->Commit();
    cache_->Seal(sequence, cache_->num_tokens(sequence));
    ExpectSound();
  }
  // Tokens still missing from a sequence that will have `words`.
  int NumLeft(SequenceId sequence, const std::vector<int32_t>& words) const {
    return static_cast<int>(std::ssize(words)) * kPageTokens -
           cache_->num_tokens(sequence);
  }
  // The copies decided since the last call.
  TierCopies Decided() {
    TakeCopies();
    return std::exchange(copies_, {});
  }

  std::optional<KvCache> cache_;

 private:
  void TakeCopies() {
    for (const TierCopy& copy : cache_->TakeTierCopies()) {
      copies_.push_back(copy);
    }
  }
  TierCopies copies_;
};

}  // namespace winnow

#endif  // WINNOW_KV_TIERED_TEXTS_H_
