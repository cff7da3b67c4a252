#include "backend/cpu/attend/attend.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/cpu/attend/slot_head.h"
#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/step_rows.h"
#include "backend/preconditions.h"

namespace winnow {
namespace {

constexpr int kUnitTokens = kUnitPicks * kPageTokens;
static_assert(kUnitTokens == kPromptTileTokens);
constexpr float kNoKey = -std::numeric_limits<float>::infinity();

// The softmax over the keys seen so far: their greatest score, the sum of
// exp(score - maximum), and the values weighted by the same.
struct State {
  float maximum = kNoKey;
  float sum = 0;
  std::array<float, kMaxValueDim> values;  // [v_dim]

  explicit State(int v_dim) { std::fill_n(values.begin(), v_dim, 0.0f); }
};

// exp(from - to), where nothing seen so far weighs nothing.
float Weight(float from, float to) {
  return from == kNoKey ? 0.0f : std::exp(from - to);
}

// Takes the state of later keys into that of earlier ones.
void Merge(const State& later, int v_dim, State& state) {
  if (later.maximum == kNoKey) return;
  const float maximum = std::max(state.maximum, later.maximum);
  const float keep = Weight(state.maximum, maximum);
  const float take = Weight(later.maximum, maximum);
  state.maximum = maximum;
  state.sum = state.sum * keep + later.sum * take;
  for (int i = 0; i < v_dim; ++i) {
    const auto c = static_cast<size_t>(i);
    state.values[c] = state.values[c] * keep + later.values[c] * take;
  }
}

// The tokens of a tile or unit, ascending.
struct TokenRun {
  std::array<int64_t, kUnitTokens> tokens;
  size_t count = 0;

  void Add(int64_t token) { tokens[count++] = token; }
};

// What one row and head reads: where its keys and values lie, and which.
template <typename Q, typename Kv>
struct ScalarRow {
  const LayerCache& cache;
  int request = 0;
  int kv_head = 0;
  const Q* q = nullptr;  // [k_dim]
  float scale = 0;
  int64_t first_token = 0;  // the row sees [first_token, end_token)
  int64_t end_token = 0;
  bool reads_picks = false;  // of these, what `picks` names
  std::span<const Pick> picks = {};
  std::optional<SlotHead> slots = {};  // where pages are that are not whole

  float Score(const Kv* key) const {
    float dot = 0;
    for (int i = 0; i < cache.format.k_dim; ++i) {
      dot += static_cast<float>(q[i]) * static_cast<float>(key[i]);
    }
    return dot * scale;
  }

  // The slice in which a token lies, and which of its tokens it is.
  std::pair<const std::byte*, int64_t> PlaceOf(int64_t token) const {
    const int piece_tokens = cache.format.slot_tokens;
    const int64_t in_page = token % kPageTokens;
    const PiecePlace place = FindPiece(
        cache, slots ? &*slots : nullptr, request, kv_head, token / kPageTokens,
        static_cast<int>(in_page / piece_tokens));
    return {place.slice, place.index * piece_tokens + in_page % piece_tokens};
  }

  // Takes keys into `state`, in their order.
  void TakeIn(const TokenRun& run, State& state) const {
    const HeadBlockFormat& format = cache.format;
    std::array<float, kUnitTokens> scores;
    std::array<const Kv*, kUnitTokens> values;
    float maximum = state.maximum;
    for (size_t i = 0; i < run.count; ++i) {
      const auto [slice, in_page] = PlaceOf(run.tokens[i]);
      const Kv* key =
          reinterpret_cast<const Kv*>(slice) + in_page * format.k_dim;
      scores[i] = Score(key);
      values[i] =
          format.v_in_k
              ? key
              : reinterpret_cast<const Kv*>(slice + format.v_offset_bytes) +
                    in_page * format.v_dim;
      maximum = std::max(maximum, scores[i]);
    }
    const float keep = Weight(state.maximum, maximum);
    state.maximum = maximum;
    state.sum *= keep;
    for (int i = 0; i < format.v_dim; ++i) {
      state.values[static_cast<size_t>(i)] *= keep;
    }
    for (size_t i = 0; i < run.count; ++i) {
      const float weight = std::exp(scores[i] - maximum);
      state.sum += weight;
      for (int c = 0; c < format.v_dim; ++c) {
        state.values[static_cast<size_t>(c)] +=
            weight * static_cast<float>(values[i][c]);
      }
    }
  }

  // The row's keys among [begin, begin + 128).
  TokenRun AllOf(int64_t begin) const {
    TokenRun run;
    const int64_t end = std::min(begin + kUnitTokens, end_token);
    for (int64_t t = std::max(begin, first_token); t < end; ++t) run.Add(t);
    return run;
  }

  // The row's keys among picks [begin, end).
  TokenRun PickedOf(size_t begin, size_t end) const {
    TokenRun run;
    for (const Pick& pick : picks.subspan(begin, end - begin)) {
      for (uint32_t rest = pick.tokens; rest != 0; rest &= rest - 1) {
        const int64_t t =
            int64_t{pick.page} * kPageTokens + std::countr_zero(rest);
        if (t >= first_token && t < end_token) run.Add(t);
      }
    }
    return run;
  }

  State AttendByTiles() const {
    State state(cache.format.v_dim);
    if (reads_picks) {
      for (size_t begin = 0, end = 0; begin < picks.size(); begin = end) {
        const auto tile = picks[begin].page / kUnitPicks;
        while (end < picks.size() && picks[end].page / kUnitPicks == tile)
          ++end;
        TakeIn(PickedOf(begin, end), state);
      }
      return state;
    }
    const int64_t first_tile = first_token / kUnitTokens;
    for (int64_t tile = first_tile; tile * kUnitTokens < end_token; ++tile) {
      TakeIn(AllOf(tile * kUnitTokens), state);
    }
    return state;
  }

  State AttendByUnits() const {
    const int v_dim = cache.format.v_dim;
    State state(v_dim), group(v_dim);
    // Units are numbered by rank: all pages are the list of every page.
    int64_t unit = reads_picks ? 0 : first_token / kUnitTokens;
    const int64_t end_unit =
        reads_picks ? (std::ssize(picks) + kUnitPicks - 1) / kUnitPicks
                    : (end_token + kUnitTokens - 1) / kUnitTokens;
    for (; unit < end_unit; ++unit) {
      State of_unit(v_dim);
      const auto first_pick = static_cast<size_t>(unit) * kUnitPicks;
      TakeIn(reads_picks
                 ? PickedOf(first_pick,
                            std::min(picks.size(), first_pick + kUnitPicks))
                 : AllOf(unit * kUnitTokens),
             of_unit);
      Merge(of_unit, v_dim, group);
      if (unit + 1 == end_unit || (unit + 1) % kGroupUnits == 0) {
        Merge(group, v_dim, state);
        group = State(v_dim);
      }
    }
    return state;
  }
};

// One row and q head.
template <typename Q, typename Kv, typename Out>
void AttendRow(const LayerStep& step, const AttendArgs& args,
               const LayerCache& cache, int64_t row, int64_t head) {
  const StepRows rows(step);
  const int64_t group_heads = args.q.dim(1) / cache.num_kv_heads;
  const int64_t end_token = rows.position(row) + 1;
  ScalarRow<Q, Kv> reader = {
      .cache = cache,
      .request = rows.request(row),
      .kv_head = static_cast<int>(head / group_heads),
      .q = args.q.Row<Q>(row) + head * args.q.stride[1],
      .scale = args.scale,
      .first_token =
          step.window > 0 ? std::max<int64_t>(0, end_token - step.window) : 0,
      .end_token = end_token};
  if (args.slots != nullptr && !rows.is_prompt(row)) {
    reader.slots.emplace(cache, *args.slots, reader.request, reader.kv_head);
  }
  if (args.sources[0].kind == AttendSource::Kind::kPicks) {
    const PickLists& lists = args.sources[0].picks;
    const int64_t list = head * lists.NumLists(row) / args.q.dim(1);
    const int32_t num_picks = lists.NumPicks(row, list);
    reader.reads_picks = num_picks != kEveryPage;
    if (reader.reads_picks) {
      reader.picks = {lists.List(row, list), static_cast<size_t>(num_picks)};
    }
  }
  const State state =
      rows.is_prompt(row) ? reader.AttendByTiles() : reader.AttendByUnits();
  Out* out = args.out.Row<Out>(row) + head * args.out.stride[1];
  for (int i = 0; i < cache.format.v_dim; ++i) {
    out[i] = Out(state.values[static_cast<size_t>(i)] / state.sum);
  }
  if (args.lse.empty()) return;
  args.lse.Row<float>(row)[head] = state.maximum + std::log(state.sum);
}

}  // namespace

void AttendScalar(const LayerStep& step, const AttendArgs& args,
                  const LayerCache& cache, ThreadPool& pool) {
  if (step.num_rows == 0) return;
  CheckAttend(step, args, cache);
  const StepRows rows(step);
  const int64_t num_heads = args.q.dim(1);
  int64_t first_row = 0, num_rows = step.num_rows;
  if (args.sources[0].kind == AttendSource::Kind::kPicks) {
    first_row = args.sources[0].picks.first_row;
    num_rows = args.sources[0].picks.num_rows();
  }
  WithFloatType(args.q.dtype, [&](auto q) {
    WithFloatType(cache.format.k, [&](auto kv) {
      WithFloatType(args.out.dtype, [&](auto out) {
        pool.ParallelFor(num_rows * num_heads, [&](int64_t item, int) {
          const int64_t row = first_row + item / num_heads;
          const bool attended = rows.is_prompt(row) ? step.has_prefill_rows
                                                    : step.has_decode_rows;
          if (!attended) return;
          AttendRow<decltype(q), decltype(kv), decltype(out)>(
              step, args, cache, row, item % num_heads);
        });
      });
    });
  });
}

}  // namespace winnow
