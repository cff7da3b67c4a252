#include "kv/table_room.h"

#include <algorithm>

#include "kv/slot_ledger.h"

namespace winnow {

int64_t NumTablePages(const TableRoom& room) {
  return room.num_host_extents +
         std::min(room.max_sequences, kTableSharers) * room.num_extents;
}

int64_t NumPromptTablePages(const TableRoom& room) {
  return room.num_host_extents + room.num_extents;
}

int64_t NumSlotSegments(const TableRoom& room) {
  return room.num_host_extents / kSlotSegmentPages +
         2 * std::min<int64_t>(room.max_sequences, room.num_host_extents);
}

int64_t NumSlotChunks(const TableRoom& room, int num_layers,
                      int64_t layer_frames) {
  const int64_t num_frames =
      std::min(room.max_sequences * layer_frames, room.num_extents) *
      num_layers;
  // And one that is not full for each (sequence, layer).
  return num_frames / kSlotChunkFrames +
         int64_t{room.max_sequences} * num_layers;
}

}  // namespace winnow
