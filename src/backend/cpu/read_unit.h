// The unit kernel: a few rows against 128 keys, from an empty state. Keys are
// the lanes, since one token has fewer rows than a vector has lanes; a page's
// K is transposed into scratch on its way, once for all rows.
#ifndef WINNOW_BACKEND_CPU_READ_UNIT_H_
#define WINNOW_BACKEND_CPU_READ_UNIT_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// scores [row, key] of kRows rows from `row` on against one transposed page.
template <class Lanes, class Words, int kRows>
void UnitPageScores(const TileKeys& keys, const UnitRows& rows, int row,
                    int page) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  const int num_words = keys.k_dim / Words::kPerWord;
  const auto* q = static_cast<const float*>(rows.q) + row * num_words;
  F acc[kRows][2];
  for (auto& of_row : acc) of_row[0] = of_row[1] = Lanes::Zero();
  for (int i = 0; i < num_words; ++i) {
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
}

// Maximum, weights and sum of one row. Vectors of keys are added in ascending
// order, then the lanes in the order that Lanes fixes.
template <class Lanes, class Words>
void UnitSoftmax(const TileKeys& keys, const UnitRows& rows, int row) {
  using F = typename Lanes::F;
  const int first_vector = keys.begin / kTilePageTokens * 2;
  const int end_vector = (keys.end + 15) / 16;
  const int32_t first_key = rows.first_key[row] - keys.first_position;
  const int32_t last_key = rows.last_key[row] - keys.first_position;
  float* scores = rows.scores + row * kTileKeys;
  F greatest = Lanes::Set(kNoKeyYet);
  for (int v = first_vector; v < end_vector; ++v) {
    const F score =
        Lanes::Select(Lanes::KeysIn(16 * v, first_key, last_key),
                      Lanes::Load(scores + 16 * v), Lanes::Set(kNoKeyYet));
    Lanes::Store(scores + 16 * v, score);
    greatest = Lanes::Max(greatest, score);
  }
  const float top = Lanes::MaxOf(greatest);
  const float maximum = top > kNoKeyYet ? top * rows.scale_log2 : kNoKeyYet;
  F sum = Lanes::Zero();
  for (int v = first_vector; v < end_vector; ++v) {
    const F weight =
        Lanes::Select(Lanes::KeysIn(16 * v, first_key, last_key),
                      Words::Exp2(Lanes::MultiplySubtract(
                          Lanes::Load(scores + 16 * v),
                          Lanes::Set(rows.scale_log2), Lanes::Set(maximum))),
                      Lanes::Zero());
    sum = Lanes::Add(sum, weight);
    Words::StoreKeyWeights(rows.weights + row * kTileKeys, 16 * v, weight);
  }
  rows.maximum[row] = maximum;
  rows.sum[row] = Lanes::SumOf(sum);
}

// values [row, c] of kRows rows from `row` on: sums over ascending words.
template <class Lanes, class Words, int kRows>
void UnitValues(const TileKeys& keys, const UnitRows& rows, int row) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  constexpr int kVectors = Lanes::kUnitVectors;
  int c = 0;
  const auto columns = [&]<int kCount>() {
    F acc[kRows][kCount];
    for (auto& of_row : acc) {
      for (F& a : of_row) a = Lanes::Zero();
    }
    for (int key = keys.begin; key < keys.end; key += Words::kPerWord) {
      const float* weights =
          rows.weights + row * kTileKeys + key / Words::kPerWord;
      W value[kCount];
      for (int v = 0; v < kCount; ++v) {
        value[v] = Words::LoadValues(keys, key, c + 16 * v);
      }
      for (int r = 0; r < kRows; ++r) {
        const W weight = Words::Broadcast(weights + r * kTileKeys);
        for (int v = 0; v < kCount; ++v) {
          acc[r][v] = Words::MultiplyAdd(value[v], weight, acc[r][v]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kCount; ++v) {
        Lanes::Store(rows.values + (row + r) * keys.v_dim + c + 16 * v,
                     acc[r][v]);
      }
    }
  };
  for (; c + 16 * kVectors <= keys.v_dim; c += 16 * kVectors) {
    columns.template operator()<kVectors>();
  }
  for (; c < keys.v_dim; c += 16) columns.template operator()<1>();
}

// Fetches `num_rows` rows of `row_bytes` into the second cache level: a unit is
// too large for the first, and a page's slice ends before the hardware has
// seen a pattern in it. (Without this, decode ran at a third of its rate.)
[[gnu::always_inline]] inline void PrefetchRows(const std::byte* rows,
                                                int num_rows, int row_bytes) {
  if (rows == nullptr) return;
  for (int i = 0; i < num_rows * row_bytes; i += 64) {
    __builtin_prefetch(rows + i, 0, 2);
  }
}

template <class Lanes, class Words>
void ReadUnit(const TileKeys& keys, const UnitRows& rows) {
  constexpr int kRows = Lanes::kUnitRowStep;
  const int num_words = keys.k_dim / Words::kPerWord;
  const int stride = keys.k_stride / Words::kPerWord;
  const int end_page = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  const int word_bytes = 4 / Words::kPerWord;
  for (int page = keys.begin / kTilePageTokens; page < end_page; ++page) {
    const auto* k = reinterpret_cast<const float*>(keys.k[page]);
    PrefetchRows(keys.next_k[page], kTilePageTokens,
                 keys.k_stride * word_bytes);
    for (int token = 0; token < kTilePageTokens; token += 16) {
      for (int i = 0; i < num_words; i += 16) {
        Lanes::Transpose16(k + token * stride + i, stride, num_words - i,
                           rows.transposed_k + i * kTilePageTokens + token);
      }
    }
    PrefetchRows(keys.next_v[page], kTilePageTokens,
                 keys.v_stride * word_bytes);
    int row = 0;
    for (; row + kRows <= rows.num_rows; row += kRows) {
      UnitPageScores<Lanes, Words, kRows>(keys, rows, row, page);
    }
    for (; row < rows.num_rows; ++row) {
      UnitPageScores<Lanes, Words, 1>(keys, rows, row, page);
    }
  }
  for (int row = 0; row < rows.num_rows; ++row) {
    UnitSoftmax<Lanes, Words>(keys, rows, row);
  }
  int row = 0;
  for (; row + kRows <= rows.num_rows; row += kRows) {
    UnitValues<Lanes, Words, kRows>(keys, rows, row);
  }
  for (; row < rows.num_rows; ++row) {
    UnitValues<Lanes, Words, 1>(keys, rows, row);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_READ_UNIT_H_
