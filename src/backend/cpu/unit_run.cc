#include "backend/cpu/unit_run.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/packed_keys.h"
#include "backend/cpu/query_words.h"
#include "backend/cpu/tile_pages.h"

namespace winnow {
namespace {

// How many units ahead scattered tokens are fetched. (Two CPUs of a Zen 4, by
// trials without a record: a Read of single tokens, of `tidal`, was at 0.46 of
// a plain read of the same bytes where they are fetched a unit ahead, or four
// into the first level, at 0.73 four ahead into the second, at 0.68 eight.)
constexpr int kFetchedUnits = 4;

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
    pages_.FindPicked(PicksOfUnit(unit), visible_.first_of_first,
                      visible_.last_of_last, keys);
  }

  // Fetches unit `unit` of a list where it will be packed: what is not is
  // fetched as it is read.
  void FetchScattered(int unit) const {
    const std::span<const Pick> picks = PicksOfUnit(unit);
    uint32_t tokens[kTilePages] = {};
    for (size_t i = 0; i < picks.size(); ++i) tokens[i] = picks[i].tokens;
    if (PackedKeys::AreScattered(tokens)) pages_.FetchPicked(picks);
  }

 private:
  // None where everything is read.
  std::span<const Pick> PicksOfUnit(int unit) const {
    const auto size = picks_.list.size();
    const auto first = std::min(static_cast<size_t>(unit) * kUnitPicks, size);
    return picks_.list.subspan(first,
                               std::min<size_t>(kUnitPicks, size - first));
  }

  const TilePages pages_;
  const RowPicks picks_;  // of all rows alike
  VisibleKeys visible_;
};

PackedKeys::Shape PackedShape(const ReadJob& job) {
  const SliceFormat& format = job.cache.format;
  return {
      .k_stride = format.k_dim,
      .v_stride = format.v_in_k ? 0 : format.v_dim,
      .element_bytes = job.unit_widen == nullptr ? DtypeBytes(format.k) : 4};
}

// One item: the states of its units, or of the one group that they make up.
class UnitRun {
 public:
  UnitRun(const ReadJob& job, const ReadItem& item, int worker)
      : job_(job),
        item_(item),
        dim_(job.cache.format.v_dim),
        num_lanes_(item.rows.num_lanes()),
        scratch_(job.workspace.Scratch(worker)),
        q_floats_(QueryFloats(job.unit_query, job.cache.format.k_dim)),
        turn_(job.near_bytes,
              int64_t{kHalfTokens} * job.cache.format.k_dim *
                  DtypeBytes(job.cache.format.k),
              job.unit_by_tile ? kTilePages : 1),
        packed_(PackedShape(job), scratch_) {
    int32_t* first_key = scratch_.Take<int32_t>(num_lanes_);
    int32_t* last_key = scratch_.Take<int32_t>(num_lanes_);
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const int64_t position =
          job.rows.position(PlaceOf(job, item.rows, lane).row);
      first_key[lane] =
          static_cast<int32_t>(FirstVisible(position, job.step.window));
      last_key[lane] = static_cast<int32_t>(position);
    }
    const UnitRows shared = {
        .num_rows = num_lanes_,
        .first_key = first_key,
        .last_key = last_key,
        .scale_log2 = job.scale_log2,
        .kept = scratch_.Take<float>(num_lanes_ + 16),
        .scores = scratch_.Take<float>(num_lanes_ * kTileKeys),
        .weights = scratch_.Take<float>(num_lanes_ * kTileKeys),
        .transposed_k = scratch_.Take<float>(
            int64_t{std::max(job.cache.format.k_dim, dim_)} * kTilePageTokens)};
    for (int head = 0; head < item.num_kv_heads; ++head) {
      rows_[head] = shared;
      AddHead(head, rows_[head]);
    }
  }

  // Returns the worker's next item.
  const ReadItem* Run(ItemQueue& queue) {
    const ReadItem* next_item = nullptr;
    if (!ReadsInPlace(job_)) {
      CHECK(item_.num_kv_heads == 1, "heads={}", item_.num_kv_heads);
      UnitsOfHeads only;  // there is room for one copied unit, which is cached
      for (int unit = 0; unit < item_.num_units; ++unit) {
        FindUnits(unit, only);
        ReadUnits(only);
        Keep(unit, 0);
      }
      return queue.Take();
    }
    UnitsOfHeads of_turns[2];
    FindUnits(0, of_turns[0]);
    turn_.Add(of_turns[0].all());
    for (int unit = 0; unit < item_.num_units; ++unit) {
      UnitsOfHeads& next = of_turns[1 - unit % 2];
      if (unit + 1 == item_.num_units) next_item = queue.Take();
      FindNext(unit + 1, next_item, next);
      const int fetched = unit + kFetchedUnits;
      if (item_.num_kv_heads == 1 && fetched < item_.num_units) {
        units_[0]->FetchScattered(item_.first_unit + fetched);
      }
      turn_.Add(next.all());
      ReadUnits(of_turns[unit % 2]);
      for (int head = 0; head < item_.num_kv_heads; ++head) {
        Keep(unit, head);
      }
    }
    return next_item;
  }

 private:
  // A unit of each KV head.
  struct UnitsOfHeads {
    TileKeys keys[kMaxItemHeads];
    int count = 0;
    // Where keys[0] are packed: what they are packed of.
    bool is_packed = false;
    TileKeys scattered;

    std::span<TileKeys> all() { return {keys, static_cast<size_t>(count)}; }
  };

  // Sets what is the KV head's own.
  void AddHead(int head, UnitRows& rows) {
    const ReadRows of_head = OfKvHead(item_.rows, head);
    auto* q = scratch_.Take<float>(num_lanes_ * q_floats_);
    float* tiled_q = job_.unit_by_tile
                         ? scratch_.Take<float>(kUnitRows * q_floats_)
                         : nullptr;
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const LanePlace place = PlaceOf(job_, of_head, lane);
      PackQuery(job_, place, job_.unit_query, q + lane * q_floats_, 1);
      if (tiled_q == nullptr) continue;
      PackQuery(job_, place, job_.unit_query, tiled_q + lane, kUnitRows);
    }
    rows.q = q;
    rows.tiled_q = tiled_q;
    rows.maximum = scratch_.Take<float>(num_lanes_ + 16);
    rows.sum = scratch_.Take<float>(num_lanes_);
    rows.lane_sums = scratch_.Take<float>(num_lanes_ * 16);
    rows.values = scratch_.Take<float>(int64_t{num_lanes_} * dim_);
    units_[head].emplace(job_, of_head, job_.unit_widen, scratch_);
  }

  void ReadUnits(UnitsOfHeads& units) {
    if (units.is_packed) packed_.Pack(units.scattered);
    for (int head = 0; head < units.count; ++head) {
      if (units.keys[head].begin < units.keys[head].end) continue;
      std::fill_n(rows_[head].maximum, num_lanes_, kNoKeyYet);
    }
    turn_.Read(units.all(), [&](size_t head, int page, int end) {
      job_.unit(units.keys[head], page, end, rows_[head]);
    });
  }

  void FindUnits(int unit, UnitsOfHeads& to) const {
    to.count = item_.num_kv_heads;
    for (int head = 0; head < to.count; ++head) {
      units_[head]->FindUnit(item_.first_unit + unit, to.keys[head]);
    }
    FindPacked(to);
  }

  // Lists of several KV heads are never read together.
  void FindPacked(UnitsOfHeads& units) const {
    TileKeys& keys = units.keys[0];
    units.is_packed = units.count == 1 && keys.picked &&
                      PackedKeys::AreScattered(keys.tokens);
    if (!units.is_packed) return;
    units.scattered = keys;
    keys = packed_.Find(units.scattered);
  }

  // What comes after unit `unit - 1` of all heads, if anything. REQUIRES: K and
  // V are read as they are stored.
  void FindNext(int unit, const ReadItem* next_item, UnitsOfHeads& to) {
    if (unit < item_.num_units) return FindUnits(unit, to);
    to.count = next_item == nullptr ? 0 : next_item->num_kv_heads;
    for (int head = 0; head < to.count; ++head) {
      const ItemUnits units(job_, OfKvHead(next_item->rows, head), nullptr,
                            scratch_);
      units.FindUnit(next_item->first_unit, to.keys[head]);
      const int num_fetched =
          to.count == 1 ? std::min(kFetchedUnits, next_item->num_units) : 0;
      for (int i = 0; i < num_fetched; ++i) {
        units.FetchScattered(next_item->first_unit + i);
      }
    }
    FindPacked(to);
  }

  // What the kernel has left becomes the unit's state, or part of the group's.
  void Keep(int unit, int head) const {
    const UnitRows& rows = rows_[head];
    float* states = item_.partial + head * item_.head_floats;
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const SoftmaxState state =
          StateAt(states, dim_, num_lanes_, item_.as_group ? 0 : unit, lane);
      if (unit == 0 || !item_.as_group) state.MarkEmpty();
      state.Merge(rows.values + int64_t{lane} * dim_, rows.maximum[lane],
                  rows.sum[lane], job_.blend);
    }
  }

  const ReadJob& job_;
  const ReadItem& item_;
  const int dim_;
  const int num_lanes_;
  ScratchCutter scratch_;
  const int64_t q_floats_;
  UnitRows rows_[kMaxItemHeads];
  std::optional<ItemUnits> units_[kMaxItemHeads];
  HalvesInTurn turn_;
  const PackedKeys packed_;
};

}  // namespace

bool ReadsInPlace(const ReadJob& job) {
  return job.unit_widen == nullptr &&
         !HalvesLieApart(job.cache, job.args.slots);
}

const ReadItem* RunItem(const ReadJob& job, const ReadItem& item, int worker,
                        ItemQueue& queue) {
  return UnitRun(job, item, worker).Run(queue);
}

}  // namespace winnow
