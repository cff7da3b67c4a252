#include "simulate/random_trace.h"

#include <limits>
#include <map>

namespace winnow {
namespace {

int64_t Between(int64_t low, int64_t high, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

bool Chance(double p, std::mt19937_64& random) {
  return std::bernoulli_distribution(p)(random);
}

// What one list of a layer picks, from row to row.
class RandomList {
 public:
  RandomList(const TraceHeader& header, const RandomTraceOptions& options)
      : header_(header), options_(options) {}

  TraceList Next(int64_t position, std::mt19937_64& random) {
    TraceList list;
    list.reads_all = Chance(0.02, random);
    if (list.reads_all) return list;
    list.bands.resize(header_.levels.size());
    list.scores.resize(header_.levels.size());
    const int64_t own = position / kPageTokens;
    for (int64_t page = 0; page <= own; ++page) {
      auto [level, is_new] = level_of_.try_emplace(page, 0);
      if (is_new || !Chance(options_.stays, random)) {
        level->second = Between(0, 3 * std::ssize(header_.levels), random);
      }
      if (page == own) level->second = 0;
      if (level->second >= std::ssize(header_.levels)) continue;
      uint32_t tokens = ~uint32_t{0};
      if (options_.in_parts && Chance(0.3, random)) {
        const uint32_t drawn = static_cast<uint32_t>(random());
        const uint32_t parts[] = {0x0000ffffu, 0xffff0000u, drawn};
        tokens = parts[random() % 3];
      }
      if (page == own) {
        tokens = ~uint32_t{0} >> (kPageTokens - 1 - position % kPageTokens);
      }
      if (tokens == 0) continue;
      list.bands[static_cast<size_t>(level->second)].push_back(
          {static_cast<uint32_t>(page), tokens});
    }
    for (size_t level = 0; level < list.bands.size(); ++level) {
      list.scores[level] = Scores(list.bands[level].size(), random);
    }
    return list;
  }

 private:
  // As a list that scores decide on has them, or that they do not.
  static BandScores Scores(size_t num_picks, std::mt19937_64& random) {
    std::vector<float> scores;
    if (Chance(0.2, random)) return {};
    const auto shift = static_cast<float>(Between(-100, 100, random));
    for (size_t i = 0; i < num_picks; ++i) {
      scores.push_back(
          Chance(0.1, random)
              ? -std::numeric_limits<float>::infinity()
              : shift + static_cast<float>(Between(0, 1000, random)) / 64);
    }
    return BandScoresOf(scores);
  }

  const TraceHeader& header_;
  const RandomTraceOptions& options_;
  std::map<int64_t, int64_t> level_of_;
};

}  // namespace

TraceHeader RandomTraceHeader(std::mt19937_64& random) {
  TraceHeader header;
  header.model = "random";
  header.select = "quest:budget=1K";
  header.num_kv_heads = static_cast<int>(Between(1, 2, random));
  header.num_q_heads =
      header.num_kv_heads * static_cast<int>(Between(1, 3, random));
  header.head_dim = 64;
  header.kv_element_bytes = 2;
  header.summary_bytes = Between(0, 1 << 14, random);
  header.chooses.push_back(true);
  for (int64_t i = Between(0, 2, random); i > 0; --i) {
    header.chooses.push_back(Chance(0.5, random));
  }
  int level = 0;
  for (int64_t i = Between(0, 2, random); i > 0; --i) {
    header.levels.push_back(level += 1 + static_cast<int>(random() % 300));
  }
  header.levels.push_back(level = kBudgetLevel);
  for (int64_t i = Between(0, 3, random); i > 0; --i) {
    header.levels.push_back(level += 1 + static_cast<int>(random() % 900));
  }
  return header;
}

TraceRequest RandomTraceRequest(const TraceHeader& header,
                                const RandomTraceOptions& options,
                                std::mt19937_64& random) {
  TraceRequest request;
  request.task = "chain";
  request.origin = "chain.16k.jsonl:7";
  request.answered_right = Chance(0.5, random);
  request.first_position =
      Between(0, int64_t{options.max_pages} * kPageTokens, random);
  const int64_t num_lists =
      Chance(0.5, random) ? header.num_kv_heads : header.num_q_heads;
  std::vector<std::vector<RandomList>> lists(
      static_cast<size_t>(header.num_choosing_layers()),
      std::vector<RandomList>(static_cast<size_t>(num_lists),
                              RandomList(header, options)));
  int64_t position = request.first_position;
  for (int64_t i = Between(1, options.max_steps, random); i > 0; --i) {
    TraceStep& step = request.steps.emplace_back();
    const bool several = options.in_parts && Chance(0.1, random);
    step.num_rows = several ? static_cast<int>(Between(2, 5, random)) : 1;
    for (auto& of_layer : lists) {
      auto& rows = step.layers.emplace_back();
      for (int row = 0; row < step.num_rows; ++row) {
        TraceRowLists& of_row = rows.emplace_back();
        for (RandomList& list : of_layer) {
          of_row.push_back(list.Next(position + row, random));
        }
      }
    }
    position += step.num_rows;
  }
  return request;
}

}  // namespace winnow
