// WidenedWords: bfloat16 as it is stored, widened where it is used, for sets
// without products of bfloat16. Nothing is copied: K and V are read where they
// lie. (Copied page by page as float32 into scratch first, a Read of 32K tokens
// took 1.6 to 2.5 times as long, by two CPUs of a Zen 3:
// bench/results/2026-11-26-a9cfe44-verbs-in-turn.json.)
//
// Of a pair that stands in a word both are float32 by one instruction each. So
// q comes with its halves apart (QueryWords), and values are put in their order
// once a unit. Weights stay float32.
#ifndef WINNOW_BACKEND_CPU_WIDENED_WORDS_H_
#define WINNOW_BACKEND_CPU_WIDENED_WORDS_H_

#include "backend/cpu/float_words.h"
#include "backend/cpu/scores_by_key.h"

namespace winnow {

// Of ScoresByKey, over a Register: a vector of words, and what it is as
// float32.
template <class Register>
struct WidenedProducts {
  struct Words {
    typename Register::V low, high;
  };
  using Sums = typename Register::V;
  using Four = typename Register::Four;
  static constexpr int kWords = Register::kWords;
  static constexpr int kMaxRows = Register::kMaxRows;
  static constexpr int kKeys = Register::kKeys;
  static constexpr int kQueryFloats = 2;  // a word
  static constexpr bool kUnrolls = Register::kUnrolls;

  [[gnu::always_inline]] static Sums Zero() { return Register::Zero(); }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadKey(const std::byte* k) {
    auto words =
        Register::template Load<kCount>(reinterpret_cast<const float*>(k));
    // GCC 12 would load again for each use.
    asm("" : "+v"(words));
    return {Register::LowHalf(words), Register::HighHalf(words)};
  }
  // Words from `word` on of a query of `num_words`.
  template <int kCount>
  [[gnu::always_inline]] static Words LoadQuery(const float* q, int num_words,
                                                int word) {
    auto low = Register::template Load<kCount>(q + word);
    auto high = Register::template Load<kCount>(q + num_words + word);
    asm("" : "+v"(low), "+v"(high));  // as of keys
    return {low, high};
  }
  [[gnu::always_inline]] static Sums MultiplyAdd(Words k, Words q, Sums sum) {
    return Register::MultiplyAdd(k.high, q.high,
                                 Register::MultiplyAdd(k.low, q.low, sum));
  }
  [[gnu::always_inline]] static Sums AddLanes(Sums first, Sums second) {
    return Register::AddLanes(first, second);
  }
  [[gnu::always_inline]] static Four AddPairs(Sums first, Sums second) {
    return Register::AddPairs(first, second);
  }
  [[gnu::always_inline]] static void Store(float* to, const Four (&of)[4]) {
    Register::Store(to, of);
  }
};

// Of a unit.
template <class Lanes>
struct WidenedWords : FloatWords<Lanes> {
  using F = typename Lanes::F;
  static constexpr int kElementBytes = 2;
  using StoredKeys = ScoresByKey<WidenedProducts<typename Lanes::Register>,
                                 FloatWords<Lanes>::kFarLevel>;

  template <int kCount, int kKeys>
  [[gnu::always_inline]] static void LoadValues(const std::byte* v, int,
                                                F (&to)[kCount]) {
    static_assert(kKeys == 1);
    if constexpr (kCount == 1) {
      to[0] = Lanes::Widen(v);
    } else {
      for (int i = 0; i < kCount; i += Lanes::kApartVectors) {
        Lanes::WidenApart(v + 32 * i, to + i);
      }
    }
  }
  static void OrderColumns(float* values, int count) {
    for (int i = 0; i < count; i += 16 * Lanes::kApartVectors) {
      Lanes::OrderApart(values + i);
    }
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_WIDENED_WORDS_H_
