// PackedKeys: the tokens that a unit has picked, side by side, where they lie
// scattered over its pages.
#ifndef WINNOW_BACKEND_CPU_PACKED_KEYS_H_
#define WINNOW_BACKEND_CPU_PACKED_KEYS_H_

#include "backend/cpu/read_kernels.h"
#include "backend/cpu/read_workspace.h"

namespace winnow {

// Kernels take in sixteen keys where one of them is picked. Of single tokens,
// as clusters have them, two or three are picked a page: packed, the four pages
// of a unit are half a page. What is packed depends on the picks of the unit
// alone; a run of tokens never is, so that what reads everything keeps its
// bits. Owns nothing: one unit's keys and values are the caller's scratch.
class PackedKeys {
 public:
  // Numbers of a token's key and value, and the bytes of each.
  struct Shape {
    int k_stride = 0;
    int v_stride = 0;  // 0: values are in the keys
    int64_t element_bytes = 0;
  };
  PackedKeys(const Shape& shape, ScratchCutter& scratch);

  // Whether a unit that picks these tokens is packed: where that leaves at most
  // a third of its half pages, and so a page at most.
  static bool AreScattered(const uint32_t (&tokens)[kTilePages]);

  // The unit as Pack will leave it; fetches the keys and values that it takes.
  // REQUIRES: it is picked, and its tokens are scattered.
  TileKeys Find(const TileKeys& unit) const;

  // Copies the unit's tokens to where its packed keys are, until the next call.
  // REQUIRES: as above.
  void Pack(const TileKeys& unit) const;

 private:
  const int64_t k_bytes_, v_bytes_;  // of a token
  std::byte* const k_;               // [kTilePageTokens, k_stride]
  std::byte* const v_;               // [kTilePageTokens, v_stride]
};

}  // namespace winnow

#endif  // WINNOW_BACKEND_CPU_PACKED_KEYS_H_
