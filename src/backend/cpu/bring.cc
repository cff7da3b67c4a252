#include "backend/cpu/bring.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "backend/cpu/slot_head.h"
#include "backend/cpu/step_rows.h"
#include "backend/cpu/tile_pages.h"
#include "backend/preconditions.h"
#include "backend/replacement.h"

namespace winnow {
namespace {

using Counts = std::array<uint32_t, kNumBringCounts>;

// The generated rows of one request that are read.
struct BroughtRows {
  const StepRows& rows;
  const LayerStep& step;
  const BringArgs& args;
  int request = 0;
  int64_t first_row = 0, end_row = 0;

  BroughtRows(const StepRows& of, const LayerStep& of_step,
              const BringArgs& of_args, int of_request)
      : rows(of), step(of_step), args(of_args), request(of_request) {
    if (!step.has_generated_rows) return;
    const int64_t first = rows.first_row(request);
    first_row = first + rows.num_prompt_rows(request);
    end_row = first + rows.num_tokens(request);
    if (args.source.kind == ReadSource::Kind::kAllPages) return;
    const PickLists& lists = args.source.picks;
    first_row = std::max<int64_t>(first_row, lists.first_row);
    end_row = std::min<int64_t>(end_row, lists.first_row + lists.num_rows());
  }

  int64_t first_position() const { return rows.position(first_row); }
  int64_t end_position() const { return rows.position(end_row - 1) + 1; }
};

// One request and KV head.
class HeadBring {
 public:
  HeadBring(const BroughtRows& of, const LayerCache& cache, int kv_head,
            BringScratch& scratch)
      : of_(of),
        cache_(cache),
        kv_head_(kv_head),
        head_(cache, *of.args.slots, of.request, kv_head),
        scratch_(scratch),
        uses_(scratch.uses.data(), static_cast<size_t>(head_.num_slots())),
        ranks_(scratch.ranks.data(), uses_.size()) {}

  bool is_whole() const { return head_.is_whole(); }

  void Run(Counts& counts) {
    std::ranges::fill(uses_, static_cast<uint8_t>(SlotUse::kNone));
    ForEachPiece(of_.args.source,
                 [&](int64_t page, int index) { Pick(page, index, counts); });
    num_picks_ = num_missing_;
    if (!of_.args.hints.picks.empty()) {
      const ReadSource hints = {.kind = ReadSource::Kind::kPicks,
                                .picks = of_.args.hints};
      ForEachPiece(hints, [&](int64_t page, int index) { Hint(page, index); });
    }
    const int32_t num_placed = Place(0, num_picks_, kHintedRank, 0);
    GrowOlder();
    const int32_t num_hinted =
        Place(num_picks_, num_missing_, kFirstAgeRank + of_.args.least_hint_age,
              kHintedBit);
    for (size_t age = 0; age < by_age_.size(); ++age) {
      counts[kSlotsByAgeCount + age] += static_cast<uint32_t>(by_age_[age]);
    }
    counts[kUnplacedCount] += static_cast<uint32_t>(num_picks_ - num_placed);
    counts[kHintsCount] += static_cast<uint32_t>(num_hinted);
    counts[kFetchedCount] += static_cast<uint32_t>(num_placed + num_hinted);
  }

 private:
  // visit(page, index) for every piece that a source names, which a row sees:
  // by rows, lists, ranks and pieces; then what is read whole, by pages.
  template <typename Visit>
  void ForEachPiece(const ReadSource& source, Visit&& visit) const {
    int64_t first_whole = 0, end_whole = 0;  // tokens
    for (int64_t row = of_.first_row; row < of_.end_row; ++row) {
      const int64_t position = of_.rows.position(row);
      const int64_t first = FirstVisible(position, of_.step.window);
      const auto add_whole = [&] {
        if (first_whole == end_whole) first_whole = first;
        end_whole = position + 1;
      };
      if (source.kind == ReadSource::Kind::kAllPages) {
        add_whole();
        continue;
      }
      const PickLists& lists = source.picks;
      const int64_t num_lists = lists.NumLists(row);
      const int64_t num_heads = lists.num_picks.dim(1);
      const int64_t group = num_heads / cache_.num_kv_heads;
      const int64_t first_list = kv_head_ * group * num_lists / num_heads;
      const int64_t last_list =
          ((kv_head_ + 1) * group - 1) * num_lists / num_heads;
      for (int64_t list = first_list; list <= last_list; ++list) {
        const int32_t num_picks = lists.NumPicks(row, list);
        if (num_picks == kEveryPage) add_whole();
        for (int32_t i = 0; i < num_picks; ++i) {
          const winnow::Pick& pick = lists.List(row, list)[i];
          ForPiecesOf(pick.page,
                      pick.tokens & TokensIn(pick.page, first, position),
                      visit);
        }
      }
    }
    for (int64_t page = first_whole / kPageTokens;
         page * kPageTokens < end_whole; ++page) {
      ForPiecesOf(page, TokensIn(page, first_whole, end_whole - 1), visit);
    }
  }

  template <typename Visit>
  void ForPiecesOf(int64_t page, uint32_t tokens, Visit&& visit) const {
    const int slot_tokens = cache_.format.slot_tokens;
    const uint32_t mask = ~uint32_t{0} >> (kPageTokens - slot_tokens);
    for (int index = 0; tokens != 0; ++index) {
      if ((tokens & mask) != 0) visit(page, index);
      tokens = slot_tokens == kPageTokens ? 0 : tokens >> slot_tokens;
    }
  }

  bool PageIsWhole(int64_t page) const {
    CHECK(page < cache_.page_table.dim(1), "page={} page_table {}", page,
          ToString(cache_.page_table));
    return cache_.page_table.Row<uint32_t>(of_.request)[page] != kNotWhole;
  }
  SlotUse Use(int slot) const {
    return static_cast<SlotUse>(uses_[static_cast<size_t>(slot)]);
  }
  void SetUse(int slot, SlotUse use) {
    uses_[static_cast<size_t>(slot)] = static_cast<uint8_t>(use);
  }
  // Whether an entry names the piece's place in the list of what is missing.
  bool IsMissing(uint16_t entry, uint32_t piece) const {
    const int32_t place = entry - head_.num_slots();
    return place >= 0 && place < num_missing_ &&
           scratch_.missing[static_cast<size_t>(place)] == piece;
  }
  // False where the list is full: it has room for what slots have room for.
  bool AddMissing(uint32_t piece, int32_t begin, uint16_t& entry) {
    if (num_missing_ - begin >= head_.num_slots()) return false;
    entry = static_cast<uint16_t>(head_.num_slots() + num_missing_);
    scratch_.missing[static_cast<size_t>(num_missing_++)] = piece;
    return true;
  }

  void Pick(int64_t page, int index, Counts& counts) {
    ++counts[kPicksCount];
    if (PageIsWhole(page)) {
      ++counts[kHitsCount];
      return;
    }
    uint16_t& entry = head_.Entry(page, index);
    const uint32_t piece = head_.PieceNumber(page, index);
    const int slot = head_.SlotOf(entry, piece);
    if (slot >= 0) {
      ++counts[kHitsCount];
      if (Use(slot) == SlotUse::kPicked) return;
      const uint8_t age = head_.Age(slot);
      counts[kHintsUsedCount] += (age & kHintedBit) != 0;
      ++counts[static_cast<size_t>(kHitsByAgeCount + (age & kAgeMask))];
      SetUse(slot, SlotUse::kPicked);
      return;
    }
    if (IsMissing(entry, piece)) {
      ++counts[kHitsCount];
      return;
    }
    ++counts[kMissesCount];
    if (!AddMissing(piece, 0, entry)) ++counts[kUnplacedCount];
  }

  void Hint(int64_t page, int index) {
    if (PageIsWhole(page)) return;
    uint16_t& entry = head_.Entry(page, index);
    const uint32_t piece = head_.PieceNumber(page, index);
    const int slot = head_.SlotOf(entry, piece);
    if (slot >= 0) {
      if (Use(slot) == SlotUse::kNone) SetUse(slot, SlotUse::kHinted);
      return;
    }
    if (of_.args.least_hint_age == kNoHintFetch) return;
    if (!IsMissing(entry, piece)) AddMissing(piece, num_picks_, entry);
  }

  // Who would make room for so many pieces.
  VictimCut RankSlots(int32_t num_wanted, int least_rank) {
    for (size_t slot = 0; slot < uses_.size(); ++slot) {
      const int s = static_cast<int>(slot);
      ranks_[slot] = static_cast<uint8_t>(EvictionRank(head_.Age(s), Use(s)));
    }
    return CutVictims(CountRanks(ranks_), num_wanted, least_rank);
  }

  // Gives slots to missing pieces [begin, end) as far as there are victims, and
  // fetches them. Returns to how many.
  int32_t Place(int32_t begin, int32_t end, int least_rank, uint8_t age) {
    if (begin == end) return 0;
    const VictimCut cut = RankSlots(end - begin, least_rank);
    int32_t next = begin;
    ForEachVictim(ranks_, cut, [&](int32_t slot) {
      const uint32_t piece = scratch_.missing[static_cast<size_t>(next++)];
      const int64_t page = piece / static_cast<uint32_t>(head_.pieces_a_page());
      const int index = static_cast<int>(
          piece % static_cast<uint32_t>(head_.pieces_a_page()));
      head_.Tag(slot) = piece;
      head_.Entry(page, index) = static_cast<uint16_t>(slot);
      // Counted already where it is a hint that comes.
      --ByAge(head_.Age(slot));
      ++ByAge(age);
      head_.Age(slot) = age;
      SetUse(slot, SlotUse::kPicked);
      Fetch(head_.OnHost(page, index), head_.InSlot(slot));
    });
    return cut.num_victims;
  }

  void Fetch(const PiecePlace& from, const PiecePlace& to) const {
    const SliceFormat& format = cache_.format;
    const auto copy = [&](int64_t offset_bytes, int token_bytes) {
      const int64_t piece_bytes = int64_t{format.slot_tokens} * token_bytes;
      std::memcpy(to.slice + offset_bytes + to.index * piece_bytes,
                  from.slice + offset_bytes + from.index * piece_bytes,
                  static_cast<size_t>(piece_bytes));
    };
    copy(0, format.k_dim * DtypeBytes(format.k));
    if (format.v_in_k) return;
    copy(format.v_offset_bytes(), format.v_dim * DtypeBytes(format.v));
  }

  int32_t& ByAge(uint8_t age) { return by_age_[age & kAgeMask]; }

  void GrowOlder() {
    by_age_.fill(0);
    std::array<uint8_t, 256> next;
    for (size_t age = 0; age < next.size(); ++age) {
      next[age] = NextAge(static_cast<uint8_t>(age), of_.first_position(),
                          of_.end_position());
    }
    const int a_chunk = kChunkFrames * head_.pieces_a_page();
    for (int first = 0; first < head_.num_slots(); first += a_chunk) {
      uint8_t* ages = &head_.Age(first);
      const int count = std::min(a_chunk, head_.num_slots() - first);
      for (int i = 0; i < count; ++i) {
        ages[i] = Use(first + i) == SlotUse::kPicked ? 0 : next[ages[i]];
        ++ByAge(ages[i]);
      }
    }
  }

  const BroughtRows& of_;
  const LayerCache& cache_;
  const int kv_head_;
  const SlotHead head_;
  BringScratch& scratch_;
  const std::span<uint8_t> uses_, ranks_;           // [slots]
  int32_t num_missing_ = 0;                         // picks' first, then hints'
  int32_t num_picks_ = 0;                           // of these
  std::array<int32_t, kEmptyAge + 1> by_age_ = {};  // slots
};

void AddCounts(const Counts& counts, const View& to, int request) {
  uint32_t* sums = to.Row<uint32_t>(request);
  for (size_t i = 0; i < counts.size(); ++i) {
    // Other heads of the request add to them too.
    if (counts[i] != 0) std::atomic_ref(sums[i]).fetch_add(counts[i]);
  }
}

}  // namespace

BringScratch::BringScratch()
    : uses(kMaxSlots), ranks(kMaxSlots), missing(2 * kMaxSlots) {}

void BringPieces(const LayerStep& step, const BringArgs& args,
                 const LayerCache& cache, std::span<BringScratch> scratch,
                 ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckBring(step, args, cache);
  const StepRows rows(step);
  const int num_heads = cache.num_kv_heads;
  pool.ParallelFor(
      int64_t{step.num_requests} * num_heads, [&](int64_t item, int worker) {
        const auto request = static_cast<int>(item / num_heads);
        const BroughtRows of(rows, step, args, request);
        if (of.first_row >= of.end_row) return;
        HeadBring head(of, cache, static_cast<int>(item % num_heads),
                       scratch[static_cast<size_t>(worker)]);
        if (head.is_whole()) return;
        Counts counts = {};
        head.Run(counts);
        if (!args.counts.empty()) AddCounts(counts, args.counts, request);
      });
}

}  // namespace winnow
