#include "backend/cpu/attend/attend_prompt.h"

#include <algorithm>

#include "backend/cpu/attend/lane_tokens.h"
#include "backend/cpu/attend/tile_pages.h"

namespace winnow {
namespace {

// One item: its rows (token, head) are lanes token * num_heads + head. Lanes
// without a row compute what the first one does with a q of zeros.
class PromptTile {
 public:
  PromptTile(const AttendJob& job, const AttendRows& rows, int worker)
      : job_(job), rows_of_(rows), scratch_(job.workspace.Scratch(worker)) {
    const HeadBlockFormat& format = job.cache.format;
    q_ = scratch_.Take<float>(int64_t{kTileRows} * format.k_dim);
    first_key_ = scratch_.Take<int32_t>(kTileRows);
    last_key_ = scratch_.Take<int32_t>(kTileRows);
    rows_.q = q_;
    rows_.first_key = first_key_;
    rows_.last_key = last_key_;
    rows_.scale_log2 = job.scale_log2;
    rows_.maximum = scratch_.Take<float>(kTileRows);
    rows_.sum = scratch_.Take<float>(kTileRows);
    rows_.values = scratch_.Take<float>(int64_t{kTileRows} * format.v_dim);
    rows_.scores = scratch_.Take<float>(kTileKeys * kTileRows);
    rows_.weights = scratch_.Take<float>(kTileKeys * kTileRows);
    rows_.packed_v =
        scratch_.Take<float>(int64_t{kTileKeys} / 2 * format.v_dim);
  }

  void Run() {
    Start();
    const TilePages pages({job_.cache, /*slots=*/nullptr, rows_of_.request,
                           rows_of_.kv_head, job_.tile_widen},
                          scratch_);
    if (job_.picks != nullptr) {
      AttendPicks(pages);
      return Finish();
    }
    const int last_lane = rows_of_.num_lanes() - 1;
    const VisibleKeys visible = {first_key_[0], first_key_[last_lane],
                                 last_key_[0], last_key_[last_lane]};
    for (int64_t tile = visible.first_of_first / kTileKeys;
         tile <= visible.last_of_last / kTileKeys; ++tile) {
      job_.tile(pages.Tile(tile, visible), rows_);
    }
    Finish();
  }

 private:
  // Reads the union of what the rows picked, each row its own tokens of it. A
  // tile of which a row has none leaves its state as it is.
  void AttendPicks(const TilePages& pages) {
    LaneTokens lanes(job_, rows_of_, scratch_);
    rows_.tokens = lanes.tokens();
    for (int64_t tile = lanes.Next(); tile >= 0; tile = lanes.Next()) {
      job_.tile(pages.Masked(tile, lanes.any(), lanes.all()), rows_);
    }
  }

  void Start() {
    const HeadBlockFormat& format = job_.cache.format;
    std::fill_n(q_, int64_t{kTileRows} * format.k_dim, 0.0f);
    for (int lane = 0; lane < kTileRows; ++lane) {
      const bool idle = lane >= rows_of_.num_lanes();
      const LanePlace place = PlaceOf(job_, rows_of_, idle ? 0 : lane);
      const int64_t position = job_.rows.position(place.row);
      first_key_[lane] =
          static_cast<int32_t>(FirstVisible(position, job_.step.window));
      last_key_[lane] = static_cast<int32_t>(position);
      if (idle) continue;
      PackQuery(job_, place, job_.tile_query, q_ + lane, kTileRows);
    }
    std::fill_n(rows_.maximum, kTileRows, kNoKeyYet);
    std::fill_n(rows_.sum, kTileRows, 0.0f);
    std::fill_n(rows_.values, int64_t{kTileRows} * format.v_dim, 0.0f);
  }

  void Finish() const {
    for (int lane = 0; lane < rows_of_.num_lanes(); ++lane) {
      WriteRow(job_, PlaceOf(job_, rows_of_, lane),
               {rows_.maximum[lane], rows_.sum[lane], rows_.values + lane,
                kTileRows});
    }
  }

  const AttendJob& job_;
  const AttendRows& rows_of_;
  ScratchCutter scratch_;
  float* q_ = nullptr;            // words [k_dim words, 64]
  int32_t* first_key_ = nullptr;  // [64]
  int32_t* last_key_ = nullptr;   // [64]
  TileRows rows_;
};

// Items are made in ascending order, so the last ones have the most keys: they
// are handed out first, and the short ones fill the gaps at the end.
void RunWave(const AttendJob& job, int num_items) {
  const AttendItem* items = job.workspace.items();
  job.pool.ParallelFor(num_items, [&](int64_t i, int worker) {
    PromptTile(job, items[num_items - 1 - i].rows, worker).Run();
  });
}

}  // namespace

void AttendPrefillRows(const AttendJob& job) {
  const int num_heads = std::min(job.group_heads, kTileRows);
  const int tile_tokens = kTileRows / num_heads;
  AttendItem* items = job.workspace.items();
  int num_items = 0;
  for (int request = 0; request < job.step.num_requests; ++request) {
    // Of the request's prefill rows, those that are read.
    const int64_t first = job.rows.first_row(request);
    const auto begin_row =
        static_cast<int>(std::max<int64_t>(job.first_row - first, 0));
    const auto end_row = static_cast<int>(std::min<int64_t>(
        job.end_row - first, job.rows.num_prefill_rows(request)));
    for (int row = begin_row; row < end_row; row += tile_tokens) {
      for (int kv_head = 0; kv_head < job.cache.num_kv_heads; ++kv_head) {
        for (int head = 0; head < job.group_heads; head += num_heads) {
          items[num_items++].rows = {
              .request = request,
              .kv_head = kv_head,
              .first_head = head,
              .num_heads = std::min(num_heads, job.group_heads - head),
              .first_row = row,
              .num_rows = std::min(tile_tokens, end_row - row)};
          if (num_items < AttendWorkspace::kMaxItems) continue;
          RunWave(job, num_items);
          num_items = 0;
        }
      }
    }
  }
  RunWave(job, num_items);
}

}  // namespace winnow
