#include "simulate/step_pieces.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace winnow {
namespace {

// The scores that a list records.
class ScoreRange {
 public:
  explicit ScoreRange(const TraceList& list) {
    for (const BandScores& scores : list.scores) {
      if (scores.steps.empty()) continue;
      least_ = std::min(least_, scores.least);
      most_ = std::max(most_, scores.most);
    }
  }

  float ShareOf(const TraceList& list, size_t level, size_t pick) const {
    if (level >= list.scores.size() || !(most_ > least_)) return 0;
    const float score = list.scores[level].ScoreOf(pick);
    if (!std::isfinite(score)) return 0;
    return static_cast<float>((static_cast<double>(score) - least_) /
                              (static_cast<double>(most_) - least_));
  }

 private:
  float least_ = std::numeric_limits<float>::infinity(), most_ = -least_;
};

// One step of one layer and KV head.
class StepWalk {
 public:
  StepWalk(const TraceHeader& header, const PieceOptions& options,
           int64_t first_position, int num_rows)
      : header_(header),
        options_(options),
        pieces_a_page_(kPageTokens / options.slot_tokens),
        first_open_page_(first_position / kPageTokens) {
    step_.first_position = first_position;
    step_.end_position = first_position + num_rows;
  }

  StepPieces Walk(const std::vector<TraceRowLists>& rows, int kv_head) {
    for (size_t row = 0; row < rows.size(); ++row) {
      const TraceRowLists& lists = rows[row];
      const int num_lists = static_cast<int>(lists.size());
      const int group = header_.num_q_heads / header_.num_kv_heads;
      const int first = kv_head * group * num_lists / header_.num_q_heads;
      const int last =
          ((kv_head + 1) * group - 1) * num_lists / header_.num_q_heads;
      for (int list = first; list <= last; ++list) {
        AddList(lists[static_cast<size_t>(list)],
                step_.first_position + static_cast<int64_t>(row) + 1);
      }
    }
    AddWhole();
    Rank();
    return std::move(step_);
  }

 private:
  void AddList(const TraceList& list, int64_t context) {
    if (list.reads_all) {
      whole_context_ = context;
      return;
    }
    const auto budget = static_cast<size_t>(header_.budget_level());
    const auto hints = static_cast<size_t>(options_.hint_level);
    AddPages(Union(list, 0, budget), step_.picks);
    if (options_.hint_source == HintSource::kNextRanks && hints > budget) {
      AddPages(Union(list, budget + 1, hints), step_.hints);
    }
    const ScoreRange range(list);
    for (size_t level = 0; level < list.bands.size(); ++level) {
      for (size_t i = 0; i < list.bands[level].size(); ++i) {
        const Pick& pick = list.bands[level][i];
        if (pick.page >= first_open_page_) continue;
        const float share = range.ShareOf(list, level, i);
        ForPiecesOf(pick, [&](uint32_t piece) {
          step_.ranked.push_back({piece, static_cast<int>(level), share});
        });
      }
    }
  }

  // Rows that read everything see more and more; the last one sees all.
  void AddWhole() {
    for (int64_t page = 0; page * kPageTokens < whole_context_; ++page) {
      const int64_t count =
          std::min<int64_t>(whole_context_ - page * kPageTokens, kPageTokens);
      const auto behind = static_cast<int>(kPageTokens - count);
      const Pick pick = {static_cast<uint32_t>(page), ~uint32_t{0} >> behind};
      AddPage(pick, step_.picks);
      if (pick.page >= first_open_page_) continue;
      ForPiecesOf(
          pick, [&](uint32_t piece) { step_.ranked.push_back({piece, 0, 1}); });
    }
  }

  // Levels [first, last] of a list as one, pages ascending.
  static std::vector<Pick> Union(const TraceList& list, size_t first,
                                 size_t last) {
    std::vector<Pick> all;
    for (size_t level = first; level <= last; ++level) {
      all.insert(all.end(), list.bands[level].begin(), list.bands[level].end());
    }
    std::ranges::sort(all, {}, &Pick::page);
    size_t count = 0;
    for (const Pick& pick : all) {
      if (count > 0 && all[count - 1].page == pick.page) {
        all[count - 1].tokens |= pick.tokens;
      } else {
        all[count++] = pick;
      }
    }
    all.resize(count);
    return all;
  }

  void AddPages(const std::vector<Pick>& picks, std::vector<WantedPiece>& to) {
    for (const Pick& pick : picks) AddPage(pick, to);
  }
  void AddPage(const Pick& pick, std::vector<WantedPiece>& to) const {
    ForPiecesOf(pick, [&](uint32_t piece) {
      to.push_back({piece, pick.page >= first_open_page_});
    });
  }
  template <typename Visit>
  void ForPiecesOf(const Pick& pick, Visit&& visit) const {
    const uint32_t of_piece =
        ~uint32_t{0} >> (kPageTokens - options_.slot_tokens);
    for (int index = 0; index < pieces_a_page_; ++index) {
      const uint32_t tokens = pick.tokens >> (index * options_.slot_tokens);
      if ((tokens & of_piece) == 0) continue;
      visit(pick.page * static_cast<uint32_t>(pieces_a_page_) +
            static_cast<uint32_t>(index));
    }
  }

  void Rank() {
    std::ranges::sort(step_.ranked, [](RankedPiece a, RankedPiece b) {
      return a.piece != b.piece ? a.piece < b.piece : a.level < b.level;
    });
    size_t count = 0;
    for (const RankedPiece& ranked : step_.ranked) {
      if (count > 0 && step_.ranked[count - 1].piece == ranked.piece) {
        float& share = step_.ranked[count - 1].score_share;
        share = std::max(share, ranked.score_share);
      } else {
        step_.ranked[count++] = ranked;
      }
    }
    step_.ranked.resize(count);
  }

  const TraceHeader& header_;
  const PieceOptions options_;
  const int pieces_a_page_;
  const int64_t first_open_page_;
  int64_t whole_context_ = 0;
  StepPieces step_;
};

// Hints that are picks of another step or layer: none of the first.
void AddEarlierPicks(const TraceHeader& header, HintSource source,
                     std::vector<std::vector<StepPieces>>& pieces) {
  const auto num_heads = static_cast<size_t>(header.num_kv_heads);
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (size_t step = 0; step < pieces[i].size(); ++step) {
      if (source == HintSource::kPreviousStep) {
        if (step > 0) pieces[i][step].hints = pieces[i][step - 1].picks;
      } else if (i >= num_heads) {
        pieces[i][step].hints = pieces[i - num_heads][step].picks;
      }
    }
  }
}

}  // namespace

std::vector<std::vector<StepPieces>> PiecesOf(const TraceHeader& header,
                                              const TraceRequest& request,
                                              const PieceOptions& options) {
  CHECK(options.slot_tokens > 0 && kPageTokens % options.slot_tokens == 0 &&
            options.hint_level < static_cast<int>(header.levels.size()),
        "slot_tokens={} hint_level={}", options.slot_tokens,
        options.hint_level);
  std::vector<std::vector<StepPieces>> pieces(
      static_cast<size_t>(header.num_choosing_layers() * header.num_kv_heads));
  int64_t position = request.first_position;
  for (const TraceStep& step : request.steps) {
    size_t i = 0;
    for (const auto& rows : step.layers) {
      for (int head = 0; head < header.num_kv_heads; ++head) {
        StepWalk walk(header, options, position, step.num_rows);
        pieces[i++].push_back(walk.Walk(rows, head));
      }
    }
    position += step.num_rows;
  }
  if (options.hint_source != HintSource::kNextRanks) {
    AddEarlierPicks(header, options.hint_source, pieces);
  }
  return pieces;
}

}  // namespace winnow
