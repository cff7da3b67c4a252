// TileRing: a warp's next summary rows, on their way into shared memory.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RING_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RING_CUH_

#include "backend/cuda/device/runtime/async_copy.cuh"
#include "backend/cuda/device/runtime/cache_policy.cuh"
#include "backend/cuda/device/runtime/piece.cuh"
#include "backend/cuda/device/select/select_tile.cuh"

namespace winnow::device {

// Half a tile, in shared memory: slots without a row are zeros.
struct StagedRows {
  static constexpr int kRows = kTileSlots / 2;
  const std::byte* first;
  int row_bytes;

  __device__ const std::byte* Row(int i) const { return first + i * row_bytes; }
};

// A warp's tiles: every `stride`-th slot from `slot` on begins one, below
// `end`; [begin, end) have rows.
struct TileLine {
  int begin, end;
  int slot, stride;
};

// The halves of a warp's tiles, one after the other: while one is read, the
// next one is on its way, whole lines at a time, past L1. What a warp loaded
// into registers itself was a row's 64 bytes here and there, and nothing while
// it multiplied. Two on their way saturate memory no better, and queue in front
// of it (H200: 3 % more time); but of one tile both halves come at once. All
// lanes call each method.
class TileRing {
 public:
  static constexpr int kPlaces = 2;

  // `first`: the first tile's, where there is one. `places`: shared memory,
  // [kPlaces, half a tile]. REQUIRES: rows are multiples of 64 bytes and begin
  // at multiples of 16.
  __device__ TileRing(const LevelRows& rows, const TileLine& line,
                      const std::byte* first, std::byte* places)
      : rows_(rows),
        line_(line),
        next_(first),
        places_(places),
        half_bytes_(StagedRows::kRows * rows.of.row_bytes),
        num_ahead_(line.slot + line.stride < line.end ? 1 : kPlaces) {}

  // Starts the first copies: until the next one's rows do not lie below slot
  // `end`. Whether any was started. More calls go on where one ended.
  __device__ bool Begin(int end) {
    const int num_before = num_begun_;
#pragma unroll 1
    for (; num_begun_ < num_ahead_ && FirstEnd() <= end; ++num_begun_) Load();
    return num_begun_ > num_before;
  }

  // The next half, once it is there. What is fetched meanwhile takes the place
  // of the one before, which no lane reads any more.
  // REQUIRES: there is one; Begin was called with the end of all rows.
  __device__ StagedRows Next() {
    if (num_ahead_ == 1) {
      WaitForCopies<0>();
    } else {
      WaitForCopies<kPlaces - 1>();
    }
    __syncwarp();
    Load();
    const StagedRows staged = {places_ + read_at_, rows_.of.row_bytes};
    Advance(read_at_);
    return staged;
  }

 private:
  // The slot behind those of the half that is fetched next, as far as there
  // are rows.
  __device__ int FirstEnd() const {
    return min(line_.slot + first_slot_ + StagedRows::kRows, line_.end);
  }
  __device__ void Advance(int& at) const {
    at = half_bytes_ - at;  // of two places
  }

  // Starts to fetch one half: one group, also where none is left.
  __device__ void Load() {
    if (line_.slot < line_.end) {
      LoadRows();
      Advance(load_at_);
      first_slot_ += StagedRows::kRows;
      if (first_slot_ == kTileSlots) {
        first_slot_ = 0;
        line_.slot += line_.stride;
        // Found out before it is wanted.
        if (line_.slot < line_.end) next_ = rows_.Slot(line_.slot);
      }
    }
    CommitCopies();
  }

  // Slots [first_slot_, first_slot_ + 16) of the tile, 512 bytes at a time.
  __device__ void LoadRows() const {
    const int row_bytes = rows_.of.row_bytes;
    const int slot = line_.slot + first_slot_;
    const int from = (line_.begin - slot) * row_bytes;
    const int to = (line_.end - slot) * row_bytes;
    const uint32_t place = SharedAddress(places_ + load_at_);
    constexpr int kStep = 32 * kPieceBytes;
    const int first = static_cast<int>(threadIdx.x) % 32 * kPieceBytes;
    const auto copy = [&](int at, const std::byte* piece) {
      CopyAsync16(place + static_cast<uint32_t>(at), piece,
                  at >= from && at < to ? kPieceBytes : 0, policy_);
    };
    if (rows_.Adjacent()) {
      const std::byte* const source = next_ + first_slot_ * row_bytes;
#pragma unroll 4
      for (int at = first; at < half_bytes_; at += kStep) copy(at, source + at);
      return;
    }
#pragma unroll 1
    for (int at = first; at < half_bytes_; at += kStep) {
      const int row =
          min(max(slot + at / row_bytes, line_.begin), line_.end - 1);
      copy(at, rows_.Slot(row) + at % row_bytes);
    }
  }

  const LevelRows& rows_;
  TileLine line_;          // `slot`: whose rows are fetched next
  const std::byte* next_;  // its first
  std::byte* const places_;
  // A layer's summaries are read once a step.
  const CachePolicy policy_ = EvictFirst();
  const int half_bytes_;
  const int num_ahead_;
  int first_slot_ = 0;  // of the tile, which is fetched next
  int num_begun_ = 0;
  int load_at_ = 0, read_at_ = 0;
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_ATTEND_TILE_RING_CUH_
