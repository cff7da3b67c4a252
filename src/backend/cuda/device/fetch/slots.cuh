// Where tokens lie of pages that are not whole, as kernels take it.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_FETCH_SLOTS_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_FETCH_SLOTS_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace winnow::device {

// As in backend/contract/slot_table.h.
inline constexpr uint32_t kNoPiece = 0xffffffffu;
inline constexpr int kSegmentPages = 64;
inline constexpr int kChunkFrames = 64;
inline constexpr uint32_t kReclaimable = 0x80000000u;

// Piece `index` of a slice: there it starts with token index * slot tokens.
struct PiecePlace {
  std::byte* slice;
  int index;
};

// SlotTable (backend/contract/slot_table.h). None: no directory.
struct Slots {
  const int32_t* num_segments;   // [requests]
  const int32_t* first_segment;  // [requests], in directory
  const uint32_t* directory;
  uint16_t* entries;           // [segments, kv_heads, 64 * pieces]
  const int32_t* num_frames;   // [requests]
  const int32_t* first_chunk;  // [requests], in chunks
  const uint32_t* chunks;
  const uint32_t* frames;     // [chunks, 64]
  uint32_t* tags;             // [chunks, kv_heads, 64 * pieces]
  uint8_t* ages;              // [chunks, kv_heads, 64 * pieces]
  const int32_t* first_page;  // [requests], in host_pages: may be negative
  const uint32_t* host_pages;
  const int64_t* host_memory;  // [pieces of memory]
  int64_t frames_stride, entries_stride, entries_head_stride;
  int64_t tags_stride, tags_head_stride, ages_stride, ages_head_stride;
  int64_t host_kv_blocks_a_piece, host_kv_block_bytes, host_layer_offset_bytes;
  std::byte* layer_blocks;
  int64_t layer_block_bytes;
  int pieces;  // a page, and a frame's slots of a head

  __device__ int NumSlots(int request) const {
    return num_frames[request] * pieces;
  }
  __device__ uint16_t& Entry(int request, int head, uint32_t piece) const {
    const auto a_segment = static_cast<uint32_t>(kSegmentPages * pieces);
    const uint32_t segment =
        directory[first_segment[request] + piece / a_segment];
    return entries[segment * entries_stride + head * entries_head_stride +
                   piece % a_segment];
  }
  __device__ uint32_t Chunk(int request, int slot) const {
    return chunks[first_chunk[request] + slot / (kChunkFrames * pieces)];
  }
  __device__ uint32_t& Tag(int request, int head, int slot) const {
    return tags[Chunk(request, slot) * tags_stride + head * tags_head_stride +
                slot % (kChunkFrames * pieces)];
  }
  __device__ uint8_t& Age(int request, int head, int slot) const {
    return ages[Chunk(request, slot) * ages_stride + head * ages_head_stride +
                slot % (kChunkFrames * pieces)];
  }
  // The layer block that holds a slot.
  __device__ std::byte* Frame(int request, int slot) const {
    const int64_t layer_block = frames[Chunk(request, slot) * frames_stride +
                                       slot / pieces % kChunkFrames];
    return layer_blocks + layer_block * layer_block_bytes;
  }
  // The slot that an entry names, -1 where the piece is in none.
  __device__ int SlotOf(int request, int head, uint16_t entry,
                        uint32_t piece) const {
    const bool is_there =
        entry < NumSlots(request) && Tag(request, head, entry) == piece;
    return is_there ? entry : -1;
  }
  // Of a page that is not whole: a KV block of the host, or with kReclaimable
  // one of the device.
  __device__ uint32_t FarNumber(int request, int page) const {
    return host_pages[first_page[request] + page];
  }
  // Its layer block on the host, by that number.
  __device__ std::byte* HostLayerBlock(int64_t kv_block) const {
    return reinterpret_cast<std::byte*>(
               host_memory[kv_block / host_kv_blocks_a_piece]) +
           kv_block % host_kv_blocks_a_piece * host_kv_block_bytes +
           host_layer_offset_bytes;
  }
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_FETCH_SLOTS_CUH_
