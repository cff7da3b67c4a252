#include "cli/simulate/simulate_report.h"

#include <algorithm>
#include <array>

#include "backend/contract/summary_table.h"
#include "cli/command/progress.h"
#include "simulate/length_fit.h"

namespace winnow {
namespace {

double Share(int64_t part, double of) {
  return of > 0 ? static_cast<double>(part) / of : 0;
}

// Of each recorded length, ascending.
std::vector<RowWork> WorksOf(const SimulateReport& report,
                             const SimulateCell& cell) {
  std::vector<RowWork> works;
  for (const auto& [length, totals] : cell.by_length) {
    works.push_back(WorkOf(report, cell.slot_tokens, totals));
  }
  return works;
}

WorkBasis BasisOf(const SimulateCell& cell, double context_tokens) {
  const int length = LengthClass(context_tokens);
  if (cell.by_length.contains(length)) return WorkBasis::kRecorded;
  return length > cell.by_length.rbegin()->first ? WorkBasis::kExtrapolated
                                                 : WorkBasis::kInterpolated;
}

Result<PlacedCell> Place(const SimulateReport& report, const SimulateCell& cell,
                         int64_t context) {
  const std::vector<RowWork> works = WorksOf(report, cell);
  const auto tokens = static_cast<double>(context);
  if (works.empty()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context must be none, as {} has no row that counts, is "
                     "{}",
                     report.file, FormatTokens(tokens));
  }
  PlacedCell placed = {
      .cell = &cell, .basis = BasisOf(cell, tokens), .work = works.front()};
  const bool is_recorded = placed.basis == WorkBasis::kRecorded;
  if (tokens < works.front().context_tokens && !is_recorded) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context must be at least {}, the shortest that {} has, "
                     "is {}",
                     FormatTokens(works.front().context_tokens), report.file,
                     FormatTokens(tokens));
  }
  if (works.size() == 1 && !is_recorded) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--context must be {}, the one length that {} has "
                     "(others follow from two, a factor of 2 apart), is {}",
                     FormatTokens(works.front().context_tokens), report.file,
                     FormatTokens(tokens));
  }
  const bool can_place = CanPlace(works, tokens);
  if (!can_place && !is_recorded) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--cache-budget {} holds all but one of the lengths that "
                     "{} has, of {} at most: nothing follows for --context {}",
                     cell.cache_budget, report.file,
                     FormatTokens(works.back().context_tokens),
                     FormatTokens(tokens));
  }
  if (tokens < works.front().context_tokens) {
    placed.work.context_tokens = tokens;
  } else if (works.size() == 1 || !can_place) {
    placed.work = works.back();
    placed.work.context_tokens = tokens;
  } else {
    placed.work = WorkAtLength(works, tokens);
  }
  return placed;
}

}  // namespace

std::string_view NameOf(WorkBasis basis) {
  constexpr std::array<std::string_view, 3> kNames = {
      "recorded", "interpolated", "extrapolated"};
  return kNames[static_cast<size_t>(basis)];
}

ReplayTotals SimulateCell::totals() const {
  ReplayTotals all;
  for (const auto& [length, totals] : by_length) all.Add(totals);
  return all;
}

RowWork WorkOf(const SimulateReport& report, int slot_tokens,
               const ReplayTotals& totals) {
  const TraceHeader& header = report.header;
  const auto rows = static_cast<double>(totals.num_rows);
  const auto layers = static_cast<double>(header.num_choosing_layers());
  // Rows, over choosing layers and KV heads.
  const double row_heads = rows * layers * header.num_kv_heads;
  RowWork work;
  work.context_tokens = Share(totals.context_tokens, rows);
  work.dense_layers =
      std::min(header.num_layers() - header.num_choosing_layers(),
               report.plan.model.num_layers);
  work.read_tokens = Share(totals.read_tokens, row_heads);
  work.wanted_tokens = Share(totals.counts.wanted * slot_tokens, row_heads);
  work.missed_tokens = Share(totals.counts.missed * slot_tokens, row_heads);
  work.hinted_tokens =
      Share(totals.counts.of(kHintsCount) * slot_tokens, row_heads);
  work.piece_tokens = slot_tokens;
  work.slot_tokens = Share(totals.slot_tokens, rows * layers);
  work.summary_bytes = static_cast<double>(header.summary_bytes) /
                       kSegmentTokens / header.head_dim *
                       report.plan.model.head_dim;
  return work;
}

double FetchedBytes(const SimulateReport& report, const PlacedCell& at) {
  const TraceHeader& header = report.header;
  return (at.work.missed_tokens + at.work.hinted_tokens) *
         header.num_choosing_layers() * header.num_kv_heads * 2 *
         header.head_dim * header.kv_element_bytes;
}

Result<std::vector<PlacedCells>> PlaceCells(const SimulateReport& report) {
  std::vector<PlacedCells> all;
  if (report.plan.contexts.empty()) {
    PlacedCells& placed = all.emplace_back();
    for (const SimulateCell& cell : report.cells) {
      placed.cells.push_back(
          {.cell = &cell,
           .work = WorkOf(report, cell.slot_tokens, cell.totals())});
    }
    placed.context_tokens = placed.cells.front().work.context_tokens;
  }
  for (const int64_t context : report.plan.contexts) {
    PlacedCells& placed = all.emplace_back();
    placed.context_tokens = static_cast<double>(context);
    for (const SimulateCell& cell : report.cells) {
      ASSIGN_OR_RETURN(const PlacedCell at, Place(report, cell, context));
      placed.cells.push_back(at);
    }
    placed.basis = placed.cells.front().basis;
  }
  return all;
}

std::optional<HeldOut> HoldOutLongest(const SimulateReport& report,
                                      const SimulateCell& cell) {
  std::vector<RowWork> works = WorksOf(report, cell);
  if (works.size() < 3) return std::nullopt;
  const RowWork longest = works.back();
  works.pop_back();
  if (!CanPlace(works, longest.context_tokens)) return std::nullopt;
  return HeldOut{.recorded = longest,
                 .predicted = WorkAtLength(works, longest.context_tokens)};
}

}  // namespace winnow
