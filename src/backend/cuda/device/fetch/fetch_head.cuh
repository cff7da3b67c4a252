// HeadFetch: one request's slots of one KV head, changed by a block.
#ifndef WINNOW_BACKEND_CUDA_DEVICE_FETCH_FETCH_HEAD_CUH_
#define WINNOW_BACKEND_CUDA_DEVICE_FETCH_FETCH_HEAD_CUH_

#include "backend/cuda/device/attend/attend_lists.cuh"
#include "backend/cuda/device/select/select_cut.cuh"

namespace winnow::device {

// As in backend/contract/replacement.h and backend/contract/slot_table.h.
inline constexpr int kNumAges = 64;
inline constexpr int kEmptyAge = 64;
inline constexpr int kAgeMask = 0x7f;
inline constexpr int kHintedBit = 0x80;
inline constexpr int kHintedRank = 1;
inline constexpr int kFirstAgeRank = 2;
inline constexpr int kNumRanks = kFirstAgeRank + kEmptyAge + 1;
enum class SlotUse : uint8_t { kNone, kHinted, kPicked };
enum FetchCount : int {
  kPicksCount,
  kHitsCount,
  kMissesCount,
  kUnplacedCount,
  kHintsCount,
  kHintsUsedCount,
  kFetchedCount,
  kReclaimableCount,
  kHitsByAgeCount,
  kSlotsByAgeCount = kHitsByAgeCount + 64,
  kNumFetchCounts = kSlotsByAgeCount + 65,
};

struct FetchArguments {
  StepRows rows;
  AttendLists lists;
  AttendLists hints;  // without picks: none
  Pages pages;
  int first_request;  // of this launch
  int least_hint_age;
  int max_slots;      // of a request and KV head
  uint32_t* missing;  // [blocks, 2 * max_slots]: pieces
  int32_t* fetched;   // [blocks, 2 * max_slots]: slots
  uint32_t* counts;   // [requests, kNumFetchCounts], or null
  int64_t counts_stride;
  int k_token_bytes, v_token_bytes;  // v 0: none apart
};

struct FetchMemory {
  int counts[kNumFetchCounts];
  int of_rank[kNumRanks];
  int of_warps[kChooseWarps];
  int cut_rank, num_of_rank, num_victims;
};

// The block walks lists in the order of the contract: a pick a thread, places
// in the list of what is missing by sums over the threads before. `uses` is the
// block's shared memory, [slots].
class HeadFetch {
 public:
  __device__ HeadFetch(const FetchArguments& args, FetchMemory& memory,
                       SlotUse* uses)
      : args_(args),
        memory_(memory),
        uses_(uses),
        slots_(args.pages.slots),
        request_(args.first_request +
                 static_cast<int>(blockIdx.x) / args.pages.num_kv_heads),
        head_(static_cast<int>(blockIdx.x) % args.pages.num_kv_heads),
        num_slots_(slots_.NumSlots(request_)),
        missing_(args.missing + 2 * int64_t{args.max_slots} * blockIdx.x),
        fetched_(args.fetched + 2 * int64_t{args.max_slots} * blockIdx.x) {
    const int first = args.rows.first_row[request_];
    first_row_ =
        max(first + args.rows.num_prefill_rows[request_], args.lists.first_row);
    end_row_ = min(first + args.rows.num_tokens[request_],
                   args.lists.first_row + args.lists.num_rows);
  }

  __device__ void Run() {
    if (slots_.num_segments[request_] == 0 || first_row_ >= end_row_) return;
    for (int i = Thread(); i < kNumFetchCounts; i += kChooseThreads) {
      memory_.counts[i] = 0;
    }
    for (int i = Thread(); i < num_slots_; i += kChooseThreads) {
      uses_[i] = SlotUse::kNone;
    }
    __syncthreads();
    Walk(args_.lists, false);
    const int num_picks = num_missing_;
    if (args_.hints.picks != nullptr) Walk(args_.hints, true);
    const int num_placed = Place(0, num_picks, kHintedRank, 0);
    GrowOlder();
    const int num_hints =
        Place(num_picks, num_missing_, kFirstAgeRank + args_.least_hint_age,
              kHintedBit);
    Load(0, num_placed);
    Load(num_picks, num_hints);
    for (int slot = Thread(); slot < num_slots_; slot += kChooseThreads) {
      Count(kSlotsByAgeCount + (Age(slot) & kAgeMask), 1);
    }
    if (Thread() == 0) {
      Count(kUnplacedCount, num_picks - num_placed);
      Count(kHintsCount, num_hints);
      Count(kFetchedCount, num_placed + num_hints);
    }
    AddCounts();
  }

 private:
  static __device__ int Thread() { return static_cast<int>(threadIdx.x); }
  __device__ uint8_t& Age(int slot) const {
    return slots_.Age(request_, head_, slot);
  }
  __device__ uint16_t& Entry(uint32_t piece) const {
    return slots_.Entry(request_, head_, piece);
  }
  __device__ void Count(int what, int value) {
    if (value != 0) atomicAdd(&memory_.counts[what], value);
  }

  // The sum of `value` over the threads before this one, and over all.
  __device__ int SumBefore(int value, int& total) {
    const int in_warp = SumOfLanesBefore(value);
    const int of_warp = __shfl_sync(~0u, in_warp + value, 31);
    return in_warp + SumOfWarpsBefore(of_warp, memory_.of_warps, total);
  }

  __device__ void Walk(const AttendLists& lists, bool hints) {
    const int begin = num_missing_;
    int first_whole = 0, end_whole = 0;  // tokens
    for (int row = first_row_; row < end_row_; ++row) {
      const int num_lists = lists.NumLists(row);
      const int group = lists.num_heads / args_.pages.num_kv_heads;
      const int last = ((head_ + 1) * group - 1) * num_lists / lists.num_heads;
      for (int list = head_ * group * num_lists / lists.num_heads; list <= last;
           ++list) {
        const RowAttention reading(args_.rows, lists, row, list);
        if (reading.list == nullptr) {
          if (first_whole == end_whole) first_whole = reading.first_token;
          end_whole = reading.end_token;
          continue;
        }
        for (int rank = 0; rank < reading.num_picks; rank += kChooseThreads) {
          const bool is_one = rank + Thread() < reading.num_picks;
          Take(is_one ? reading.Picked(rank + Thread()) : PageTokens{0, 0},
               begin, hints);
        }
      }
    }
    const int end_page =
        (end_whole + kAttendPageTokens - 1) / kAttendPageTokens;
    for (int page = first_whole / kAttendPageTokens; page < end_page;
         page += kChooseThreads) {
      const int mine = page + Thread();
      Take(mine < end_page
               ? PageTokens{mine, SeenOf(mine, first_whole, end_whole)}
               : PageTokens{0, 0},
           begin, hints);
    }
  }

  // The tokens [first, end) that a page has.
  static __device__ uint32_t SeenOf(int page, int first, int end) {
    const int from = max(first - page * kAttendPageTokens, 0);
    const int to = min(end - page * kAttendPageTokens, kAttendPageTokens);
    return (~0u << from) & (to == kAttendPageTokens ? ~0u : (1u << to) - 1);
  }

  // A thread's page, no tokens: none. All threads call it; their pages differ.
  __device__ void Take(PageTokens page, int begin, bool hints) {
    const int pieces = slots_.pieces;
    const int piece_tokens = kAttendPageTokens / pieces;
    const uint32_t mask = ~0u >> (kAttendPageTokens - piece_tokens);
    const bool is_whole = page.tokens != 0 &&
                          args_.pages.KvBlock(request_, page.page) != kNotWhole;
    int num_picked = 0, num_hits = 0;
    unsigned missed = 0;  // by piece of the page
    for (int i = 0; i < pieces && page.tokens != 0; ++i) {
      if ((page.tokens >> (i * piece_tokens) & mask) == 0) continue;
      ++num_picked;
      if (is_whole || IsNear(page.page * pieces + i, hints)) {
        ++num_hits;
      } else {
        missed |= 1u << i;
      }
    }
    int total = 0;
    int place = num_missing_ + SumBefore(__popc(missed), total);
    int num_listed = 0;
    for (int i = 0; i < pieces; ++i) {
      if ((missed >> i & 1) == 0) continue;
      if (place - begin < num_slots_) {
        const auto piece = static_cast<uint32_t>(page.page * pieces + i);
        Entry(piece) = static_cast<uint16_t>(num_slots_ + place);
        missing_[place] = piece;
        ++num_listed;
      }
      ++place;
    }
    num_missing_ = min(num_missing_ + total, begin + num_slots_);
    if (!hints) {
      Count(kPicksCount, num_picked);
      Count(kHitsCount, num_hits);
      Count(kMissesCount, __popc(missed));
      Count(kUnplacedCount, __popc(missed) - num_listed);
      if (missed != 0 && Lingers(page.page)) {
        Count(kReclaimableCount, __popc(missed));
      }
    }
    __syncthreads();
  }

  // REQUIRES: the page is not whole.
  __device__ bool Lingers(int page) const {
    return (slots_.FarNumber(request_, page) & kReclaimable) != 0;
  }

  // In a slot, or listed by an earlier page.
  __device__ bool IsNear(uint32_t piece, bool hints) {
    const uint16_t entry = Entry(piece);
    const int slot = slots_.SlotOf(request_, head_, entry, piece);
    if (slot < 0) {
      const int place = entry - num_slots_;
      return place >= 0 && place < num_missing_ && missing_[place] == piece;
    }
    if (hints) {
      if (uses_[slot] == SlotUse::kNone) uses_[slot] = SlotUse::kHinted;
      return true;
    }
    if (uses_[slot] == SlotUse::kPicked) return true;
    uses_[slot] = SlotUse::kPicked;
    const int age = Age(slot);
    Count(kHintsUsedCount, (age & kHintedBit) != 0 ? 1 : 0);
    Count(kHitsByAgeCount + (age & kAgeMask), 1);
    return true;
  }

  __device__ int Rank(int slot) const {
    if (uses_[slot] == SlotUse::kPicked) return 0;
    if (uses_[slot] == SlotUse::kHinted) return kHintedRank;
    return kFirstAgeRank + (Age(slot) & kAgeMask);
  }

  // CutVictims (backend/contract/replacement.h).
  __device__ void FindCut(int num_wanted, int least_rank) {
    for (int i = Thread(); i < kNumRanks; i += kChooseThreads) {
      memory_.of_rank[i] = 0;
    }
    __syncthreads();
    for (int slot = Thread(); slot < num_slots_; slot += kChooseThreads) {
      atomicAdd(&memory_.of_rank[Rank(slot)], 1);
    }
    __syncthreads();
    if (Thread() == 0) {
      int rank = kNumRanks, num_of_rank = 0, num_victims = 0;
      while (num_victims < num_wanted && rank > least_rank) {
        --rank;
        num_of_rank = min(memory_.of_rank[rank], num_wanted - num_victims);
        num_victims += num_of_rank;
      }
      memory_.cut_rank = rank;
      memory_.num_of_rank = num_of_rank;
      memory_.num_victims = num_victims;
    }
    __syncthreads();
  }

  // Gives slots to missing pieces [begin, end) as far as there are victims.
  // Returns to how many.
  __device__ int Place(int begin, int end, int least_rank, int age) {
    if (begin == end) return 0;
    FindCut(end - begin, least_rank);
    int num_equal = 0, num_victims = 0;  // in front of the threads' slots
    for (int first = 0; first < num_slots_; first += kChooseThreads) {
      const int slot = first + Thread();
      const int rank = slot < num_slots_ ? Rank(slot) : 0;
      const bool is_equal = slot < num_slots_ && rank == memory_.cut_rank;
      int total = 0;
      const int before = num_equal + SumBefore(is_equal ? 1 : 0, total);
      num_equal += total;
      const bool goes =
          slot < num_slots_ && (rank > memory_.cut_rank ||
                                (is_equal && before < memory_.num_of_rank));
      const int place = num_victims + SumBefore(goes ? 1 : 0, total);
      num_victims += total;
      if (!goes) continue;
      const uint32_t piece = missing_[begin + place];
      slots_.Tag(request_, head_, slot) = piece;
      Entry(piece) = static_cast<uint16_t>(slot);
      Age(slot) = static_cast<uint8_t>(age);
      uses_[slot] = SlotUse::kPicked;
      fetched_[begin + place] = slot;
      if (age == kHintedBit) {
        Count(kReclaimableCount,
              Lingers(static_cast<int>(piece) / slots_.pieces) ? 1 : 0);
      }
    }
    const int count = memory_.num_victims;
    __syncthreads();
    return count;
  }

  // AgeClock (backend/contract/replacement.h).
  __device__ void GrowOlder() {
    const int first = args_.rows.Position(first_row_);
    const int end = args_.rows.Position(end_row_ - 1) + 1;
    const bool passes4 = (first + 3) / 4 * 4 < end;
    const bool passes16 = (first + 15) / 16 * 16 < end;
    for (int slot = Thread(); slot < num_slots_; slot += kChooseThreads) {
      uint8_t& age = Age(slot);
      const int value = age & kAgeMask;
      if (uses_[slot] == SlotUse::kPicked) {
        age = 0;
      } else if (value < 32 || (value < 48 && passes4) ||
                 (value >= 48 && value < kNumAges - 1 && passes16)) {
        age = static_cast<uint8_t>(age + 1);
      }
    }
    __syncthreads();
  }

  // Copies missing pieces [begin, begin + count) to their slots: a warp each.
  __device__ void Load(int begin, int count) const {
    const int pieces = slots_.pieces;
    const int piece_tokens = kAttendPageTokens / pieces;
    const int lane = Thread() % 32;
    for (int i = Thread() / 32; i < count; i += kChooseWarps) {
      const auto piece = static_cast<int>(missing_[begin + i]);
      const PiecePlace from = args_.pages.OutOfSlots(request_, piece / pieces,
                                                     head_, piece % pieces);
      const PiecePlace to =
          args_.pages.InSlot(request_, head_, fetched_[begin + i]);
      for (int part = 0; part < 2; ++part) {
        const int64_t bytes =
            int64_t{piece_tokens} *
            (part == 0 ? args_.k_token_bytes : args_.v_token_bytes);
        const int64_t offset = part == 0 ? 0 : args_.pages.v_offset_bytes;
        CopyBytes(from.slice + offset + from.index * bytes,
                  to.slice + offset + to.index * bytes, bytes, lane);
      }
    }
  }

  // By 16 bytes where addresses allow it, else by 2.
  static __device__ void CopyBytes(const std::byte* from, std::byte* to,
                                   int64_t bytes, int lane) {
    const auto addresses = reinterpret_cast<uintptr_t>(from) |
                           reinterpret_cast<uintptr_t>(to) |
                           static_cast<uintptr_t>(bytes);
    if (addresses % 16 == 0) {
      for (int64_t i = lane * 16; i < bytes; i += 32 * 16) {
        *reinterpret_cast<uint4*>(to + i) =
            *reinterpret_cast<const uint4*>(from + i);
      }
      return;
    }
    for (int64_t i = lane * 2; i < bytes; i += 32 * 2) {
      *reinterpret_cast<uint16_t*>(to + i) =
          *reinterpret_cast<const uint16_t*>(from + i);
    }
  }

  __device__ void AddCounts() {
    if (args_.counts == nullptr) return;
    __syncthreads();
    uint32_t* counts = args_.counts + request_ * args_.counts_stride;
    for (int i = Thread(); i < kNumFetchCounts; i += kChooseThreads) {
      const auto count = static_cast<uint32_t>(memory_.counts[i]);
      if (count != 0) atomicAdd(&counts[i], count);
    }
  }

  const FetchArguments& args_;
  FetchMemory& memory_;
  SlotUse* const uses_;
  const Slots& slots_;
  const int request_, head_;
  const int num_slots_;
  uint32_t* const missing_;  // [2 * max_slots]: picks', then hints'
  int32_t* const fetched_;   // [2 * max_slots]: the slots that they get
  int first_row_, end_row_;
  int num_missing_ = 0;  // the same in all threads
};

}  // namespace winnow::device

#endif  // WINNOW_BACKEND_CUDA_DEVICE_FETCH_FETCH_HEAD_CUH_
