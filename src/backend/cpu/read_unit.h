// The unit kernel: a few rows against 128 keys, from an empty state. Keys are
// the lanes, since one token has fewer rows than a vector has lanes; a page's
// K is transposed into scratch on its way, once for all rows. (Transposed in
// registers and used at once, each broadcast of q meets one vector of keys and
// not two: 1.15 times the time at 4 rows.) Words that have StoredKeys need no
// transposed K: scores_by_key.h.
#ifndef WINNOW_BACKEND_CPU_READ_UNIT_H_
#define WINNOW_BACKEND_CPU_READ_UNIT_H_

#include "backend/cpu/fetch_beside.h"
#include "backend/cpu/fetch_cursor.h"
#include "backend/cpu/read_kernels.h"

namespace winnow {

// Fetches as a kernel of Words does.
template <class Words>
using FetchCursorOf = FetchCursor<Words::kFarLevel>;

// False where no token is picked of the 16 keys that `key` is one of: what half
// a page's pick leaves in memory.
[[gnu::always_inline]] inline bool SeesHalf(const TileKeys& keys, int key) {
  const int page = key / kTilePageTokens;
  const int in_page = key % kTilePageTokens / kHalfTokens * kHalfTokens;
  return !keys.picked || (keys.tokens[page] >> in_page & 0xffff) != 0;
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
    if (!SeesHalf(keys, page * kTilePageTokens + token)) continue;
    int word = 0;
    for (; word + 16 <= num_words; word += 16) {
      block.template operator()<16>(token, word);
    }
    if (word < num_words) block.template operator()<8>(token, word);
  }
}

// scores [row, key] of kRows rows from `row` on against one transposed page:
// each a sum over ascending words. Steps `fetch` with each word; returns it.
template <class Lanes, class Words, int kRows>
FetchCursorOf<Words> UnitPageScores(const TileKeys& keys, const UnitRows& rows,
                                    int row, int page,
                                    FetchCursorOf<Words> fetch) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  const int num_words = keys.k_dim / Words::kPerWord;
  const auto* q = static_cast<const float*>(rows.q) + row * num_words;
  F acc[kRows][2];
  for (auto& of_row : acc) of_row[0] = of_row[1] = Lanes::Zero();
  for (int i = 0; i < num_words; ++i) {
    fetch.Step();
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
        rows.scores + (row + r) * kTileKeys + page * kTilePageTokens;
    Lanes::Store(scores, acc[r][0]);
    Lanes::Store(scores + 16, acc[r][1]);
  }
  return fetch;
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

// Maximum, weights and sum of kRows rows from `row` on, side by side: of one
// alone each step waits for the one before. Vectors of keys are added in
// ascending order, then the lanes in the order that Lanes fixes.
template <class Lanes, class Words, Seen kSeen, int kRows>
[[gnu::always_inline]] inline void UnitSoftmax(const TileKeys& keys,
                                               const UnitRows& rows, int row) {
  using F = typename Lanes::F;
  const int first_vector = keys.begin / 16;
  const int end_vector = (keys.end + 15) / 16;
  const float* scores = rows.scores + row * kTileKeys;
  float* weights = rows.weights + row * kTileKeys;
  // A vector without a token that is picked changes nothing.
  const auto skips = [&](int vector) {
    return kSeen == Seen::kTokens && !SeesHalf(keys, vector * kHalfTokens);
  };
  const auto score_of = [&](int r, int vector) {
    return Lanes::Load(scores + r * kTileKeys + 16 * vector);
  };
  F greatest[kRows];
  for (F& of_row : greatest) of_row = Lanes::Set(kNoKeyYet);
  for (int v = first_vector; v < end_vector; ++v) {
    if (skips(v)) continue;
    for (int r = 0; r < kRows; ++r) {
      greatest[r] = Lanes::Max(greatest[r],
                               SeenOr<Lanes, kSeen>(keys, rows, row + r, v,
                                                    score_of(r, v), kNoKeyYet));
    }
  }
  F maximum[kRows], sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    const float top = Lanes::MaxOf(greatest[r]);
    const float scaled = top > kNoKeyYet ? top * rows.scale_log2 : kNoKeyYet;
    rows.maximum[row + r] = scaled;
    maximum[r] = Lanes::Set(scaled);
    sum[r] = Lanes::Zero();
  }
  const F scale = Lanes::Set(rows.scale_log2);
  for (int v = first_vector; v < end_vector; ++v) {
    if (skips(v)) continue;
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
  for (int r = 0; r < kRows; ++r) rows.sum[row + r] = Lanes::SumOf(sum[r]);
}

// The same of all rows.
template <class Lanes, class Words, Seen kSeen>
void UnitRowsSoftmax(const TileKeys& keys, const UnitRows& rows) {
  constexpr int kRows = Lanes::kUnitRowStep;
  int row = 0;
  for (; row + kRows <= rows.num_rows; row += kRows) {
    UnitSoftmax<Lanes, Words, kSeen, kRows>(keys, rows, row);
  }
  for (; row < rows.num_rows; ++row) {
    UnitSoftmax<Lanes, Words, kSeen, 1>(keys, rows, row);
  }
}

// Adds keys [begin, end) of the unit to values [row, c] of kRows rows from
// `row` on and 16 * kCount columns from `c` on, in ascending words of keys.
template <class Lanes, class Words, int kRows, int kCount, bool kFetches>
void UnitColumns(const TileKeys& keys, const UnitRows& rows, int row, int c,
                 int begin, int end) {
  using W = typename Words::W;
  constexpr int kColumnBytes = 16 * kCount * 4 / Words::kPerWord;
  float* values = rows.values + row * keys.v_dim + c;
  typename Lanes::F acc[kRows][kCount];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kCount; ++i) {
      acc[r][i] = Lanes::Load(values + r * keys.v_dim + 16 * i);
    }
  }
  const int row_bytes = keys.v_stride * (4 / Words::kPerWord);
  int half_end = 0;
  for (int key = begin; key < end; key = half_end) {
    const int half = key / kHalfTokens;
    half_end = (half + 1) * kHalfTokens;
    if (!SeesHalf(keys, key)) continue;
    const std::byte* v = keys.v[half];
    const FetchBeside<Words::kFarLevel> fetch(keys.ahead_v[half], v);
    const float* weights =
        rows.weights + row * kTileKeys + key / Words::kPerWord;
    int at = key % kHalfTokens * row_bytes + c * (4 / Words::kPerWord);
    const auto step = [&]<int kKeys>() {
      W value[kCount];
      Words::template LoadValues<kCount, kKeys>(v + at, row_bytes, value);
      for (int of_row = 0; kFetches && of_row < kKeys; ++of_row) {
        for (int i = 0; i < kColumnBytes; i += 64) {
          fetch.Line(at + of_row * row_bytes + i);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        const W weight = Words::Broadcast(weights + r * kTileKeys);
        for (int i = 0; i < kCount; ++i) {
          acc[r][i] = Words::MultiplyAdd(value[i], weight, acc[r][i]);
        }
      }
      at += kKeys * row_bytes;
      ++weights;
    };
    const int last = end < half_end ? end : half_end;
    for (; key + Words::kPerWord <= last; key += Words::kPerWord) {
      step.template operator()<Words::kPerWord>();
    }
    // A word's second key may be none.
    if (key < last) step.template operator()<1>();
  }
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kCount; ++i) {
      Lanes::Store(values + r * keys.v_dim + 16 * i, acc[r][i]);
    }
  }
}

template <class Lanes, class Words, int kRows, bool kFetches>
void UnitRunValues(const TileKeys& keys, const UnitRows& rows, int row,
                   int begin, int end) {
  constexpr int kVectors = Lanes::kUnitVectors;
  int c = 0;
  for (; c + 16 * kVectors <= keys.v_dim; c += 16 * kVectors) {
    UnitColumns<Lanes, Words, kRows, kVectors, kFetches>(keys, rows, row, c,
                                                         begin, end);
  }
  for (; c < keys.v_dim; c += 16) {
    UnitColumns<Lanes, Words, kRows, 1, kFetches>(keys, rows, row, c, begin,
                                                  end);
  }
}

// values [row, c] of all rows: what one pass over rows of V leaves in the first
// cache level, the others find there; the first fetches. Where one pass takes
// all columns it is over the whole unit, whose sums stay in registers; else
// over a page.
template <class Lanes, class Words>
void UnitValues(const TileKeys& keys, const UnitRows& rows) {
  constexpr int kRows = Lanes::kUnitRowStep;
  constexpr int kColumns = 16 * Lanes::kUnitVectors;
  for (int i = 0; i < rows.num_rows * keys.v_dim; i += 16) {
    Lanes::Store(rows.values + i, Lanes::Zero());
  }
  const int run_keys = keys.v_dim == kColumns ? kTileKeys : kTilePageTokens;
  int end = 0;
  for (int begin = keys.begin; begin < keys.end; begin = end) {
    end = (begin / run_keys + 1) * run_keys;
    if (end > keys.end) end = keys.end;
    int row = 0;
    if (rows.num_rows >= kRows) {
      UnitRunValues<Lanes, Words, kRows, true>(keys, rows, row, begin, end);
      row = kRows;
    } else {
      UnitRunValues<Lanes, Words, 1, true>(keys, rows, row, begin, end);
      row = 1;
    }
    for (; row + kRows <= rows.num_rows; row += kRows) {
      UnitRunValues<Lanes, Words, kRows, false>(keys, rows, row, begin, end);
    }
    for (; row < rows.num_rows; ++row) {
      UnitRunValues<Lanes, Words, 1, false>(keys, rows, row, begin, end);
    }
  }
  for (int row = 0; row < rows.num_rows; ++row) {
    Words::OrderColumns(rows.values + row * keys.v_dim,
                        keys.v_dim / kColumns * kColumns);
  }
}

// scores [row, key] of all rows against the tile's keys.
template <class Lanes, class Words>
void UnitScores(const TileKeys& keys, const UnitRows& rows) {
  const int end_page = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  if constexpr (requires { typename Words::StoredKeys; }) {
    for (int key = keys.begin / kHalfTokens * kHalfTokens;
         key < end_page * kTilePageTokens; key += kHalfTokens) {
      if (SeesHalf(keys, key)) Words::StoredKeys::Half(keys, rows, key);
    }
    return;
  }
  constexpr int kRows = Lanes::kUnitRowStep;
  const int num_passes = rows.num_rows / kRows + rows.num_rows % kRows;
  for (int page = keys.begin / kTilePageTokens; page < end_page; ++page) {
    TransposePage<Lanes, Words>(keys, rows, page);
    FetchCursorOf<Words> fetch(
        keys.ahead_k + 2 * page, 2,
        kHalfTokens * keys.k_stride * (4 / Words::kPerWord),
        num_passes * (keys.k_dim / Words::kPerWord));
    int row = 0;
    for (; row + kRows <= rows.num_rows; row += kRows) {
      fetch = UnitPageScores<Lanes, Words, kRows>(keys, rows, row, page, fetch);
    }
    for (; row < rows.num_rows; ++row) {
      fetch = UnitPageScores<Lanes, Words, 1>(keys, rows, row, page, fetch);
    }
  }
}

// Maximum, weights and sum of all rows.
template <class Lanes, class Words>
void UnitWeights(const TileKeys& keys, const UnitRows& rows) {
  const bool masked = keys.masked || keys.begin % 16 != 0 || keys.end % 16 != 0;
  const auto softmax = keys.picked
                           ? UnitRowsSoftmax<Lanes, Words, Seen::kTokens>
                       : masked ? UnitRowsSoftmax<Lanes, Words, Seen::kRange>
                                : UnitRowsSoftmax<Lanes, Words, Seen::kAll>;
  softmax(keys, rows);
}

template <class Lanes, class Words>
void ReadUnit(const TileKeys& keys, const UnitRows& rows) {
  UnitScores<Lanes, Words>(keys, rows);
  UnitWeights<Lanes, Words>(keys, rows);
  UnitValues<Lanes, Words>(keys, rows);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_READ_UNIT_H_
