#include "kv/table_capacity.h"

#include <algorithm>

#include "kv/slot_ledger.h"

namespace winnow {

int64_t NumTablePages(const TableCapacity& room) {
  return room.num_host_kv_blocks +
         std::min(room.max_sequences, room.max_sharers) * room.num_kv_blocks;
}

int64_t NumPromptTablePages(const TableCapacity& room) {
  return room.num_host_kv_blocks + room.num_kv_blocks;
}

int64_t NumSlotSegments(const TableCapacity& room) {
  return room.num_host_kv_blocks / kSlotSegmentPages +
         2 * std::min<int64_t>(room.max_sequences, room.num_host_kv_blocks);
}

int64_t NumSummarySegments(const SummaryCapacity& room) {
  const TableCapacity& tables = room.tables;
  const int64_t num_tokens =
      (tables.num_kv_blocks + tables.num_host_kv_blocks) * kPageTokens;
  const int64_t num_sequences = 2 * int64_t{tables.max_sequences};
  // The longest fork of a prefix has two that are not full.
  return std::min(
      num_tokens / room.segment_tokens + num_sequences + 2,
      num_sequences * PagesFor(room.max_tokens, room.segment_tokens));
}

int64_t NumSummaryTableEntries(const SummaryCapacity& room) {
  const int64_t num_sequences = room.tables.max_sequences;
  return std::min(
      NumTablePages(room.tables) * kPageTokens / room.segment_tokens +
          num_sequences,
      num_sequences * PagesFor(room.max_tokens, room.segment_tokens));
}

int64_t NumFixedSegments(const SummaryCapacity& room) {
  const TableCapacity& tables = room.tables;
  const int64_t num_tokens =
      (NumTablePages(tables) + tables.num_kv_blocks) * kPageTokens;
  const int64_t num_sequences = 2 * int64_t{tables.max_sequences};
  return std::min(
      num_tokens / room.segment_tokens + num_sequences,
      num_sequences * PagesFor(room.max_tokens, room.segment_tokens));
}

int64_t NumSlotChunks(const TableCapacity& room, int num_layers,
                      int64_t layer_frames) {
  const int64_t num_frames =
      std::min(room.max_sequences * layer_frames, room.num_kv_blocks) *
      num_layers;
  // And one that is not full for each (sequence, layer).
  return num_frames / kSlotChunkFrames +
         int64_t{room.max_sequences} * num_layers;
}

}  // namespace winnow
