#include "base/content_hash.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace winnow {
namespace {

// The linear congruence of C's rationale, its upper half a byte a number.
std::vector<std::byte> Pattern(size_t num_bytes) {
  std::vector<std::byte> bytes(num_bytes);
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1103515245 + 12345;
    byte = static_cast<std::byte>(state >> 16);
  }
  return bytes;
}

ContentHash HashOf(std::span<const std::byte> bytes, int num_threads = 1) {
  ThreadPool pool(num_threads);
  return HashContent(bytes, pool, {});
}

// By the Python package xxhash 4.1.0: xxh3_128 over its own digests of pieces.
TEST(ContentHashTest, IsXxh3OfThePiecesHashes) {
  const std::vector<std::byte> bytes = Pattern((9 << 20) + 3);
  const std::pair<size_t, const char*> expected[] = {
      {0, "2c0a8a99dc147d5445c3b49d035665b2"},
      {1, "50aebba34aa161e2bd4c1fd3a92088cc"},
      {1000, "a980f7b1b8edb451e9029434aac4f54a"},
      {(4 << 20) - 1, "1bb83e390e8df48313fde872707bb5e2"},
      {4 << 20, "ee674c335d96d4e6ff905c9436a27413"},
      {(4 << 20) + 1, "5099b0910b4177ee9bf012df27c1672d"},
      {(9 << 20) + 3, "06396a1717bba8badf74a69b7a380c33"}};
  for (const auto& [size, hex] : expected) {
    for (const int num_threads : {1, 3}) {
      EXPECT_EQ(HexOf(HashOf(std::span(bytes).first(size), num_threads)), hex)
          << size;
    }
  }
}

TEST(ContentHashTest, EveryByteCountsAndSoDoesItsPlace) {
  std::vector<std::byte> bytes = Pattern((8 << 20) + 100);
  const ContentHash whole = HashOf(bytes);
  for (const size_t at : {size_t{0}, size_t{4 << 20}, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(HashOf(bytes), whole) << at;
    bytes[at] ^= std::byte{1};
  }
  std::swap_ranges(bytes.begin(), bytes.begin() + (4 << 20),
                   bytes.begin() + (4 << 20));
  EXPECT_NE(HashOf(bytes), whole);
}

TEST(ContentHashTest, SaysHowFarItIs) {
  const std::vector<std::byte> bytes(300 << 20);
  ThreadPool pool(2);
  std::vector<int64_t> told;
  HashContent(bytes, pool, [&](int64_t done) { told.push_back(done); });
  EXPECT_EQ(told, (std::vector<int64_t>{256 << 20, 300 << 20}));
}

TEST(ContentHashTest, HexGoesThereAndBack) {
  const ContentHash hash = {.high = 0x0123456789abcdef, .low = 7};
  EXPECT_EQ(HexOf(hash), "0123456789abcdef0000000000000007");
  EXPECT_EQ(HashFromHex(HexOf(hash)), hash);
  for (const char* text :
       {"", "0123456789abcdef000000000000000",
        "0123456789abcdefx000000000000007", "0123456789abcdef00000000000000070",
        "-123456789abcdef0000000000000007",
        " 123456789abcdef0000000000000007"}) {
    EXPECT_FALSE(HashFromHex(text)) << text;
  }
}

}  // namespace
}  // namespace winnow
