#include "backend/cpu/fetch/fetch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "backend/contract/replacement.h"
#include "backend/cpu/attend/piece_walk.h"
#include "backend/cpu/attend/slot_head.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

// Lookups while which one part of the next head's tables is fetched, and parts
// that are fetched of a head that none comes before.
constexpr int kPiecesAPrefetch = 16;
constexpr int kFirstPrefetches = 16;

using Counts = std::array<uint32_t, kNumFetchCounts>;

// One request and KV head.
class HeadFetch {
 public:
  HeadFetch(const BroughtRows& of, const FetchArgs& args,
            const LayerCache& cache, int kv_head, FetchScratch& scratch)
      : of_(of),
        args_(args),
        cache_(cache),
        head_(cache, *args.slots, of.request, kv_head),
        walk_(of, cache, head_, kv_head),
        missing_(scratch.missing.data()),
        uses_(scratch.uses.data(), static_cast<size_t>(head_.num_slots())),
        ranks_(scratch.ranks.data(), uses_.size()) {}

  // While it looks pieces up, what the next will read comes into the cache.
  void PrefetchAhead(const SlotHead& next) { ahead_.emplace(next); }
  bool is_whole() const { return head_.is_whole(); }

  // Adds to `counts`.
  void Run(Counts& counts) {
    std::ranges::fill(uses_, SlotUse::kNone);
    PickLookup lookup(*this);
    int64_t num_picks = walk_.ForEachPiece(args_.source, lookup);
    num_hints_used_ = lookup.num_hints_used;
    num_picks += lookup.num_pieces;
    num_picks_ = num_missing_;
    if (!args_.hints.picks.empty()) {
      const AttendSource hints = {.kind = AttendSource::Kind::kPicks,
                                  .picks = args_.hints};
      HintLookup lookup_of_hints(*this);
      walk_.ForEachPiece(hints, lookup_of_hints);
    }
    const int32_t num_placed = Place(0, num_picks_, kHintedRank, 0);
    GrowOlder();
    const int32_t num_hinted =
        Place(num_picks_, num_missing_, kFirstAgeRank + args_.least_hint_age,
              kHintedBit);
    const auto add = [&](int what, int64_t count) {
      counts[static_cast<size_t>(what)] += static_cast<uint32_t>(count);
    };
    add(kPicksCount, num_picks);
    add(kHitsCount, num_picks - num_misses_);
    add(kMissesCount, num_misses_);
    add(kUnplacedCount, num_misses_ - num_placed);
    add(kHintsCount, num_hinted);
    add(kHintsUsedCount, num_hints_used_);
    add(kFetchedCount, num_placed + num_hinted);
    add(kReclaimableCount, num_reclaimable_);
    for (int age = 0; age < kNumAges; ++age) {
      for (const auto& hits : hits_by_age_) {
        add(kHitsByAgeCount + age, hits[static_cast<size_t>(age)]);
      }
    }
    for (int age = 0; age <= kEmptyAge; ++age) {
      add(kSlotsByAgeCount + age, by_age_[static_cast<size_t>(age)]);
    }
  }

 private:
  int64_t PageOf(uint32_t piece) const {
    return piece / static_cast<uint32_t>(head_.pieces_a_page());
  }
  SlotUse& Use(int slot) { return uses_[static_cast<size_t>(slot)]; }
  // Whether an entry names the piece's place in the list of what is missing.
  bool IsMissing(uint16_t entry, uint32_t piece) const {
    const int32_t place = entry - head_.num_slots();
    return place >= 0 && place < num_missing_ && missing_[place] == piece;
  }
  // False where the list is full: it has room for what slots have room for.
  bool AddMissing(uint32_t piece, int32_t begin, uint16_t& entry) {
    if (num_missing_ - begin >= head_.num_slots()) return false;
    entry = static_cast<uint16_t>(head_.num_slots() + num_missing_);
    missing_[num_missing_++] = piece;
    return true;
  }

  // Looks picks up. Almost all are in a slot: what that changes is copied while
  // a list is walked, so that it need not lie in memory.
  struct PickLookup {
    HeadFetch& fetch;
    SlotUse* const uses;
    int64_t num_pieces = 0;  // of pages not whole
    int64_t num_hints_used = 0;

    explicit PickLookup(HeadFetch& of) : fetch(of), uses(of.uses_.data()) {}
    void Take(const PickLookup& from) {
      num_pieces = from.num_pieces;
      num_hints_used = from.num_hints_used;
    }
    void operator()(const SlotHead& head, uint32_t piece, uint16_t& entry) {
      if (num_pieces++ % kPiecesAPrefetch == 0 && fetch.ahead_) {
        fetch.ahead_->Prefetch();
      }
      const int slot = head.SlotOf(entry, piece);
      if (slot < 0) return fetch.Miss(piece, entry);
      if (uses[slot] == SlotUse::kPicked) return;
      uses[slot] = SlotUse::kPicked;
      const uint8_t age = head.Age(slot);
      num_hints_used += age / kHintedBit;
      // Counts of one age would wait for each other.
      auto& hits = fetch.hits_by_age_;
      ++hits[static_cast<size_t>(num_pieces) % hits.size()][age & kAgeMask];
    }
  };
  struct HintLookup {
    HeadFetch& fetch;

    explicit HintLookup(HeadFetch& of) : fetch(of) {}
    void Take(const HintLookup&) {}
    void operator()(const SlotHead& head, uint32_t piece, uint16_t& entry) {
      fetch.Hint(head, piece, entry);
    }
  };

  void Miss(uint32_t piece, uint16_t& entry) {
    if (IsMissing(entry, piece)) return;
    ++num_misses_;
    num_reclaimable_ += head_.Lingers(PageOf(piece));
    AddMissing(piece, 0, entry);
  }

  void Hint(const SlotHead& head, uint32_t piece, uint16_t& entry) {
    const int slot = head.SlotOf(entry, piece);
    if (slot >= 0) {
      if (Use(slot) == SlotUse::kNone) Use(slot) = SlotUse::kHinted;
      return;
    }
    if (args_.least_hint_age == kNoHintFetch) return;
    if (!IsMissing(entry, piece)) AddMissing(piece, num_picks_, entry);
  }

  // visit(ages, uses, ranks, count) for all slots, those of a chunk at a time.
  template <typename Visit>
  void ForEachChunk(Visit&& visit) {
    for (int first = 0; first < head_.num_slots();
         first += head_.chunk_slots()) {
      visit(&head_.Age(first), uses_.data() + first, ranks_.data() + first,
            std::min(head_.chunk_slots(), head_.num_slots() - first));
    }
  }

  // Who would make room for so many pieces.
  VictimCut RankSlots(int32_t num_wanted, int least_rank) {
    ForEachChunk([](const uint8_t* ages, const SlotUse* uses, uint8_t* ranks,
                    int count) {
      for (int i = 0; i < count; ++i) {
        ranks[i] = EvictionRank(ages[i], uses[i]);
      }
    });
    return CutVictims(CountRanks(ranks_), num_wanted, least_rank);
  }

  // Gives slots to missing pieces [begin, end) as far as there are victims, and
  // fetches them. Returns to how many.
  int32_t Place(int32_t begin, int32_t end, int least_rank, uint8_t age) {
    if (begin == end) return 0;
    const VictimCut cut = RankSlots(end - begin, least_rank);
    int32_t next = begin;
    ForEachVictim(ranks_, cut, [&](int32_t slot) {
      const uint32_t piece = missing_[next++];
      const int64_t page = PageOf(piece);
      const int index = static_cast<int>(
          piece % static_cast<uint32_t>(head_.pieces_a_page()));
      head_.Tag(slot) = piece;
      head_.Entry(page, index) = static_cast<uint16_t>(slot);
      // Counted already where it is a hint that comes.
      --ByAge(head_.Age(slot));
      ++ByAge(age);
      head_.Age(slot) = age;
      Use(slot) = SlotUse::kPicked;
      if (age == kHintedBit) num_reclaimable_ += head_.Lingers(page);
      Prefetch(head_.OutOfSlots(page, index), head_.InSlot(slot));
    });
    return cut.num_victims;
  }

  void Prefetch(const PiecePlace& from, const PiecePlace& to) const {
    const HeadBlockFormat& format = cache_.format;
    const auto copy = [&](int64_t offset_bytes, int token_bytes) {
      const int64_t piece_bytes = int64_t{format.slot_tokens} * token_bytes;
      std::memcpy(to.slice + offset_bytes + to.index * piece_bytes,
                  from.slice + offset_bytes + from.index * piece_bytes,
                  static_cast<size_t>(piece_bytes));
    };
    copy(0, format.k_dim * DtypeBytes(format.k));
    if (format.v_in_k) return;
    copy(format.v_offset_bytes, format.v_dim * DtypeBytes(format.v));
  }

  int32_t& ByAge(uint8_t age) { return by_age_[age & kAgeMask]; }

  // Leaves the ages, without the bit of a hint, where ranks stand.
  void GrowOlder() {
    const AgeClock clock(of_.first_position(), of_.end_position());
    ForEachChunk([clock](uint8_t* ages, const SlotUse* uses, uint8_t* counted,
                         int count) {
      for (int i = 0; i < count; ++i) {
        const uint8_t next = clock.Next(ages[i]);
        ages[i] = uses[i] == SlotUse::kPicked ? uint8_t{0} : next;
        counted[i] = ages[i] & kAgeMask;
      }
    });
    by_age_ = CountBytes<kEmptyAge + 1>(ranks_);
  }

  const BroughtRows& of_;
  const FetchArgs& args_;
  const LayerCache& cache_;
  const SlotHead head_;
  PieceWalk walk_;
  uint32_t* const missing_;         // of the scratch
  const std::span<SlotUse> uses_;   // [slots]
  const std::span<uint8_t> ranks_;  // [slots]
  std::optional<LinesAhead> ahead_;
  int32_t num_missing_ = 0;  // picks' first, then hints'
  int32_t num_picks_ = 0;    // of these
  int64_t num_misses_ = 0, num_hints_used_ = 0, num_reclaimable_ = 0;
  std::array<std::array<uint32_t, kNumAges + 1>, 4> hits_by_age_ = {};
  std::array<int32_t, kEmptyAge + 1> by_age_ = {};  // slots
};

void AddCounts(std::span<const Counts> of_heads, uint32_t* sums) {
  for (const Counts& counts : of_heads) {
    for (size_t i = 0; i < counts.size(); ++i) sums[i] += counts[i];
  }
}

}  // namespace

FetchScratch::FetchScratch()
    : uses(kMaxSlots), ranks(kMaxSlots), missing(2 * kMaxSlots) {}

void FetchPieces(const LayerStep& step, const FetchArgs& args,
                 const LayerCache& cache, FetchWorkspace& workspace,
                 ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckFetch(step, args, cache);
  const StepRows rows(step);
  const int num_heads = cache.num_kv_heads;
  const int64_t num_items = int64_t{step.num_requests} * num_heads;
  std::vector<Counts>& counts = workspace.counts;
  if (std::ssize(counts) < num_items) {
    counts.resize(static_cast<size_t>(num_items));
  }
  const auto slots_of = [&](int64_t item) {
    return SlotHead(cache, *args.slots, static_cast<int>(item / num_heads),
                    static_cast<int>(item % num_heads));
  };
  // One after another, as each fetches ahead for the next, but eight times as
  // many runs of them as there are workers.
  const int64_t run =
      std::max<int64_t>(1, num_items / (8 * pool.num_workers()));
  pool.ParallelRanges(
      num_items, run, [&](int64_t begin, int64_t end, int worker) {
        LinesAhead first(slots_of(begin));
        for (int i = 0; i < kFirstPrefetches; ++i) first.Prefetch();
        for (int64_t item = begin; item < end; ++item) {
          Counts& of_item = counts[static_cast<size_t>(item)];
          of_item.fill(0);
          const BroughtRows of(rows, step, args.source,
                               static_cast<int>(item / num_heads));
          if (of.first_row >= of.end_row) continue;
          HeadFetch head(of, args, cache, static_cast<int>(item % num_heads),
                         workspace.workers[static_cast<size_t>(worker)]);
          if (head.is_whole()) continue;
          if (item + 1 < end) head.PrefetchAhead(slots_of(item + 1));
          head.Run(of_item);
        }
      });
  if (args.counts.empty()) return;
  for (int request = 0; request < step.num_requests; ++request) {
    AddCounts(
        std::span(counts).subspan(static_cast<size_t>(request * num_heads),
                                  static_cast<size_t>(num_heads)),
        args.counts.Row<uint32_t>(request));
  }
}

}  // namespace winnow
