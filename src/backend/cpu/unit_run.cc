#include "backend/cpu/unit_run.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/tile_pages.h"

namespace winnow {
namespace {

// Finds the keys and values of the units of an item's KV head.
class ItemUnits {
 public:
  ItemUnits(const ReadJob& job, const ReadRows& rows, WidenKernel widen,
            ScratchCutter& scratch)
      : pages_({job.cache, job.args.slots, rows.request, rows.kv_head, widen},
               scratch),
        picks_(PicksOf(job, PlaceOf(job, rows, 0))) {
    const int last_lane = rows.num_lanes() - 1;
    visible_.last_of_first = job.rows.position(PlaceOf(job, rows, 0).row);
    visible_.last_of_last =
        job.rows.position(PlaceOf(job, rows, last_lane).row);
    visible_.first_of_first =
        FirstVisible(visible_.last_of_first, job.step.window);
    visible_.first_of_last =
        FirstVisible(visible_.last_of_last, job.step.window);
  }

  // `keys` has been a unit of an item of the job, or none.
  void FindUnit(int unit, TileKeys& keys) const {
    if (picks_.every_page) return pages_.FindTile(unit, visible_, keys);
    const auto first = static_cast<size_t>(unit) * kUnitPicks;
    pages_.FindPicked(
        picks_.list.subspan(
            first, std::min<size_t>(kUnitPicks, picks_.list.size() - first)),
        visible_.first_of_first, visible_.last_of_last, keys);
  }

 private:
  const TilePages pages_;
  const RowPicks picks_;  // of all rows alike
  VisibleKeys visible_;
};

// One item: the states of its units, or of the one group that they make up.
class UnitRun {
 public:
  UnitRun(const ReadJob& job, const ReadItem& item, int worker)
      : job_(job),
        item_(item),
        dim_(job.cache.format.v_dim),
        num_lanes_(item.rows.num_lanes()),
        scratch_(job.workspace.Scratch(worker)),
        q_words_(job.cache.format.k_dim / (job.unit_paired ? 2 : 1)),
        q_(scratch_.Take<float>(item.num_kv_heads * num_lanes_ * q_words_)),
        tiled_q_(job.unit_by_tile ? scratch_.Take<float>(item.num_kv_heads *
                                                         kUnitRows * q_words_)
                                  : nullptr) {
    int32_t* first_key = scratch_.Take<int32_t>(num_lanes_);
    int32_t* last_key = scratch_.Take<int32_t>(num_lanes_);
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const int64_t position =
          job.rows.position(PlaceOf(job, item.rows, lane).row);
      first_key[lane] =
          static_cast<int32_t>(FirstVisible(position, job.step.window));
      last_key[lane] = static_cast<int32_t>(position);
    }
    rows_ = {
        .num_rows = num_lanes_,
        .first_key = first_key,
        .last_key = last_key,
        .scale_log2 = job.scale_log2,
        .maximum = scratch_.Take<float>(num_lanes_),
        .sum = scratch_.Take<float>(num_lanes_),
        .values = scratch_.Take<float>(int64_t{num_lanes_} * dim_),
        .scores = scratch_.Take<float>(num_lanes_ * kTileKeys),
        .weights = scratch_.Take<float>(num_lanes_ * kTileKeys),
        .transposed_k = scratch_.Take<float>(
            int64_t{std::max(job.cache.format.k_dim, dim_)} * kTilePageTokens)};
    for (int head = 0; head < item.num_kv_heads; ++head) {
      const ReadRows rows = OfKvHead(item.rows, head);
      for (int lane = 0; lane < num_lanes_; ++lane) {
        const LanePlace place = PlaceOf(job, rows, lane);
        PackQuery(job, place, job.unit_paired,
                  q_ + (head * num_lanes_ + lane) * q_words_, 1);
        if (tiled_q_ == nullptr) continue;
        PackQuery(job, place, job.unit_paired,
                  tiled_q_ + head * kUnitRows * q_words_ + lane, kUnitRows);
      }
      units_[head].emplace(job, rows, job.unit_widen, scratch_);
    }
  }

  // Returns the worker's next item.
  const ReadItem* Run(bool as_group, ItemQueue& queue) {
    const bool prefetches = ReadsInPlace(job_);  // else room for one unit
    const int num_heads = item_.num_kv_heads;
    const ReadItem* next_item = nullptr;
    UnitsOfHeads of_turns[2];
    if (prefetches) FindUnits(0, of_turns[0]);
    for (int unit = 0; unit < item_.num_units; ++unit) {
      UnitsOfHeads& units = of_turns[unit % 2];
      UnitsOfHeads& next = of_turns[1 - unit % 2];
      if (unit + 1 == item_.num_units) next_item = queue.Take();
      if (prefetches) {
        FindNext(unit + 1, next_item, next);
        far_.Assign({next.keys, static_cast<size_t>(next.count)});
      }
      for (int head = 0; head < num_heads; ++head) {
        TileKeys& keys = units.keys[head];
        if (prefetches) {
          FetchAhead(far_.Part(head, num_heads),
                     head + 1 < num_heads ? units.keys[head + 1] : next.keys[0],
                     keys);
        } else {
          units_[head]->FindUnit(item_.first_unit + unit, keys);
        }
        rows_.q = q_ + head * num_lanes_ * q_words_;
        if (tiled_q_ != nullptr) {
          rows_.tiled_q = tiled_q_ + head * kUnitRows * q_words_;
        }
        job_.unit(keys, rows_);
        Keep(unit, head, as_group);
      }
    }
    return next_item;
  }

 private:
  // A unit of each KV head.
  struct UnitsOfHeads {
    TileKeys keys[kMaxItemHeads];
    int count = 0;
  };

  void FindUnits(int unit, UnitsOfHeads& to) const {
    to.count = item_.num_kv_heads;
    for (int head = 0; head < to.count; ++head) {
      units_[head]->FindUnit(item_.first_unit + unit, to.keys[head]);
    }
  }

  // What comes after unit `unit - 1` of all heads, if anything. REQUIRES: K and
  // V are read as they are stored.
  void FindNext(int unit, const ReadItem* next_item, UnitsOfHeads& to) {
    if (unit < item_.num_units) return FindUnits(unit, to);
    to.count = next_item == nullptr ? 0 : next_item->num_kv_heads;
    if (to.count == 0) to.keys[0].begin = to.keys[0].end = 0;
    for (int head = 0; head < to.count; ++head) {
      ItemUnits(job_, OfKvHead(next_item->rows, head), nullptr, scratch_)
          .FindUnit(next_item->first_unit, to.keys[head]);
    }
  }

  // What the kernel has left becomes the unit's state, or part of the group's.
  void Keep(int unit, int head, bool as_group) const {
    float* states = item_.partial + head * item_.head_floats;
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const SoftmaxState state =
          StateAt(states, dim_, num_lanes_, as_group ? 0 : unit, lane);
      if (unit == 0 || !as_group) state.MarkEmpty();
      state.Merge(rows_.values + int64_t{lane} * dim_, rows_.maximum[lane],
                  rows_.sum[lane], job_.blend);
    }
  }

  const ReadJob& job_;
  const ReadItem& item_;
  const int dim_;
  const int num_lanes_;
  ScratchCutter scratch_;
  const int64_t q_words_;
  float* const q_;        // words [num_kv_heads, num_lanes, k_dim words]
  float* const tiled_q_;  // words [num_kv_heads, k_dim words, 16], or null
  UnitRows rows_;
  std::optional<ItemUnits> units_[kMaxItemHeads];
  HalvesInMemory far_;
};

}  // namespace

bool ReadsInPlace(const ReadJob& job) {
  return job.unit_widen == nullptr &&
         !HalvesLieApart(job.cache, job.args.slots);
}

const ReadItem* RunItem(const ReadJob& job, const ReadItem& item, int worker,
                        bool as_group, ItemQueue& queue) {
  return UnitRun(job, item, worker).Run(as_group, queue);
}

}  // namespace winnow
