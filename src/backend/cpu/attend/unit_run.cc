#include "backend/cpu/attend/unit_run.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/attend/tile_pages.h"
#include "backend/cpu/attend/unit_tasks.h"
#include "backend/cpu/select/packed_keys.h"
#include "backend/cpu/select/query_words.h"

namespace winnow {
namespace {

// How many picks ahead scattered tokens are fetched, into the second cache
// level. (By trials without a record, on a Zen 4: 32 ahead is alike;
// into the first level too, a turn ahead, Reads of single tokens took 1.3 times
// as long.)
constexpr size_t kFetchedPicks = PackedKeys::kMaxPicks;

// Calls f(four) for each four of `picks`; the last may be fewer.
template <typename F>
void ForEachFour(std::span<const Pick> picks, F&& f) {
  while (!picks.empty()) {
    const auto four = picks.first(std::min<size_t>(picks.size(), kUnitPicks));
    f(four);
    picks = picks.subspan(four.size());
  }
}

// Finds the keys and values of the units of an item's KV head.
class ItemUnits {
 public:
  ItemUnits(const AttendJob& job, const AttendRows& rows, WidenKernel widen,
            ScratchCutter& scratch)
      : pages_({job.cache, job.args.slots, rows.request, rows.kv_head, widen},
               scratch),
        picks_(PicksOf(job, PlaceOf(job, rows, 0))),
        unit_picks_(UnitPicks(picks_.list)) {
    const int last_lane = rows.num_lanes() - 1;
    visible_.last_of_first = job.rows.position(PlaceOf(job, rows, 0).row);
    visible_.last_of_last =
        job.rows.position(PlaceOf(job, rows, last_lane).row);
    visible_.first_of_first =
        FirstVisible(visible_.last_of_first, job.step.window);
    visible_.first_of_last =
        FirstVisible(visible_.last_of_last, job.step.window);
  }

  int unit_picks() const { return unit_picks_; }
  bool every_page() const { return picks_.every_page; }

  // Picks of a list: those of units [unit, unit + count).
  std::span<const Pick> PicksOfUnits(int unit, int count) const {
    const auto size = picks_.list.size();
    const auto first = std::min(static_cast<size_t>(unit * unit_picks_), size);
    return picks_.list.subspan(
        first,
        std::min(static_cast<size_t>(count * unit_picks_), size - first));
  }

  // `keys` have been those of some unit of the job, or none. REQUIRES:
  // everything is read.
  void FindUnit(int unit, TileKeys& keys) const {
    CHECK(picks_.every_page, "unit={} of a list", unit);
    pages_.FindTile(unit, visible_, keys);
  }
  // Likewise at most four picks of the list.
  void FindPicks(std::span<const Pick> picks, TileKeys& keys) const {
    pages_.FindPicked(picks, visible_.first_of_first, visible_.last_of_last,
                      keys);
  }

  // Fetches picks that may be packed: of greater units all, of others fours
  // that are scattered. What is read as it lies is fetched as it is read.
  void PrefetchScattered(std::span<const Pick> picks) const {
    if (unit_picks_ > kUnitPicks) return pages_.PrefetchPicked(picks);
    ForEachFour(picks, [&](std::span<const Pick> four) {
      if (PackedKeys::NumTogether(four) > 0) pages_.PrefetchPicked(four);
    });
  }

 private:
  const TilePages pages_;
  const RowPicks picks_;  // of all rows alike
  const int unit_picks_;
  VisibleKeys visible_;
};

PackedKeys::Shape PackedShape(const AttendJob& job) {
  const HeadBlockFormat& format = job.cache.format;
  return {
      .k_stride = format.k_dim,
      .v_stride = format.v_in_k ? 0 : format.v_dim,
      .element_bytes = job.unit_widen == nullptr ? DtypeBytes(format.k) : 4};
}

// One item: the states of its units, or of the one group that they make up.
class UnitRun {
 public:
  UnitRun(const AttendJob& job, const AttendItem& item, int worker)
      : job_(job),
        item_(item),
        dim_(job.cache.format.v_dim),
        in_place_(ReadsInPlace(job)),
        num_lanes_(item.rows.num_lanes()),
        scratch_(job.workspace.Scratch(worker)),
        q_floats_(QueryFloats(job.unit_query, job.cache.format.k_dim)),
        halves_(job.near_bytes,
                int64_t{kHalfTokens} * job.cache.format.k_dim *
                    DtypeBytes(job.cache.format.k),
                job.unit_by_tile ? kTilePages : 1),
        packed_(PackedShape(job), scratch_),
        open_(scratch_.Take<float>(StateFloats(dim_, num_lanes_))) {
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
  const AttendItem* Run(ItemQueue& queue) {
    if (!in_place_) {
      CHECK(item_.num_kv_heads == 1, "heads={}", item_.num_kv_heads);
      Turn only;  // there is room for one copied tile, which is cached
      for (Place place; place.unit < item_.num_units; place = only.next) {
        FindTurn(place, only);
        AttendTurn(only);
      }
      return queue.Take();
    }
    Turn turns[2];
    FindTurn({}, turns[0]);
    halves_.Add(turns[0].all());
    const AttendItem* next_item = nullptr;
    for (int number = 0;; number = 1 - number) {
      Turn& turn = turns[number];
      Turn& next = turns[1 - number];
      const bool is_last = turn.next.unit == item_.num_units;
      if (is_last) {
        next_item = queue.Take();
        FindFirst(next_item, next);
      } else {
        FindTurn(turn.next, next);
      }
      PrefetchAhead(turn);
      halves_.Add(next.all());
      AttendTurn(turn);
      if (is_last) return next_item;
    }
  }

 private:
  // A unit of the item or, of its picks, those from `pick` on.
  struct Place {
    int unit = 0;
    int pick = 0;
  };
  // What is read at a time: a unit of each KV head; or some picks of a unit.
  struct Turn {
    Place place, next;
    TileKeys keys[kMaxItemHeads];
    int count = 0;
    // Where keys[0] are packed: the tiles that they are packed of.
    TileKeys scattered[PackedKeys::kMaxPicks / kUnitPicks];
    int num_scattered = 0;

    std::span<TileKeys> all() { return {keys, static_cast<size_t>(count)}; }
  };

  // Sets what is the KV head's own.
  void AddHead(int head, UnitRows& rows) {
    const AttendRows of_head = OfKvHead(item_.rows, head);
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

  void AttendTurn(Turn& turn) {
    int num_packed = 0;
    for (int i = 0; i < turn.num_scattered; ++i) {
      num_packed = packed_.Add(turn.scattered[i], num_packed);
    }
    for (int head = 0; head < turn.count; ++head) {
      if (turn.keys[head].begin < turn.keys[head].end) continue;
      std::fill_n(rows_[head].maximum, num_lanes_, kNoKeyYet);
    }
    halves_.Attend(turn.all(), [&](size_t head, int page, int end) {
      job_.unit(turn.keys[head], page, end, rows_[head]);
    });
    for (int head = 0; head < turn.count; ++head) Keep(turn, head);
  }

  void FindTurn(const Place& place, Turn& to) const {
    BeginTurn(place, item_.num_kv_heads, to);
    for (int head = 0; head < to.count; ++head) {
      FindKeys(*units_[head], item_.first_unit + place.unit, head, to);
    }
  }

  // What comes first of the worker's next item, if there is one. REQUIRES: K
  // and V are read as they are stored.
  void FindFirst(const AttendItem* item, Turn& to) {
    BeginTurn({}, item == nullptr ? 0 : item->num_kv_heads, to);
    for (int head = 0; head < to.count; ++head) {
      const ItemUnits units(job_, OfKvHead(item->rows, head), nullptr,
                            scratch_);
      const auto picks = units.PicksOfUnits(item->first_unit, item->num_units);
      units.PrefetchScattered(
          picks.first(std::min(picks.size(), kFetchedPicks)));
      FindKeys(units, item->first_unit, head, to);
    }
  }

  static void BeginTurn(const Place& place, int num_kv_heads, Turn& to) {
    to.place = place;
    to.next = {.unit = place.unit + 1};
    to.count = num_kv_heads;
    to.num_scattered = 0;
  }

  // Of KV head `head` those of a unit; of a list's from to.place on.
  void FindKeys(const ItemUnits& units, int unit, int head, Turn& to) const {
    if (units.every_page()) return units.FindUnit(unit, to.keys[head]);
    CHECK(to.count == 1, "heads={}: lists are read apart", to.count);
    const auto picks =
        units.PicksOfUnits(unit, 1).subspan(static_cast<size_t>(to.place.pick));
    const int num_packed = PackedKeys::NumTogether(picks);
    const auto taken = picks.first(std::min(
        picks.size(),
        static_cast<size_t>(num_packed > 0 ? num_packed : kUnitPicks)));
    if (taken.size() < picks.size()) {
      to.next = {.unit = to.place.unit,
                 .pick = to.place.pick + static_cast<int>(taken.size())};
    }
    if (num_packed == 0) return units.FindPicks(taken, to.keys[0]);
    FindPacked(units, taken, to);
  }

  void FindPacked(const ItemUnits& units, std::span<const Pick> picks,
                  Turn& to) const {
    int num_tokens = 0;
    ForEachFour(picks, [&](std::span<const Pick> four) {
      TileKeys& tile = to.scattered[to.num_scattered];
      units.FindPicks(four, tile);
      if (!in_place_) {
        num_tokens = packed_.Add(tile, num_tokens);
        return;
      }
      num_tokens += PackedKeys::CountTokens(tile);
      ++to.num_scattered;
    });
    to.keys[0] = packed_.Packed(to.scattered[0], num_tokens);
  }

  // Fetches what is packed kFetchedPicks later.
  void PrefetchAhead(const Turn& turn) const {
    const ItemUnits& units = *units_[0];
    const auto picks = units.PicksOfUnits(item_.first_unit, item_.num_units);
    const auto ahead_of = [&](const Place& place) {
      const int pick = place.unit * units.unit_picks() + place.pick;
      return std::min(static_cast<size_t>(pick) + kFetchedPicks, picks.size());
    };
    const size_t first = ahead_of(turn.place);
    units.PrefetchScattered(picks.subspan(first, ahead_of(turn.next) - first));
  }

  // What the kernel has left becomes the unit's state, or part of the group's.
  // Of a unit that is read in several turns, these are merged on their own
  // first: its state is the same wherever it goes.
  void Keep(const Turn& turn, int head) const {
    const UnitRows& rows = rows_[head];
    float* states = item_.partial + head * item_.head_floats;
    const int unit = turn.place.unit;
    const bool begins = turn.place.pick == 0, ends = turn.next.unit != unit;
    for (int lane = 0; lane < num_lanes_; ++lane) {
      const SoftmaxState state =
          StateAt(states, dim_, num_lanes_, item_.as_group ? 0 : unit, lane);
      if (begins && (unit == 0 || !item_.as_group)) state.MarkEmpty();
      const SoftmaxState open = StateAt(open_, dim_, num_lanes_, 0, lane);
      if (begins) open.MarkEmpty();
      (begins && ends ? state : open)
          .Merge(rows.values + int64_t{lane} * dim_, rows.maximum[lane],
                 rows.sum[lane], job_.blend);
      if (!begins && ends) state.Merge(open, job_.blend);
    }
  }

  const AttendJob& job_;
  const AttendItem& item_;
  const int dim_;
  const bool in_place_;
  const int num_lanes_;
  ScratchCutter scratch_;
  const int64_t q_floats_;
  UnitRows rows_[kMaxItemHeads];
  std::optional<ItemUnits> units_[kMaxItemHeads];
  HalvesInTurn halves_;
  const PackedKeys packed_;
  float* const open_;  // a state of each lane, of the turns of one unit
};

}  // namespace

bool ReadsInPlace(const AttendJob& job) {
  return job.unit_widen == nullptr &&
         !HalvesLieApart(job.cache, job.args.slots);
}

const AttendItem* RunItem(const AttendJob& job, const AttendItem& item,
                          int worker, ItemQueue& queue) {
  return UnitRun(job, item, worker).Run(queue);
}

}  // namespace winnow
