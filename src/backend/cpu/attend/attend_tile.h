// The prompt kernel: 64 rows as lanes against the keys of one tile. Written
// once over Lanes (16 floats and what can be done with them) and Words (what
// K, V, q and the weights are made of).
//
// K is used as it is stored: each of its words is broadcast against the
// rows' words of q, which were packed once. So scores come out [key, row], a
// softmax needs no sum across lanes, and its weights are already laid out as
// the product with V wants them. The alternative, keys as lanes, needs K
// transposed for every tile and a row's maximum across lanes.
#ifndef WINNOW_BACKEND_CPU_ATTEND_ATTEND_TILE_H_
#define WINNOW_BACKEND_CPU_ATTEND_ATTEND_TILE_H_

#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// A step of 4 keys ends at a page's end.
inline constexpr int kKeyStep = 4;

// Where the last step of a tile ends.
inline int EndOfSteps(const TileKeys& keys) {
  return (keys.end + kKeyStep - 1) / kKeyStep * kKeyStep;
}

// scores [key, row] = K q, for 16 * kVectors rows from `row` on: keys
// ascending, each dot product a sum over ascending words.
template <class Lanes, class Words, int kVectors>
void TileScores(const TileKeys& keys, const TileRows& rows, int row) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  const int num_words = keys.k_dim / Words::kPerWord;
  const int stride = keys.k_stride / Words::kPerWord;
  const auto* q = static_cast<const float*>(rows.q) + row;
  const int end = EndOfSteps(keys);
  for (int key = keys.begin; key < end; key += kKeyStep) {
    const auto* k = reinterpret_cast<const float*>(keys.k[key / kHalfTokens]) +
                    key % kHalfTokens * stride;
    F acc[kKeyStep][kVectors];
    for (auto& of_key : acc) {
      for (F& a : of_key) a = Lanes::Zero();
    }
    for (int i = 0; i < num_words; ++i) {
      W of_q[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        of_q[v] = Words::Load(q + i * kTileRows + 16 * v);
      }
      for (int j = 0; j < kKeyStep; ++j) {
        const W of_k = Words::Broadcast(k + j * stride + i);
        for (int v = 0; v < kVectors; ++v) {
          acc[j][v] = Words::MultiplyAdd(of_q[v], of_k, acc[j][v]);
        }
      }
    }
    for (int j = 0; j < kKeyStep; ++j) {
      for (int v = 0; v < kVectors; ++v) {
        Lanes::Store(rows.scores + (key + j) * kTileRows + row + 16 * v,
                     acc[j][v]);
      }
    }
  }
}

// Weights of 16 rows: takes the tile's maximum into the state, turns scores
// into weights, adds them to the sum. Leaves in `keep` what the state so far
// must be multiplied by.
template <class Lanes, class Words, Seen kSeen>
void TileSoftmax(const TileKeys& keys, const TileRows& rows, int row,
                 float* keep) {
  using F = typename Lanes::F;
  const int end = EndOfSteps(keys);
  const float* scores = rows.scores + row;
  const auto range = Lanes::Range(rows.first_key + row, rows.last_key + row);
  // What a row does not see becomes `otherwise`.
  const auto seen = [&](int key, F x, F otherwise) {
    if constexpr (kSeen == Seen::kAll) {
      return x;
    } else if constexpr (kSeen == Seen::kRange) {
      return Lanes::Select(Lanes::Holds(range, keys.first_position + key), x,
                           otherwise);
    } else {
      const uint32_t* tokens =
          rows.tokens + key / kTilePageTokens * kTileRows + row;
      return Lanes::Select(Lanes::HaveBit(tokens, key % kTilePageTokens), x,
                           otherwise);
    }
  };
  F greatest = Lanes::Set(kNoKeyYet);
  for (int key = keys.begin; key < end; ++key) {
    const F score = Lanes::Load(scores + key * kTileRows);
    greatest = Lanes::Max(greatest, seen(key, score, Lanes::Set(kNoKeyYet)));
  }
  const F scale = Lanes::Set(rows.scale_log2);
  const F before = Lanes::Load(rows.maximum + row);
  F maximum = Lanes::Multiply(greatest, scale);
  if constexpr (kSeen != Seen::kAll) {
    // A row that sees nothing here keeps its state, whatever the scale.
    maximum = Lanes::Select(Lanes::Greater(greatest, Lanes::Set(kNoKeyYet)),
                            maximum, Lanes::Set(kNoKeyYet));
  }
  maximum = Lanes::Max(before, maximum);
  const F kept = Words::Exp2(Lanes::Subtract(before, maximum));
  F sum = Lanes::Multiply(Lanes::Load(rows.sum + row), kept);
  const auto weight_of = [&](int key) {
    const F score = Lanes::Load(scores + key * kTileRows);
    const F weight =
        seen(key, Words::Exp2(Lanes::MultiplySubtract(score, scale, maximum)),
             Lanes::Zero());
    sum = Lanes::Add(sum, weight);
    return weight;
  };
  float* weights = rows.weights + row;
  for (int key = keys.begin; key < end; key += Words::kPerWord) {
    Words::StoreWeights(weights + key / Words::kPerWord * kTileRows, key,
                        weight_of);
  }
  Lanes::Store(rows.maximum + row, maximum);
  Lanes::Store(rows.sum + row, sum);
  Lanes::Store(keep + row, kept);
}

// values [c, row] = values * keep + V^T weights, for 16 * kVectors rows from
// `row` on: each value a sum over ascending words of keys.
template <class Lanes, class Words, int kVectors>
void TileValues(const TileKeys& keys, const TileRows& rows, int row,
                const float* keep) {
  using F = typename Lanes::F;
  using W = typename Words::W;
  constexpr int kColumns = 4;
  F kept[kVectors];
  for (int v = 0; v < kVectors; ++v) kept[v] = Lanes::Load(keep + row + 16 * v);
  for (int c = 0; c < keys.v_dim; c += kColumns) {
    float* values = rows.values + c * kTileRows + row;
    F acc[kColumns][kVectors];
    for (int j = 0; j < kColumns; ++j) {
      for (int v = 0; v < kVectors; ++v) {
        acc[j][v] = Lanes::Multiply(
            Lanes::Load(values + j * kTileRows + 16 * v), kept[v]);
      }
    }
    Words::ForValueWords(keys, rows, c, [&](const float* of_v, int word) {
      W weight[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        weight[v] = Words::Load(rows.weights + word * kTileRows + row + 16 * v);
      }
      for (int j = 0; j < kColumns; ++j) {
        const W value = Words::Broadcast(of_v + j);
        for (int v = 0; v < kVectors; ++v) {
          acc[j][v] = Words::MultiplyAdd(weight[v], value, acc[j][v]);
        }
      }
    });
    for (int j = 0; j < kColumns; ++j) {
      for (int v = 0; v < kVectors; ++v) {
        Lanes::Store(values + j * kTileRows + 16 * v, acc[j][v]);
      }
    }
  }
}

// The weights of all rows; `keep` as in TileSoftmax.
template <class Lanes, class Words>
void TileWeights(const TileKeys& keys, const TileRows& rows, float* keep) {
  const bool masked = keys.masked || EndOfSteps(keys) != keys.end;
  for (int row = 0; row < kTileRows; row += 16) {
    if (!masked) {
      TileSoftmax<Lanes, Words, Seen::kAll>(keys, rows, row, keep);
    } else if (rows.tokens == nullptr) {
      TileSoftmax<Lanes, Words, Seen::kRange>(keys, rows, row, keep);
    } else {
      TileSoftmax<Lanes, Words, Seen::kTokens>(keys, rows, row, keep);
    }
  }
}

// The whole tile. kVectors: how many vectors of rows the registers hold beside
// four keys.
template <class Lanes, class Words, int kVectors>
void AttendTile(const TileKeys& keys, const TileRows& rows) {
  alignas(64) float keep[kTileRows];
  for (int row = 0; row < kTileRows; row += 16 * kVectors) {
    TileScores<Lanes, Words, kVectors>(keys, rows, row);
  }
  TileWeights<Lanes, Words>(keys, rows, keep);
  Words::PackValues(keys, rows);
  for (int row = 0; row < kTileRows; row += 16 * kVectors) {
    TileValues<Lanes, Words, kVectors>(keys, rows, row, keep);
  }
}

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ATTEND_ATTEND_TILE_H_
