#include "cache/disk/disk_test_pieces.h"

#include <algorithm>
#include <cstring>

namespace winnow {

TestText TextOf(std::string root, std::span<const int> digits) {
  TestText text = {.root = std::move(root), .tokens = {}, .kinds = {}};
  for (const int digit : digits) {
    text.tokens.insert(text.tokens.end(), kPageTokens, digit);
    text.kinds.push_back(static_cast<PageKind>(digit / 10 % 2));
  }
  return text;
}

TestText Text(std::initializer_list<int> digits, std::string root) {
  return TextOf(std::move(root), std::vector<int>(digits));
}

TestText DrawText(std::mt19937& random, int max_pages) {
  const int digits_there[] = {0, 1, 10};
  std::vector<int> digits(1 + random() % static_cast<unsigned>(max_pages));
  for (int& digit : digits) digit = digits_there[random() % 3];
  return TextOf(random() % 3 == 0 ? "one" : "another", digits);
}

std::vector<std::byte> PieceOf(const TestText& text, size_t page,
                               int64_t piece_bytes) {
  std::vector<uint32_t> words(text.root.begin(), text.root.end());
  words.push_back(0);
  words.insert(words.end(), text.kinds.begin(),
               text.kinds.begin() + static_cast<ptrdiff_t>(page + 1));
  words.insert(
      words.end(), text.tokens.begin(),
      text.tokens.begin() + static_cast<ptrdiff_t>((page + 1) * kPageTokens));
  std::seed_seq seed(words.begin(), words.end());
  std::mt19937_64 random(seed);
  std::vector<std::byte> piece(static_cast<size_t>(piece_bytes));
  for (size_t i = 0; i < piece.size(); i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&piece[i], &word, std::min(sizeof(word), piece.size() - i));
  }
  return piece;
}

namespace {

constexpr std::byte kUntouched{0xee};

}  // namespace

TestTarget::TestTarget(int64_t piece_bytes, int64_t skew)
    : piece_bytes_(piece_bytes),
      begin_(kBlockBytes + skew),
      memory_bytes_((begin_ + piece_bytes) / kBlockBytes * kBlockBytes +
                    2 * kBlockBytes),
      memory_(AllocateBlocks(memory_bytes_)) {
  std::fill_n(memory_.get(), memory_bytes_, kUntouched);
}

std::span<std::byte> TestTarget::piece() const {
  return {memory_.get() + begin_, static_cast<size_t>(piece_bytes_)};
}

bool TestTarget::stays_within() const {
  const auto is_untouched = [](std::byte byte) { return byte == kUntouched; };
  const std::byte* piece = memory_.get() + begin_;
  return std::all_of(static_cast<const std::byte*>(memory_.get()), piece,
                     is_untouched) &&
         std::all_of(
             piece + piece_bytes_,
             static_cast<const std::byte*>(memory_.get()) + memory_bytes_,
             is_untouched);
}

}  // namespace winnow
