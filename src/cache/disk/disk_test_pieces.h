// Texts and their KV, for tests of the disk tier.
#ifndef WINNOW_CACHE_DISK_DISK_TEST_PIECES_H_
#define WINNOW_CACHE_DISK_DISK_TEST_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/block_folder.h"
#include "kv/prefix_index.h"

namespace winnow {

// A text of full pages, and the pages' kinds.
struct TestText {
  std::string root;
  std::vector<int32_t> tokens;
  std::vector<PageKind> kinds;  // [pages]

  size_t num_pages() const { return kinds.size(); }
  PrefixPath path() const { return {root, tokens}; }
};

inline constexpr PageKind kKinds[] = {0, 1};
// Page i is digits[i] 32 times; its kind, 0 or 1, follows from the tens.
TestText TextOf(std::string root, std::span<const int> digits);
TestText Text(std::initializer_list<int> digits, std::string root = "root");
// Draws from few roots and digits, so that texts often begin alike.
TestText DrawText(std::mt19937& random, int max_pages);

// The content of a page of the text. It differs for every beginning of a text
// that ends with this page.
std::vector<std::byte> PieceOf(const TestText& text, size_t page,
                               int64_t piece_bytes);

// Memory that a piece is read into, `skew` bytes behind a block's boundary. A
// disk can transfer whole blocks alone.
class TestTarget {
 public:
  TestTarget(int64_t piece_bytes, int64_t skew);

  std::span<std::byte> piece() const;
  // True if nothing was written before or behind the piece.
  bool stays_within() const;

 private:
  int64_t piece_bytes_, begin_, memory_bytes_;
  BlockBuffer memory_;
};

}  // namespace winnow

#endif  // WINNOW_CACHE_DISK_DISK_TEST_PIECES_H_
