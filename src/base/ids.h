// Strong integers that cannot be confused with one another.
#ifndef WINNOW_BASE_IDS_H_
#define WINNOW_BASE_IDS_H_

#include <cstdint>
#include <functional>

namespace winnow {

// An integer that converts to and from Rep explicitly. Ordered, hashable.
template <typename Tag, typename Rep>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_ = 0;
};

// A KV block of a tier's pool: one page of one sequence over all layers.
using KvBlockId = Id<struct KvBlockTag, uint32_t>;
// A request. Never reused within a process.
using SequenceId = Id<struct SequenceTag, uint64_t>;

// Consecutive tokens of one sequence in a page.
inline constexpr int kPageTokens = 32;

// Pages needed to hold `num_tokens` tokens.
constexpr int64_t PagesFor(int64_t num_tokens, int page_tokens = kPageTokens) {
  return (num_tokens + page_tokens - 1) / page_tokens;
}

}  // namespace winnow

template <typename Tag, typename Rep>
struct std::hash<winnow::Id<Tag, Rep>> {
  size_t operator()(winnow::Id<Tag, Rep> id) const {
    return std::hash<Rep>()(id.value());
  }
};

#endif  // WINNOW_BASE_IDS_H_
