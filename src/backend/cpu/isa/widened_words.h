// WidenedWords: bfloat16 and float16 as they are stored, widened where they are
// used: for sets without products of theirs, and for summaries of bfloat16 that
// float32 queries meet, as a gate's are. Nothing is copied: K and V are
// read where they lie. (Copied page by page as float32 into scratch first, a
// Attend of 32K tokens of bfloat16 took 1.6 to 2.5 times as long, by two CPUs
// of a Zen 3: bench/results/2026-11-26-a9cfe44-verbs-in-turn.json.) Weights
// stay float32.
//
// Written once over Stored, how numbers lie in words of two and become float32:
// - kQuery: what q is made of.
// - Load<kCount>: kCount words as two registers.
// - LoadQuery<kCount>: the same numbers of a query of `num_words`, from word
//   `word` on.
// - LoadValues<kCount>: 16 * kCount of V.
// - OrderColumns: those in their order.
#ifndef WINNOW_BACKEND_CPU_ISA_WIDENED_WORDS_H_
#define WINNOW_BACKEND_CPU_ISA_WIDENED_WORDS_H_

#include "backend/cpu/isa/float_words.h"
#include "backend/cpu/select/scores_by_key.h"

namespace winnow {

// Of a pair that stands in a word both are float32 by one instruction each. So
// q comes with its halves apart, and values are put in their order once a unit.
template <class Lanes>
struct StoredBFloat16 {
  using Register = typename Lanes::Register;
  using V = typename Register::V;
  static constexpr QueryWords kQuery = QueryWords::kHalvesApart;

  template <int kCount>
  [[gnu::always_inline]] static void Load(const std::byte* from, V& low,
                                          V& high) {
    V words =
        Register::template Load<kCount>(reinterpret_cast<const float*>(from));
    // GCC 12 would load again for each use.
    asm("" : "+v"(words));
    low = Register::LowHalf(words);
    high = Register::HighHalf(words);
  }
  template <int kCount>
  [[gnu::always_inline]] static void LoadQuery(const float* q, int num_words,
                                               int word, V& low, V& high) {
    low = Register::template Load<kCount>(q + word);
    high = Register::template Load<kCount>(q + num_words + word);
  }
  template <int kCount>
  [[gnu::always_inline]] static void LoadValues(
      const std::byte* v, typename Lanes::F (&to)[kCount]) {
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

// An instruction widens neighbours, so all is in its order.
template <class Lanes>
struct StoredFloat16 {
  using Register = typename Lanes::Register;
  using V = typename Register::V;
  static constexpr QueryWords kQuery = QueryWords::kFloat32;

  template <int kCount>
  [[gnu::always_inline]] static void Load(const std::byte* from, V& first,
                                          V& second) {
    Register::template LoadFloat16<kCount>(from, first, second);
  }
  template <int kCount>
  [[gnu::always_inline]] static void LoadQuery(const float* q, int, int word,
                                               V& first, V& second) {
    constexpr int kWords = Register::kWords;
    first = Register::template Load<kWords>(q + 2 * word);
    second = kCount == kWords
                 ? Register::template Load<kWords>(q + 2 * word + kWords)
                 : Register::Zero();
  }
  template <int kCount>
  [[gnu::always_inline]] static void LoadValues(
      const std::byte* v, typename Lanes::F (&to)[kCount]) {
    for (int i = 0; i < kCount; ++i) to[i] = Lanes::WidenFloat16(v + 32 * i);
  }
  static void OrderColumns(float*, int) {}
};

// Of ScoresByKey.
template <class Lanes, class Stored>
struct WidenedProducts {
  using Register = typename Lanes::Register;
  struct Words {
    typename Register::V low, high;
  };
  using Sums = typename Register::V;
  using Four = typename Register::Four;
  static constexpr int kWords = Register::kWords;
  static constexpr int kMaxRows = Register::kMaxRows;
  static constexpr int kKeys = Register::kKeys;
  static constexpr int kQueryFloats = 2;   // a word
  static constexpr int kElementBytes = 2;  // of K
  static constexpr bool kUnrolls = Register::kUnrolls;

  [[gnu::always_inline]] static Sums Zero() { return Register::Zero(); }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadKey(const std::byte* k) {
    Words words;
    Stored::template Load<kCount>(k, words.low, words.high);
    return words;
  }
  template <int kCount>
  [[gnu::always_inline]] static Words LoadQuery(const float* q, int num_words,
                                                int word) {
    Words words;
    Stored::template LoadQuery<kCount>(q, num_words, word, words.low,
                                       words.high);
    asm("" : "+v"(words.low), "+v"(words.high));  // as of keys
    return words;
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
template <class Lanes, template <class> class StoredIn>
struct WidenedWords : FloatWords<Lanes> {
  using F = typename Lanes::F;
  using Stored = StoredIn<Lanes>;
  static constexpr int kElementBytes = 2;
  using StoredKeys =
      ScoresByKey<WidenedProducts<Lanes, Stored>, FloatWords<Lanes>::kFarLevel>;

  template <int kCount, int kKeys>
  [[gnu::always_inline]] static void LoadValues(const std::byte* v, int,
                                                F (&to)[kCount]) {
    static_assert(kKeys == 1);
    Stored::LoadValues(v, to);
  }
  static void OrderColumns(float* values, int count) {
    Stored::OrderColumns(values, count);
  }
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_WIDENED_WORDS_H_
