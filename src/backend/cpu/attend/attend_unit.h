// The unit kernel: a few rows against 128 keys, from an empty state, a page at
// a time with a running maximum: so the units of all KV heads of an item are
// read in the order in which their pages lie, each byte once
// (halves_in_turn.h). Keys are the lanes, since one token has fewer rows than a
// vector has lanes; a page's K is transposed into scratch on its way, once for
// all rows. (Transposed in registers and used at once, each broadcast of q
// meets one vector of keys and not two: 1.15 times the time at 4 rows.) Words
// that have StoredKeys need no transposed K: scores_by_key.h.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNIT_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNIT_H_

#include "backend/cpu/isa/prefetch_beside.h"
#include "backend/cpu/isa/prefetch_cursor.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Fetches as a kernel of Words does.
template <class Words>
using PrefetchCursorOf = PrefetchCursor<Words::kFarLevel>;

// Those of a page.
[[gnu::always_inline]] inline int CountReadHalves(const TileKeys& keys,
                                                  int page) {
  const int first = page * kTilePageTokens;
  return ReadsHalf(keys, first) + ReadsHalf(keys, first + kHalfTokens);
}

// Of the unit's pages that have a key, the first and the last.
[[gnu::always_inline]] inline bool BeginsUnit(const TileKeys& keys, int page) {
  return page <= keys.begin / kTilePageTokens;
}
[[gnu::always_inline]] inline bool EndsUnit(const TileKeys& keys, int page) {
  return (page + 1) * kTilePageTokens >= keys.end;
}

// Those of a page that a row may see: [begin, end).
struct PageKeys {
  int begin;
  int end;
};
[[gnu::always_inline]] inline PageKeys KeysOf(const TileKeys& keys, int page) {
  const int begin = page * kTilePageTokens;
  const int end = begin + kTilePageTokens;
  return {keys.begin > begin ? keys.begin : begin,
          keys.end < end ? keys.end : end};
}

// Leaves a page's K in scratch, word by word: [k_dim words, 32 tokens].
template <class Lanes, class Words>
void TransposePage(const TileKeys& keys, const UnitRows& rows, int page) {
  const int num_words = keys.k_dim / Words::kPerWord;
  const int stride = keys.k_stride / Words::kPerWord;
  // The number of words is a multiple of eight.
  const auto block = [&]<int kCount>(int token, int word) {
    typename Lanes::F of_k[16];
    const auto* k = reinterpret_cast<const float*>(
        keys.k[(page * kTilePageTokens + token) / kHalfTokens]);
    Lanes::Transpose16(k + word, stride, kCount, of_k);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      Lanes::Store(rows.transposed_k + (word + i) * kTilePageTokens + token,
                   of_k[i]);
    }
  };
  for (int token = 0; token < kTilePageTokens; token += 16) {
    if (!ReadsHalf(keys, page * kTilePageTokens + token)) continue;
    int word = 0;
    for (; word + 16 <= num_words; word += 16) {
      block.template operator()<16>(token, word);
    }
    if (word < num_words) block.template operator()<8>(token, word);
  }
}

// scores [row, key] of kRows rows from `row` on against one transposed page:
// each a sum over ascending words. Steps `prefetch` with each word; returns it.
template <class Lanes, class Words, int kRows>
PrefetchCursorOf<Words> RowsScores(const TileKeys& keys, const UnitRows& rows,
                                   int row, int page,
                                   PrefetchCursorOf<Words> prefetch) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  const int num_words = keys.k_dim / Words::kPerWord;
  const auto* q = static_cast<const float*>(rows.q) + row * num_words;
  F acc[kRows][2];
  for (auto& of_row : acc) of_row[0] = of_row[1] = Lanes::Zero();
  for (int i = 0; i < num_words; ++i) {
    prefetch.Step();
    const float* k = rows.transposed_k + i * kTilePageTokens;
    const W first = Words::Load(k);
    const W second = Words::Load(k + 16);
    for (int r = 0; r < kRows; ++r) {
      const W of_q = Words::Broadcast(q + r * num_words + i);
      acc[r][0] = Words::MultiplyAdd(first, of_q, acc[r][0]);
      acc[r][1] = Words::MultiplyAdd(second, of_q, acc[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* scores =
        rows.scores + (row + r) * rows.scores_stride + page * kTilePageTokens;
    Lanes::Store(scores, acc[r][0]);
    Lanes::Store(scores + 16, acc[r][1]);
  }
  return prefetch;
}

// x, of the keys of a vector; `otherwise` where row `row` does not see them.
template <class Lanes, Seen kSeen>
[[gnu::always_inline]] inline typename Lanes::F SeenOr(const TileKeys& keys,
                                                       const UnitRows& rows,
                                                       int row, int vector,
                                                       typename Lanes::F x,
                                                       float otherwise) {
  if constexpr (kSeen == Seen::kAll) {
    return x;
  } else if constexpr (kSeen == Seen::kRange) {
    const int32_t first_key = rows.first_key[row] - keys.first_position;
    const int32_t last_key = rows.last_key[row] - keys.first_position;
    return Lanes::Select(Lanes::KeysIn(16 * vector, first_key, last_key), x,
                         Lanes::Set(otherwise));
  } else {
    const uint32_t tokens = keys.tokens[vector / 2] >> (16 * (vector % 2));
    return Lanes::Select(Lanes::LanesOf(tokens & 0xffff), x,
                         Lanes::Set(otherwise));
  }
}

// Raises the maxima of kRows rows from `row` on to `greatest` of their scores;
// sets what is left of the sums of the keys before, and kept, which the values
// of those are still to be multiplied with.
template <class Lanes, class Words, int kRows>
[[gnu::always_inline]] inline void KeepState(
    const typename Lanes::F (&greatest)[kRows], bool begins,
    const UnitRows& rows, int row, typename Lanes::F (&maximum)[kRows],
    typename Lanes::F (&sum)[kRows]) {
  using F = typename Lanes::F;
  // A lane of each row.
  const F none = Lanes::Set(kNoKeyYet);
  const F top = Lanes::MaxOfEach(greatest);
  const F scaled =
      Lanes::Select(Lanes::Greater(top, none),
                    Lanes::Multiply(top, Lanes::Set(rows.scale_log2)), none);
  const F before = begins ? none : Lanes::Load(rows.maximum + row);
  const F after = Lanes::Max(before, scaled);
  float of_rows[16];
  Lanes::Store(of_rows, after);
  for (int r = 0; r < kRows; ++r) {
    rows.maximum[row + r] = of_rows[r];
    maximum[r] = Lanes::Set(of_rows[r]);
    sum[r] = Lanes::Zero();
  }
  if (begins) return;
  Lanes::Store(rows.kept + row, Words::Exp2(Lanes::Subtract(before, after)));
  for (int r = 0; r < kRows; ++r) {
    sum[r] = Lanes::Multiply(Lanes::Load(rows.lane_sums + 16 * (row + r)),
                             Lanes::Set(rows.kept[row + r]));
  }
}

// Maximum, weights of pages [begin, end) and sum of kRows rows from `row` on,
// side by side: of one alone each step waits for the one before. Vectors of
// keys are added in ascending order, at last the lanes in the order that Lanes
// fixes.
template <class Lanes, class Words, Seen kSeen, int kRows>
[[gnu::always_inline]] inline void RowsWeights(const TileKeys& keys, int begin,
                                               int end, const UnitRows& rows,
                                               int row) {
  using F = typename Lanes::F;
  constexpr int kPageVectors = kTilePageTokens / 16;
  const bool begins = BeginsUnit(keys, begin);
  const float* scores = rows.scores + row * kTileKeys;
  float* weights = rows.weights + row * kTileKeys;
  const auto score_of = [&](int r, int vector) {
    return Lanes::Load(scores + r * kTileKeys + 16 * vector);
  };
  F greatest[kRows];
  for (F& of_row : greatest) of_row = Lanes::Set(kNoKeyYet);
  for (int v = kPageVectors * begin; v < kPageVectors * end; ++v) {
    if (!ReadsHalf(keys, 16 * v)) continue;
    for (int r = 0; r < kRows; ++r) {
      greatest[r] = Lanes::Max(greatest[r],
                               SeenOr<Lanes, kSeen>(keys, rows, row + r, v,
                                                    score_of(r, v), kNoKeyYet));
    }
  }
  F maximum[kRows], sum[kRows];
  KeepState<Lanes, Words, kRows>(greatest, begins, rows, row, maximum, sum);
  const F scale = Lanes::Set(rows.scale_log2);
  for (int v = kPageVectors * begin; v < kPageVectors * end; ++v) {
    if (!ReadsHalf(keys, 16 * v)) continue;
    for (int r = 0; r < kRows; ++r) {
      const F weight =
          SeenOr<Lanes, kSeen>(keys, rows, row + r, v,
                               Words::Exp2(Lanes::MultiplySubtract(
                                   score_of(r, v), scale, maximum[r])),
                               0);
      sum[r] = Lanes::Add(sum[r], weight);
      Words::StoreKeyWeights(weights + r * kTileKeys, 16 * v, weight);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Lanes::Store(rows.lane_sums + 16 * (row + r), sum[r]);
    if (EndsUnit(keys, end - 1)) rows.sum[row + r] = Lanes::SumOf(sum[r]);
  }
}

// The same of all rows.
template <class Lanes, class Words, Seen kSeen>
void AllRowsWeights(const TileKeys& keys, int begin, int end,
                    const UnitRows& rows) {
  constexpr int kRows = Lanes::kUnitRowStep;
  int row = 0;
  for (; row + kRows <= rows.num_rows; row += kRows) {
    RowsWeights<Lanes, Words, kSeen, kRows>(keys, begin, end, rows, row);
  }
  for (; row < rows.num_rows; ++row) {
    RowsWeights<Lanes, Words, kSeen, 1>(keys, begin, end, rows, row);
  }
}

// Adds kKeys keys to sums of kRows rows: their columns are at v + at, their
// weights, a word of each row, at `weights`. Fetches as many lines beside.
template <class Words, int kKeys, bool kPrefetches, class F, int kRows,
          int kCount>
[[gnu::always_inline]] inline void AddKeys(
    const std::byte* v, int at, int row_bytes, const float* weights,
    const PrefetchBeside<Words::kFarLevel>& prefetch,
    F (&sums)[kRows][kCount]) {
  constexpr int kColumnBytes = 16 * kCount * Words::kElementBytes;
  typename Words::W value[kCount];
  Words::template LoadValues<kCount, kKeys>(v + at, row_bytes, value);
  for (int of_key = 0; kPrefetches && of_key < kKeys; ++of_key) {
    for (int i = 0; i < kColumnBytes; i += 64) {
      prefetch.Line(at + of_key * row_bytes + i);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const auto weight = Words::Broadcast(weights + r * kTileKeys);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      sums[r][i] = Words::MultiplyAdd(value[i], weight, sums[r][i]);
    }
  }
}

// Adds the page's keys to values [row, c] of kRows rows from `row` on and 16 *
// kCount columns from `c` on, in ascending words of keys.
template <class Lanes, class Words, int kRows, int kCount, bool kPrefetches>
void RowsColumns(const TileKeys& keys, int page, const UnitRows& rows, int row,
                 int c, int number) {
  constexpr int kPerWord = Words::kPerWord;
  float* values = rows.values + row * keys.v_dim + c;
  const bool begins = BeginsUnit(keys, page);
  // Unrolled, they stay in registers.
  typename Lanes::F sums[kRows][kCount];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const auto kept = begins ? Lanes::Zero() : Lanes::Set(rows.kept[row + r]);
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      const float* before = values + r * keys.v_dim + 16 * i;
      sums[r][i] =
          begins ? Lanes::Zero() : Lanes::Multiply(Lanes::Load(before), kept);
    }
  }
  const auto [begin, end] = KeysOf(keys, page);
  const int row_bytes = keys.v_stride * Words::kElementBytes;
  int half_end = 0;
  for (int key = begin; key < end; key = half_end) {
    const int half = key / kHalfTokens;
    half_end = (half + 1) * kHalfTokens;
    if (!ReadsHalf(keys, key)) continue;
    const std::byte* v = keys.v[half];
    const PrefetchBeside<Words::kFarLevel> prefetch(keys.ahead, number, v);
    ++number;
    const float* weights = rows.weights + row * kTileKeys + key / kPerWord;
    int at = key % kHalfTokens * row_bytes + c * Words::kElementBytes;
    const int last = half_end < end ? half_end : end;
    for (int i = 0; i < (last - key) / kPerWord; ++i) {
      AddKeys<Words, kPerWord, kPrefetches>(v, at, row_bytes, weights, prefetch,
                                            sums);
      at += kPerWord * row_bytes;
      ++weights;
    }
    // A word's second key may be none.
    if ((last - key) % kPerWord != 0) {
      AddKeys<Words, 1, kPrefetches>(v, at, row_bytes, weights, prefetch, sums);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      Lanes::Store(values + r * keys.v_dim + 16 * i, sums[r][i]);
    }
  }
}

template <class Lanes, class Words, int kRows, bool kPrefetches>
void RowsValues(const TileKeys& keys, int page, const UnitRows& rows, int row,
                int number) {
  constexpr int kVectors = Lanes::kUnitVectors;
  int c = 0;
  for (; c + 16 * kVectors <= keys.v_dim; c += 16 * kVectors) {
    RowsColumns<Lanes, Words, kRows, kVectors, kPrefetches>(keys, page, rows,
                                                            row, c, number);
  }
  for (; c < keys.v_dim; c += 16) {
    RowsColumns<Lanes, Words, kRows, 1, kPrefetches>(keys, page, rows, row, c,
                                                     number);
  }
}

// values [row, c] of all rows: what one pass over rows of V leaves in the first
// cache level, the others find there; the first fetches what stands ahead of
// the halves from `number` on.
template <class Lanes, class Words>
void PageValues(const TileKeys& keys, int page, const UnitRows& rows,
                int number) {
  constexpr int kRows = Lanes::kUnitRowStep;
  constexpr int kColumns = 16 * Lanes::kUnitVectors;
  int row = 0;
  if (rows.num_rows >= kRows) {
    RowsValues<Lanes, Words, kRows, true>(keys, page, rows, row, number);
    row = kRows;
  } else {
    RowsValues<Lanes, Words, 1, true>(keys, page, rows, row, number);
    row = 1;
  }
  for (; row + kRows <= rows.num_rows; row += kRows) {
    RowsValues<Lanes, Words, kRows, false>(keys, page, rows, row, number);
  }
  for (; row < rows.num_rows; ++row) {
    RowsValues<Lanes, Words, 1, false>(keys, page, rows, row, number);
  }
  if (!EndsUnit(keys, page)) return;
  for (row = 0; row < rows.num_rows; ++row) {
    Words::OrderColumns(rows.values + row * keys.v_dim,
                        keys.v_dim / kColumns * kColumns);
  }
}

// scores [row, key] of all rows against the page's keys that are read; fetches
// what stands ahead of their halves, of which the first has number `number`.
// Returns the next one's.
template <class Lanes, class Words>
int PageScores(const TileKeys& keys, int page, const UnitRows& rows,
               int number) {
  const int first_key = page * kTilePageTokens;
  if constexpr (requires { typename Words::StoredKeys; }) {
    for (int half = 0; half < kPageHalves; ++half) {
      const int key = first_key + half * kHalfTokens;
      if (!ReadsHalf(keys, key)) continue;
      Words::StoredKeys::Half(keys, rows, key, number);
      ++number;
    }
    return number;
  }
  const int num_halves = CountReadHalves(keys, page);
  constexpr int kRows = Lanes::kUnitRowStep;
  const int num_passes = rows.num_rows / kRows + rows.num_rows % kRows;
  TransposePage<Lanes, Words>(keys, rows, page);
  PrefetchCursorOf<Words> prefetch(
      keys.ahead, number, num_halves,
      kHalfTokens * keys.k_stride * Words::kElementBytes,
      num_passes * (keys.k_dim / Words::kPerWord));
  int row = 0;
  for (; row + kRows <= rows.num_rows; row += kRows) {
    prefetch = RowsScores<Lanes, Words, kRows>(keys, rows, row, page, prefetch);
  }
  for (; row < rows.num_rows; ++row) {
    prefetch = RowsScores<Lanes, Words, 1>(keys, rows, row, page, prefetch);
  }
  return number + num_halves;
}

// scores [row, key] of all rows against the keys of pages [begin, end).
template <class Lanes, class Words>
void UnitScores(const TileKeys& keys, int begin, int end,
                const UnitRows& rows) {
  int number = 0;
  for (int page = begin; page < end; ++page) {
    number = PageScores<Lanes, Words>(keys, page, rows, number);
  }
}

// Maximum, weights of pages [begin, end) and sum of all rows.
template <class Lanes, class Words>
void UnitWeights(const TileKeys& keys, int begin, int end,
                 const UnitRows& rows) {
  const bool masked = keys.masked || keys.begin % 16 != 0 || keys.end % 16 != 0;
  const auto weights = keys.picked ? AllRowsWeights<Lanes, Words, Seen::kTokens>
                       : masked    ? AllRowsWeights<Lanes, Words, Seen::kRange>
                                   : AllRowsWeights<Lanes, Words, Seen::kAll>;
  weights(keys, begin, end, rows);
}

// Page by page.
template <class Lanes, class Words>
void AttendUnit(const TileKeys& keys, int begin, int end,
                const UnitRows& rows) {
  int number = 0;
  for (int page = begin; page < end; ++page) {
    const int num_halves = CountReadHalves(keys, page);
    if (num_halves == 0) continue;
    PageScores<Lanes, Words>(keys, page, rows, number);
    UnitWeights<Lanes, Words>(keys, page, page + 1, rows);
    PageValues<Lanes, Words>(keys, page, rows, number + num_halves);
    number += 2 * num_halves;
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_UNIT_H_
