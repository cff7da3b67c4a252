// PackedKeys: picked tokens side by side, where they lie scattered over pages.
#ifndef WINNOW_BACKEND_CPU_SELECT_PACKED_KEYS_H_
#define WINNOW_BACKEND_CPU_SELECT_PACKED_KEYS_H_

#include <span>

#include "backend/contract/picks.h"
#include "backend/cpu/attend/attend_workspace.h"
#include "backend/cpu/isa/vector_kernels.h"

namespace winnow {

// Kernels take in sixteen keys where one of them is picked, and have as much to
// do around a tile of few keys as around a full one. Of single tokens, as
// clusters have them, two or three are picked a page: packed, the four pages of
// a tile are half a page. What is packed depends on the picks alone; a run of
// tokens never is, so that what reads everything keeps its bits. Owns nothing:
// a tile's keys and values are the caller's scratch.
class PackedKeys {
 public:
  // As many picks are packed together, at most.
  static constexpr int kMaxPicks = 16;

  // Numbers of a token's key and value, and the bytes of each.
  struct Shape {
    int k_stride = 0;
    int v_stride = 0;  // 0: values are in the keys
    int64_t element_bytes = 0;
  };
  PackedKeys(const Shape& shape, ScratchCutter& scratch);

  // How many of `picks`, from the first one on, are packed into one tile. Fours
  // are added while a tile has room for their tokens and all of them are
  // scattered: packed, they take two thirds of their half pages at most, and
  // two fewer. 0: the first four are read as they lie.
  static int NumTogether(std::span<const Pick> picks);

  static int CountTokens(const TileKeys& tile);
  // Copies the picked tokens of `tile` behind `num_tokens` that are packed;
  // returns how many are then.
  int Add(const TileKeys& tile, int num_tokens) const;
  // What `num_tokens` packed tokens of such tiles are read as.
  TileKeys Packed(const TileKeys& tile, int num_tokens) const;

 private:
  const int64_t k_bytes_, v_bytes_;  // of a token
  std::byte* const k_;               // [kTileKeys, k_stride]
  std::byte* const v_;               // [kTileKeys, v_stride]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_SELECT_PACKED_KEYS_H_
