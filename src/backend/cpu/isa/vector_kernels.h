// What the attention kernels compute and which there are. Plain data and plain
// functions: a kernel file is compiled for one instruction set, so it shares
// no inline function with the rest of the program but such as are always
// inlined, of which no copy is linked.
#ifndef WINNOW_BACKEND_CPU_ISA_VECTOR_KERNELS_H_
#define WINNOW_BACKEND_CPU_ISA_VECTOR_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace winnow {

// Keys that a kernel takes in at a time, of four pages: a prompt's tile, or a
// unit (of scattered picks a part of one).
inline constexpr int kTileKeys = 128;
inline constexpr int kTilePages = 4;
inline constexpr int kTilePageTokens = 32;
// What a unit reads of a page: its halves that hold a token that is picked.
inline constexpr int kHalfTokens = 16;
inline constexpr int kTileHalves = kTileKeys / kHalfTokens;
inline constexpr int kPageHalves = kTilePageTokens / kHalfTokens;
// Rows of a prompt's tile: (token, q head of the group) pairs, side by side as
// the lanes of four vectors, so that they share every load of K and V.
inline constexpr int kTileRows = 64;
// Rows of a unit: the q heads of a group, for one token or a few.
inline constexpr int kUnitRows = 16;
// The maximum of a row that has seen no key yet, in place of minus infinity:
// the difference of two of these is zero and not NaN.
inline constexpr float kNoKeyYet = -1e30f;

// A word is what a product multiplies at a time: a float32, or a pair of 16-bit
// numbers that stand side by side.

// What q is made of; query_words.h lays it out. Halves apart: float32, first
// those that a word of bfloat16 has first, then the others.
enum class QueryWords { kFloat32, kBFloat16, kHalvesApart };

// What a kernel fetches while it reads halves of pages, the i-th half that it
// reads beside: the lines that lie in far[i] and in near[i], which it reads
// later and soon, as those it reads lie in theirs. Each [16, stride]; where
// `far` is null: nothing. The kFarAgain before far[0] are there too.
inline constexpr int kFarAgain = 2;
struct HalvesAhead {
  const std::byte* const* far = nullptr;
  const std::byte* const* near = nullptr;
};

// The keys and values of one tile; the halves of a page may lie apart.
// Positions are those of the request, but where `picked`: then the pages are
// any four, or what was copied from some, and a key's place in them counts.
// Kernels touch only pages that hold a key of [begin, end), and of V only these
// keys' rows: what lies behind may be anything.
struct TileKeys {
  const std::byte* k[kTileHalves] = {};  // each [16, k_stride]
  const std::byte* v[kTileHalves] = {};  // each [16, v_stride]
  int k_stride = 0;                      // in elements
  int v_stride = 0;
  int k_dim = 0;  // both multiples of 16
  int v_dim = 0;
  int32_t first_position = 0;  // of key 0; a multiple of 128
  int begin = 0;               // no row sees a key before; a multiple of 4
  int end = 0;                 // no row sees key end or one behind it
  bool masked = false;         // some row does not see all of [begin, end)
  // A unit's rows see exactly the tokens of bits that are set, whatever their
  // first_key and last_key.
  bool picked = false;
  uint32_t tokens[kTilePages] = {};
  HalvesAhead ahead;
};

// Whether a key is read of the half that `key` is one of: what half a page's
// pick leaves in memory is not.
[[gnu::always_inline]] inline bool ReadsHalf(const TileKeys& keys, int key) {
  const int first = key / kHalfTokens * kHalfTokens;
  if (first + kHalfTokens <= keys.begin || first >= keys.end) return false;
  const int page = first / kTilePageTokens;
  const int in_page = first % kTilePageTokens;
  return !keys.picked || (keys.tokens[page] >> in_page & 0xffff) != 0;
}

// How a row's keys among [begin, end) are told: it sees all, a range, or the
// tokens of a mask.
enum class Seen { kAll, kRange, kTokens };

// The rows of a prompt's tile, with their running state. Arrays of lanes:
// [.., 64].
struct TileRows {
  const void* q = nullptr;             // words [k_dim words, 64]
  const int32_t* first_key = nullptr;  // [64]: a row sees positions
  const int32_t* last_key = nullptr;   // [64]  [first_key, last_key]
  // [4, 64]: bit t of a page's word: the row sees its token t; in place of
  // first_key and last_key. Or null.
  const uint32_t* tokens = nullptr;
  float scale_log2 = 0;       // scale * log2(e)
  float* maximum = nullptr;   // [64], of the scores times scale_log2
  float* sum = nullptr;       // [64], of 2^(score - maximum)
  float* values = nullptr;    // [v_dim, 64], weighted likewise
  float* scores = nullptr;    // scratch [128, 64]
  float* weights = nullptr;   // scratch words [128, 64]
  float* packed_v = nullptr;  // scratch words [64, v_dim]
};

// The rows of a unit, with their state: that of the unit's keys so far, from an
// empty one. Its sum and the order of its values are there behind the last page
// that has a key.
struct UnitRows {
  int num_rows = 0;                    // at most kUnitRows
  const void* q = nullptr;             // words [num_rows, k_dim words]
  const void* tiled_q = nullptr;       // words [k_dim words, 16], or null
  const int32_t* first_key = nullptr;  // [num_rows], as in TileRows
  const int32_t* last_key = nullptr;   // [num_rows]
  float scale_log2 = 0;
  float* maximum = nullptr;    // [num_rows + 16]; the last may be anything
  float* sum = nullptr;        // out: [num_rows]
  float* lane_sums = nullptr;  // [num_rows, 16]: what sum is the sum of
  float* values = nullptr;     // [num_rows, v_dim]
  float* kept = nullptr;       // scratch [num_rows + 16]
  float* scores = nullptr;     // scratch, or out: [num_rows, scores_stride]
  int64_t scores_stride = kTileKeys;  // as it is, where there are weights
  float* weights = nullptr;           // scratch words [num_rows, 128]
  // Scratch words [k_dim words, 32]; of unit_tile_bfloat16, floats [k_dim or
  // v_dim, the greater, 32].
  float* transposed_k = nullptr;
};

using TileKernel = void (*)(const TileKeys& keys, const TileRows& rows);
// Takes the keys of pages [begin, end) into the state of a unit's rows. The
// first page that has one begins it. REQUIRES: they have one, and pages before
// them were taken in.
using UnitKernel = void (*)(const TileKeys& keys, int begin, int end,
                            const UnitRows& rows);
// Writes the scores of the keys of pages [begin, end) alone; behind the last
// key of a page anything.
using ScoreKernel = void (*)(const TileKeys& keys, int begin, int end,
                             const UnitRows& rows);
// to[i] = from[i] for i < count, a multiple of 16, from bfloat16 or float16.
using WidenKernel = void (*)(const uint16_t* from, int64_t count, float* to);

// Rows of float8_e4m3, each with the float32 that its numbers are multiples of:
// a power of two, or NaN.
struct Float8Rows {
  const std::byte* first = nullptr;
  int64_t row_bytes = 0;  // from a row to the next one
  int64_t scale_at = 0;   // byte of a row
  int count = 0;
  int width = 0;  // numbers of a row
};
// to [count, width] of float32 or bfloat16 = what the rows mean.
using Float8Kernel = void (*)(const Float8Rows& rows, void* to);

// Keys of a segment, and what k-means makes of them. dim is a multiple of 16;
// keys and transposed have room for whole blocks of 32 keys.
struct ClusterKeys {
  const float* keys = nullptr;  // [num_keys, dim]
  float* transposed = nullptr;  // [blocks, dim, 32]
  int64_t num_keys = 0;
  int dim = 0;
  float* centroids = nullptr;  // [num_clusters, dim]
  int num_clusters = 0;
  int32_t* cluster = nullptr;  // [num_keys]
  int32_t* sizes = nullptr;    // [num_clusters]
};
// Below this a vector has no direction, and stays as it is.
inline constexpr float kLeastLength = 1e-20f;
using ClusterKernel = void (*)(const ClusterKeys& of);

// Scores of several heads; of each summary row those of all heads become one:
// the greatest, or their sum divided; -infinity where that is NaN.
struct HeadRows {
  const float* scores = nullptr;  // [num_heads, stride]
  int64_t stride = 0;
  int num_heads = 0;
  int64_t count = 0;  // of rows
  bool takes_greatest = true;
  float divisor = 1;
};
// Writes to[0, count); heads are taken in ascending order.
using ReduceKernel = void (*)(const HeadRows& of, float* to);

// A head's scores, whose weights go to `rows`: the exponential of each, over
// the sum of those of the normaliser's scores.
struct HeadScores {
  enum class To : uint8_t { kRows, kSums, kGreatest };
  const float* scores = nullptr;  // [count]
  int64_t count = 0;
  const float* normalizer = nullptr;  // [num_normalizer]; null: the scores
  int64_t num_normalizer = 0;
  float scale = 0;    // above 0
  float other = 0;    // one more of the normaliser's, scaled; -infinity: none
  To to = To::kRows;  // or added to what is there, or the greater of both
  float* rows = nullptr;  // [count]
  // [count], where the normaliser is the scores: scratch, or they themselves.
  float* weights = nullptr;
};
// False where it is left to plain arithmetic, and nothing is written: a score
// is NaN, or one of both infinities is there; the normaliser's greatest is 2^20
// or more, or there is none; a weight is 2^126 or more. In `rows` a NaN stays,
// as std::max has it.
using SoftmaxKernel = bool (*)(const HeadScores& of);

// values[i] = values[i] * keep + later[i] * take for i < count, a multiple of
// 16; both products are rounded.
using BlendKernel = void (*)(const float* later, int count, float keep,
                             float take, float* values);

// Which of some scores weigh so much together. REQUIRES: no NaN; size > 0; all
// weigh `least` or more, and less than 2^31.
struct CutTask {
  const float* scores = nullptr;     // [size]
  const int32_t* weights = nullptr;  // [size], none below 0; null: 1 each
  int64_t size = 0;
  int64_t least = 0;
  int64_t most = 0;         // at least `least`
  int32_t* keys = nullptr;  // [size]: scratch
};
// A score from which on all weigh `least` or more; and no more than `most`, or
// it is the greatest such; not one of them, perhaps. -0 is below 0: where the
// cut is 0, zeros of either sign reach it that are compared as floats.
using CutKernel = float (*)(const CutTask& of);
// maxima[g] = the greatest of scores g, g + num_groups, g + 2 num_groups, ...
// below count, for g < num_groups <= count.
using MaximaKernel = void (*)(const float* scores, int64_t count,
                              int64_t num_groups, float* maxima);
// Writes those of scores[0, count) that are `least` or more to kept, which may
// be scores itself, and their indices, ascending, and returns how many. What
// lies behind them in kept[0, count) and indices[0, count) may be anything.
using ScoresFromKernel = int64_t (*)(const float* scores, int64_t count,
                                     float least, float* kept,
                                     int32_t* indices);

// One set. The bfloat16 and float16 kernels are null where a set has none: K, V
// and q are then widened to float32. Those of bfloat16's units and scores take
// q as `bfloat16_query` says, of bfloat16, but where it is said otherwise;
// float16's take it as float32.
struct VectorKernels {
  TileKernel tile_float32 = nullptr;
  UnitKernel unit_float32 = nullptr;
  TileKernel tile_bfloat16 = nullptr;
  UnitKernel unit_bfloat16 = nullptr;
  QueryWords bfloat16_query = QueryWords::kBFloat16;
  UnitKernel unit_float16 = nullptr;
  // The same with tiled_q as well, of a k_dim and v_dim that are multiples of
  // 32, for whole units; or null.
  UnitKernel unit_tile_bfloat16 = nullptr;
  // How far ahead of what is read lies what is fetched from near:
  // halves_in_turn.h.
  int near_bytes = 4096;
  // Scores alone, of which Select makes use: K may be summaries.
  ScoreKernel score_float32 = nullptr;
  ScoreKernel score_bfloat16 = nullptr;
  // Of float32 queries, their halves apart; there if score_bfloat16 is.
  ScoreKernel score_widened_bfloat16 = nullptr;
  ScoreKernel score_float16 = nullptr;
  // K is rows of float8_e4m3, k_stride bytes each, with their scale behind
  // k_dim numbers, a multiple of 64; of bfloat16 queries. Or null: the bits are
  // those of rows that pair_float8 has widened and score_bfloat16 scored, but
  // where either over- or underflows.
  ScoreKernel score_float8 = nullptr;
  // The same with tiled_q alone, of whole tiles, a k_dim that is a multiple of
  // 32 and keys that are read from 0 on and not picked; or null.
  ScoreKernel score_tile_bfloat16 = nullptr;
  BlendKernel blend = nullptr;
  CutKernel score_cut = nullptr;
  MaximaKernel group_maxima = nullptr;
  ScoresFromKernel scores_from = nullptr;
  ReduceKernel reduce_heads = nullptr;
  SoftmaxKernel softmax_scores = nullptr;
  // What ClusterKeys is made of: cluster_kernels.h.
  ClusterKernel transpose_keys = nullptr;
  ClusterKernel assign_keys = nullptr;
  ClusterKernel move_centroids = nullptr;
  WidenKernel widen_bfloat16 = nullptr;
  WidenKernel widen_float16 = nullptr;
  // One of both: pairs are for score_bfloat16, if that is there.
  Float8Kernel widen_float8 = nullptr;
  Float8Kernel pair_float8 = nullptr;
  // For a k_dim that is no multiple of the other one's.
  TileKernel narrow_tile_bfloat16 = nullptr;
  int tile_bfloat16_k_multiple = 16;
};

// One file each. REQUIRES: this CPU runs the set.
VectorKernels PortableVectorKernels();
VectorKernels Avx2VectorKernels();
VectorKernels Avx512VectorKernels();
VectorKernels Avx512Bf16VectorKernels();
VectorKernels AmxVectorKernels();
// Parts of the last: the unit, all of it at a time, and the scores of Select.
void AttendUnitAmx(const TileKeys& keys, int begin, int end,
                   const UnitRows& rows);
void ScoreTileAmx(const TileKeys& keys, int begin, int end,
                  const UnitRows& rows);
// score_float8. REQUIRES: this CPU has AVX512_VBMI, and runs kAvx512Bf16.
ScoreKernel Float8ScoreKernel(bool far_first);

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_ISA_VECTOR_KERNELS_H_
