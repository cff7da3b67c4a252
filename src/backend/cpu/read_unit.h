// The unit kernel: a few rows against 128 keys, from an empty state. Keys are
// the lanes, since one token has fewer rows than a vector has lanes; a page's
// K is transposed into scratch on its way, once for all rows. (Transposed in
// registers and used at once, each broadcast of q meets one vector of keys and
// not two: 1.15 times the time at 4 rows.) Words that have StoredKeys need no
// transposed K: scores_by_key.h.
#ifndef WINNOW_BACKEND_CPU_READ_UNIT_H_
#define WINNOW_BACKEND_CPU_READ_UNIT_H_

#include "backend/cpu/read_kernels.h"

namespace winnow {

// Fetches bytes of pages ahead into the second cache level, a few with each
// step of this one: a unit is too large for the first level, a slice ends
// before the hardware has seen a pattern in it, and a burst of fetches waits
// for memory as loads would. Without this, decode ran at a third of its rate.
// What bounds it then is how many lines a core fetches at a time (on Zen 4 it
// reads 17 GB/s so, and no more without arithmetic), so every pass over rows
// and columns fetches its share: a pass that fetched nothing left memory idle
// (head_dim 128, 4 rows: 12 GB/s against 16).
template <int kBytes>
[[gnu::always_inline]] inline void Prefetch(const std::byte* from) {
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

// False where no token is picked of the 16 keys that `key` is one of: what half
// a page's pick leaves in memory.
[[gnu::always_inline]] inline bool SeesHalf(const TileKeys& keys, int key) {
  const int page = key / kTilePageTokens;
  return !keys.picked ||
         (keys.tokens[page] >> (key % kTilePageTokens / 16 * 16) & 0xffff) != 0;
}

// Leaves a page's K in scratch, word by word: [k_dim words, 32 tokens].
template <class Lanes, class Words>
void TransposePage(const TileKeys& keys, const UnitRows& rows, int page) {
  const int num_words = keys.k_dim / Words::kPerWord;
  const int stride = keys.k_stride / Words::kPerWord;
  const auto* k = reinterpret_cast<const float*>(keys.k[page]);
  // The number of words is a multiple of eight.
  const auto block = [&]<int kCount>(int token, int word) {
    typename Lanes::F of_k[16];
    Lanes::Transpose16(k + token * stride + word, stride, kCount, of_k);
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
// each a sum over ascending words.
template <class Lanes, class Words, int kRows>
void UnitPageScores(const TileKeys& keys, const UnitRows& rows, int row,
                    int page) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  const int num_words = keys.k_dim / Words::kPerWord;
  const auto* q = static_cast<const float*>(rows.q) + row * num_words;
  F acc[kRows][2];
  for (auto& of_row : acc) of_row[0] = of_row[1] = Lanes::Zero();
  const std::byte* next = keys.next_k[page];
  for (int i = 0; i < num_words; ++i) {
    // A page has 128 bytes for each word of a token.
    Prefetch<128>(next + 128 * i);
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
template <class Lanes, class Words, Seen kSeen>
void UnitSoftmax(const TileKeys& keys, const UnitRows& rows, int row) {
  using F = typename Lanes::F;
  const int first_vector = keys.begin / 16;
  const int end_vector = (keys.end + 15) / 16;
  const int32_t first_key = rows.first_key[row] - keys.first_position;
  const int32_t last_key = rows.last_key[row] - keys.first_position;
  const float* scores = rows.scores + row * kTileKeys;
  // What the row does not see becomes `otherwise`.
  const auto seen = [&](int vector, F x, float otherwise) {
    if constexpr (kSeen == Seen::kAll) {
      return x;
    } else if constexpr (kSeen == Seen::kRange) {
      return Lanes::Select(Lanes::KeysIn(16 * vector, first_key, last_key), x,
                           Lanes::Set(otherwise));
    } else {
      const uint32_t tokens = keys.tokens[vector / 2] >> (16 * (vector % 2));
      return Lanes::Select(Lanes::LanesOf(tokens & 0xffff), x,
                           Lanes::Set(otherwise));
    }
  };
  F greatest = Lanes::Set(kNoKeyYet);
  for (int v = first_vector; v < end_vector; ++v) {
    greatest =
        Lanes::Max(greatest, seen(v, Lanes::Load(scores + 16 * v), kNoKeyYet));
  }
  const float top = Lanes::MaxOf(greatest);
  const float maximum = top > kNoKeyYet ? top * rows.scale_log2 : kNoKeyYet;
  const F scale = Lanes::Set(rows.scale_log2);
  F sum = Lanes::Zero();
  for (int v = first_vector; v < end_vector; ++v) {
    const F score = Lanes::Load(scores + 16 * v);
    const F weight = seen(
        v,
        Words::Exp2(Lanes::MultiplySubtract(score, scale, Lanes::Set(maximum))),
        0);
    sum = Lanes::Add(sum, weight);
    Words::StoreKeyWeights(rows.weights + row * kTileKeys, 16 * v, weight);
  }
  rows.maximum[row] = maximum;
  rows.sum[row] = Lanes::SumOf(sum);
}

// A run of keys of one page, all of whose rows of V are read, and what is left
// to fetch meanwhile of the next unit's rows in their place.
struct ValueRun {
  int begin = 0;
  int end = 0;
  const std::byte* v = nullptr;  // of key `begin`
  int row_bytes = 0;
  const std::byte* next = nullptr;
  const std::byte* end_next = nullptr;
  int lines_a_step = 0;
};

// Adds the keys of a run to values [row, c] of kRows rows from `row` on and
// 16 * kCount columns from `c` on, in ascending words of keys.
template <class Lanes, class Words, int kRows, int kCount>
void UnitColumns(const TileKeys& keys, const UnitRows& rows, int row, int c,
                 ValueRun& run) {
  using W = typename Words::W;
  float* values = rows.values + row * keys.v_dim + c;
  typename Lanes::F acc[kRows][kCount];
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kCount; ++i) {
      acc[r][i] = Lanes::Load(values + r * keys.v_dim + 16 * i);
    }
  }
  const int row_bytes = run.row_bytes;
  const std::byte* v = run.v + c * (4 / Words::kPerWord);
  const float* weights =
      rows.weights + row * kTileKeys + run.begin / Words::kPerWord;
  const int num_lines = run.next < run.end_next ? run.lines_a_step : 0;
  const std::byte* next = run.next;
  const auto step = [&]<int kKeys>() {
    for (int i = 0; i < num_lines; ++i, next += 64) {
      __builtin_prefetch(next, 0, 2);
    }
    W value[kCount];
    Words::template LoadValues<kCount, kKeys>(v, row_bytes, value);
    for (int r = 0; r < kRows; ++r) {
      const W weight = Words::Broadcast(weights + r * kTileKeys);
      for (int i = 0; i < kCount; ++i) {
        acc[r][i] = Words::MultiplyAdd(value[i], weight, acc[r][i]);
      }
    }
    v += kKeys * row_bytes;
    ++weights;
  };
  int key = run.begin;
  for (; key + Words::kPerWord <= run.end; key += Words::kPerWord) {
    step.template operator()<Words::kPerWord>();
  }
  // A word's second key may be none.
  if (key < run.end) step.template operator()<1>();
  run.next = next;
  for (int r = 0; r < kRows; ++r) {
    for (int i = 0; i < kCount; ++i) {
      Lanes::Store(values + r * keys.v_dim + 16 * i, acc[r][i]);
    }
  }
}

template <class Lanes, class Words, int kRows>
void UnitRunValues(const TileKeys& keys, const UnitRows& rows, int row,
                   ValueRun& run) {
  constexpr int kVectors = Lanes::kUnitVectors;
  int c = 0;
  for (; c + 16 * kVectors <= keys.v_dim; c += 16 * kVectors) {
    UnitColumns<Lanes, Words, kRows, kVectors>(keys, rows, row, c, run);
  }
  for (; c < keys.v_dim; c += 16) {
    UnitColumns<Lanes, Words, kRows, 1>(keys, rows, row, c, run);
  }
}

// values [row, c] of all rows, a page at a time: what one pass over its rows of
// V leaves in the first cache level, the others find there, and the next unit's
// lines are fetched as they lie.
template <class Lanes, class Words>
void UnitValues(const TileKeys& keys, const UnitRows& rows) {
  constexpr int kRows = Lanes::kUnitRowStep;
  constexpr int kColumns = 16 * Lanes::kUnitVectors;
  for (int i = 0; i < rows.num_rows * keys.v_dim; i += 16) {
    Lanes::Store(rows.values + i, Lanes::Zero());
  }
  const int row_bytes = keys.v_stride * (4 / Words::kPerWord);
  const int num_passes = (rows.num_rows / kRows + rows.num_rows % kRows) *
                         (keys.v_dim / kColumns + keys.v_dim % kColumns / 16);
  const int step_bytes = Words::kPerWord * row_bytes;
  ValueRun run;
  run.row_bytes = row_bytes;
  run.lines_a_step = (step_bytes / 64 + num_passes - 1) / num_passes;
  for (int key = keys.begin; key < keys.end; key = run.end) {
    const int page = key / kTilePageTokens;
    const int run_end =
        keys.picked ? key / 16 * 16 + 16 : (page + 1) * kTilePageTokens;
    run.begin = key;
    run.end = run_end;
    if (!SeesHalf(keys, key)) continue;
    if (keys.end < run_end) run.end = keys.end;
    const int offset = key % kTilePageTokens * row_bytes;
    run.v = keys.v[page] + offset;
    run.next = keys.next_v[page] + offset;
    run.end_next = run.next + (run.end - key) * row_bytes;
    int row = 0;
    for (; row + kRows <= rows.num_rows; row += kRows) {
      UnitRunValues<Lanes, Words, kRows>(keys, rows, row, run);
    }
    for (; row < rows.num_rows; ++row) {
      UnitRunValues<Lanes, Words, 1>(keys, rows, row, run);
    }
  }
}

// scores [row, key] of all rows against the tile's keys.
template <class Lanes, class Words>
void UnitScores(const TileKeys& keys, const UnitRows& rows) {
  const int end_page = (keys.end + kTilePageTokens - 1) / kTilePageTokens;
  if constexpr (requires { typename Words::StoredKeys; }) {
    for (int key = keys.begin / 16 * 16; key < end_page * kTilePageTokens;
         key += 16) {
      if (SeesHalf(keys, key)) Words::StoredKeys::Half(keys, rows, key);
    }
    return;
  }
  constexpr int kRows = Lanes::kUnitRowStep;
  for (int page = keys.begin / kTilePageTokens; page < end_page; ++page) {
    TransposePage<Lanes, Words>(keys, rows, page);
    int row = 0;
    for (; row + kRows <= rows.num_rows; row += kRows) {
      UnitPageScores<Lanes, Words, kRows>(keys, rows, row, page);
    }
    for (; row < rows.num_rows; ++row) {
      UnitPageScores<Lanes, Words, 1>(keys, rows, row, page);
    }
  }
}

template <class Lanes, class Words>
void ReadUnit(const TileKeys& keys, const UnitRows& rows) {
  UnitScores<Lanes, Words>(keys, rows);
  const bool masked = keys.masked || keys.begin % 16 != 0 || keys.end % 16 != 0;
  for (int row = 0; row < rows.num_rows; ++row) {
    if (keys.picked) {
      UnitSoftmax<Lanes, Words, Seen::kTokens>(keys, rows, row);
    } else if (masked) {
      UnitSoftmax<Lanes, Words, Seen::kRange>(keys, rows, row);
    } else {
      UnitSoftmax<Lanes, Words, Seen::kAll>(keys, rows, row);
    }
  }
  UnitValues<Lanes, Words>(keys, rows);
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_READ_UNIT_H_
