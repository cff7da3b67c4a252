// The conformance suite, part ten: choices that are made once, against float64,
// and the lists of the rows behind them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "backend/conformance/host_summaries.h"
#include "backend/conformance/listed_tokens.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/sparse_case.h"

namespace winnow {
namespace {

using FixedKind = FixedChoice::Kind;

SelectProgram ObservedProgram(Dtype dtype, RandomSource& random) {
  SelectProgram program;
  program.scope = random.Among({Scope::kQHead, Scope::kKvHead});
  program.block_tokens = 1;
  const int window = random.Among({1, 8, 32, 40});
  const int pooled = random.Among({1, 5, 7});
  program.fixed = {.kind = FixedKind::kObserved,
                   .budget = random.Chance(0.3)
                                 ? Amount{Amount::Unit::kShare, 0.3}
                                 : Amount{Amount::Unit::kTokens,
                                          random.Among({10.0, 60.0, 150.0})},
                   .window_tokens = window,
                   .pool = {random.Among({Reduction::kMean, Reduction::kMax}),
                            pooled, 1, pooled / 2}};
  program.forced = {.sink_tokens = random.Among({0, 0, 4}),
                    .recent_tokens = window};
  if (random.Chance(0.3)) {
    program.rows = {SummaryRows::Kind::kKeys, 1, 1, dtype};
    program.budget = {Amount::Unit::kTokens, 40};
  }
  return program;
}

SelectProgram OutlierProgram(Dtype dtype, uint32_t features,
                             RandomSource& random) {
  SelectProgram program;
  program.block_tokens = random.Among({4, 8, 16, 32});
  program.rows = {SummaryRows::Kind::kMean, program.block_tokens,
                  program.block_tokens,
                  random.Chance(0.5) ? Dtype::kFloat32 : dtype};
  if ((features & static_cast<uint32_t>(SelectFeature::kFloat8Rows)) != 0 &&
      random.Chance(0.3)) {
    program.rows.dtype = Dtype::kFloat8E4M3;
  }
  program.fixed.kind = FixedKind::kOutliers;
  program.fixed.budget = random.Among(
      {Amount{Amount::Unit::kTokens, 0}, Amount{Amount::Unit::kTokens, 48},
       Amount{Amount::Unit::kTokens, 900}, Amount{Amount::Unit::kShare, 0.2}});
  program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
  program.group = random.Among({Reduction::kMax, Reduction::kSum});
  program.forced = {.sink_tokens = random.Among({0, 5}),
                    .recent_tokens = random.Among({0, 16, 40}),
                    .inside_budget = random.Chance(0.5)};
  program.budget = {Amount::Unit::kTokens, random.Among({0.0, 70.0, 200.0})};
  return program;
}

SparseCase FixedCase(uint32_t features, RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  shape.k_dim = shape.v_dim = random.Among({16, 32, 64});
  std::vector<RequestRows> requests;
  std::vector<int32_t> ends;
  for (int64_t i = 0; i < random.Between(1, 3); ++i) {
    ends.push_back(static_cast<int32_t>(random.Between(1, 500)));
    const auto before = static_cast<int32_t>(random.Between(-40, 1));
    requests.push_back({std::max(ends.back() - before, 0),
                        static_cast<int32_t>(random.Between(1, 3)), 0});
  }
  SparseCase sparse(shape, requests, random);
  sparse.programs = {ObservedProgram(shape.dtype, random),
                     OutlierProgram(shape.dtype, features, random)};
  for (size_t r = 0; r < requests.size(); ++r) {
    sparse.selectors.push_back(
        static_cast<int32_t>(random.Among({0, 0, 1, 1, -1})));
    const bool is_observed = sparse.selectors[r] == 0;
    // Outliers are those of the prefill rows, of which there may be fewer.
    sparse.prompt_tokens.push_back(is_observed ? ends[r] : ends[r] + 7);
    sparse.context_tokens.push_back(is_observed ? ends[r] / 2 : ends[r]);
    sparse.token_q.push_back(RandomArray(
        shape.dtype,
        {requests[r].end_position(), shape.num_q_heads(), shape.k_dim},
        random));
  }
  return sparse;
}

// An E4M3 number.
double Float8Of(std::byte byte) {
  const auto bits = std::to_integer<int>(byte);
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -9)
                               : std::ldexp(8 + mantissa, exponent - 10);
  return bits >> 7 != 0 ? -magnitude : magnitude;
}

// What Summarize has left of one list of a request: what is fixed, and the
// summary rows' numbers.
struct Kept {
  std::vector<bool> fixed;                // by token before the end
  std::vector<std::vector<double>> rows;  // by row before the end
};

struct ListKey {
  size_t request;
  int list;  // of the row
  auto operator<=>(const ListKey&) const = default;
};
using KeptLists = std::map<ListKey, Kept>;

// How a row's free partitions lie, as select_program.h has it.
struct Shape {
  int64_t end = 0;  // behind which the choice is fixed
  int64_t first_free = 0, end_free = 0;
  int64_t num_fixed = 0, num_chosen = 0;

  Shape(const SparseCase& sparse, size_t request, int64_t context) {
    const SelectProgram& program =
        sparse.programs[static_cast<size_t>(sparse.selectors[request])];
    const int64_t block = program.block_tokens;
    const bool is_observed = program.fixed.kind == FixedKind::kObserved;
    end = is_observed ? sparse.prompt_tokens[request]
                      : sparse.context_tokens[request];
    const auto blocks = [&](int64_t tokens) {
      return (tokens + block - 1) / block;
    };
    first_free = std::min(blocks(program.forced.sink_tokens), end / block);
    end_free = std::max(end / block - blocks(program.forced.recent_tokens),
                        first_free);
    const int64_t num_free = end_free - first_free;
    int64_t most = program.fixed.budget.TokensOf(end) / block;
    if (is_observed) most -= program.fixed.window_tokens;
    num_fixed = std::clamp<int64_t>(most, 0, num_free);
    most = program.budget.TokensOf(context) / block;
    if (program.budget.TokensOf(context) >= context) most = blocks(context);
    if (program.forced.inside_budget) {
      most -= first_free + (context - 1) / block + 1 - end_free;
    }
    num_chosen = std::clamp<int64_t>(most, 0, num_free - num_fixed);
  }
};

struct Score {
  double value = 0, slack = 0;
};

// Of `in`, none may be worse than one of `out`, as far as float32 can tell.
void ExpectBetter(const std::vector<Score>& scores,
                  const std::vector<int64_t>& in,
                  const std::vector<int64_t>& out, const char* what) {
  if (in.empty() || out.empty()) return;
  const auto of = [&](int64_t i) { return scores[static_cast<size_t>(i)]; };
  const int64_t worst = *std::ranges::min_element(
      in, {}, [&](int64_t i) { return of(i).value + of(i).slack; });
  const int64_t best = *std::ranges::max_element(
      out, {}, [&](int64_t i) { return of(i).value - of(i).slack; });
  EXPECT_GE(of(worst).value + of(worst).slack, of(best).value - of(best).slack)
      << what << ": partition " << worst << " is in and not " << best;
}

double Dot(const TestArray& q, int64_t row, int head,
           const std::vector<double>& key) {
  double sum = 0;
  for (size_t c = 0; c < key.size(); ++c) {
    sum += q.at(row, head, static_cast<int64_t>(c)) * key[c];
  }
  return sum;
}

std::vector<double> KeyOf(const SparseCase& sparse, size_t request,
                          int64_t token, int kv_head) {
  std::vector<double> key;
  for (int c = 0; c < sparse.paged.shape().k_dim; ++c) {
    key.push_back(sparse.paged.keys(request).at(token, kv_head, c));
  }
  return key;
}

// The heads of a list, [first, end).
std::pair<int, int> HeadsOf(const SparseCase& sparse, size_t request,
                            int list) {
  return sparse.HeadsOf(
      sparse.programs[static_cast<size_t>(sparse.selectors[request])], list);
}

// The attention that tokens have from the window's queries, pooled.
std::vector<Score> ObservedScores(const SparseCase& sparse, size_t request,
                                  int list, const Shape& shape) {
  const SelectProgram& program = sparse.programs[0];
  const auto [first_head, end_head] = HeadsOf(sparse, request, list);
  const int kv_head = first_head / sparse.paged.shape().group_heads;
  const int64_t first =
      std::max<int64_t>(shape.end - program.fixed.window_tokens, 0);
  std::vector<double> sums(static_cast<size_t>(shape.end_free), 0.0);
  for (int head = first_head; head < end_head; ++head) {
    for (int64_t p = first; p < shape.end; ++p) {
      std::vector<double> exponents;
      for (int64_t t = 0; t <= p; ++t) {
        exponents.push_back(Dot(sparse.token_q[request], p, head,
                                KeyOf(sparse, request, t, kv_head)) *
                            sparse.scale);
      }
      double sum = 0;
      for (const double exponent : exponents) sum += std::exp(exponent);
      for (size_t t = 0; t < std::min(sums.size(), exponents.size()); ++t) {
        sums[t] += std::exp(exponents[t]) / sum;
      }
    }
  }
  const RowPool& pool = program.fixed.pool;
  std::vector<Score> scores;
  for (int64_t t = 0; t < shape.end_free; ++t) {
    double result = 0;
    for (int64_t i = t - pool.pad; i < t - pool.pad + pool.size; ++i) {
      const double of =
          i < 0 || i >= shape.end_free ? 0 : sums[static_cast<size_t>(i)];
      result = pool.reduction == Reduction::kMax ? std::max(result, of)
                                                 : result + of / pool.size;
    }
    scores.push_back({result, 3e-4 * result + 1e-9});
  }
  return scores;
}

// How little rows say of one of their keys.
std::vector<Score> OutlierScores(const SparseCase& sparse, size_t request,
                                 int list, const Shape& shape,
                                 const Kept& kept) {
  const int block = sparse.programs[1].block_tokens;
  const auto norm = [](const std::vector<double>& x) {
    double squares = 0;
    for (const double number : x) squares += number * number;
    return std::sqrt(squares);
  };
  std::vector<Score> scores;
  for (int64_t b = 0; b < shape.end_free; ++b) {
    const std::vector<double>& row = kept.rows[static_cast<size_t>(b)];
    double least = 2;
    for (int64_t t = b * block; t < (b + 1) * block; ++t) {
      const std::vector<double> key = KeyOf(sparse, request, t, list);
      double dot = 0;
      for (size_t c = 0; c < key.size(); ++c) dot += row[c] * key[c];
      least = std::min(least, dot / (norm(row) * norm(key)));
    }
    scores.push_back({-least, 1e-5});
  }
  return scores;
}

// What a row's queries give the partitions that are not fixed.
std::vector<Score> RowScores(const SparseCase& sparse, size_t request,
                             int64_t row, int list, const Shape& shape,
                             const Kept& kept) {
  const SelectProgram& program =
      sparse.programs[static_cast<size_t>(sparse.selectors[request])];
  const auto [first_head, end_head] = HeadsOf(sparse, request, list);
  std::vector<Score> scores(static_cast<size_t>(shape.end_free));
  for (int head = first_head; head < end_head; ++head) {
    std::vector<double> of_head;
    double sum = 0;
    for (size_t b = 0; b < scores.size(); ++b) {
      of_head.push_back(Dot(sparse.q, row, head, kept.rows[b]));
      const size_t token = b * static_cast<size_t>(program.block_tokens);
      if (!kept.fixed[token]) sum += std::exp(of_head[b] * sparse.scale);
    }
    for (size_t b = 0; b < scores.size(); ++b) {
      Score score = {of_head[b], 3e-4 * (1 + std::abs(of_head[b]))};
      if (program.map == HeadMap::kSoftmax) {
        score.value = std::exp(of_head[b] * sparse.scale) / sum;
        score.slack = 3e-4 * score.value;
      }
      if (head == first_head) {
        scores[b] = score;
      } else if (program.group == Reduction::kMax) {
        scores[b] = scores[b].value < score.value ? score : scores[b];
      } else {
        scores[b].value += score.value;
        scores[b].slack += score.slack;
      }
    }
  }
  return scores;
}

class FixedConformanceTest : public SeededTest {
 protected:
  uint32_t Features() {
    return Device(1).backend().attributes().select_features;
  }
};

// Choices as a step left them, where the host can read them.
struct HostFixed {
  HostSegments segments;
  FixedTable table;

  HostFixed(TestDevice& device, const FixedTable& of)
      : segments(device, of.segments, of.words, of.segment_stride_bytes),
        table(of) {
    table.words = segments.bytes.data();
    table.segments = segments.table;
  }
};

// What lies in the table, where the host can read it.
KeptLists Collect(TestDevice& device, const SparseCase& sparse,
                  std::span<const LayerSelector> selectors) {
  const KvShape& shape = sparse.paged.shape();
  KeptLists lists;
  for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
    if (sparse.selectors[r] < 0) continue;
    const LayerSelector& selector =
        selectors[static_cast<size_t>(sparse.selectors[r])];
    const SelectProgram& program = *selector.program;
    const Shape at(sparse, r, sparse.paged.requests()[r].end_position());
    HostFixed fixed(device, selector.fixed);
    std::optional<HostSummaries> host;
    if (program.rows.kind == SummaryRows::Kind::kMean) {
      host.emplace(device, selector.summaries);
    }
    for (int list = 0; list < sparse.NumLists(program); ++list) {
      const int num_lists = selector.fixed.layout.num_lists;
      const FixedTokens words = fixed.table.Tokens(
          static_cast<int>(r), list / num_lists, list % num_lists);
      Kept& kept = lists[{r, list}];
      for (int64_t t = 0; t < at.end; ++t) {
        const uint32_t word = words[t / 32];
        kept.fixed.push_back((word >> t % 32 & 1) != 0);
      }
      const int kv_head = list / num_lists;
      for (int64_t b = 0; b < at.end_free; ++b) {
        if (!host) {
          kept.rows.push_back(KeyOf(sparse, r, b, kv_head));
          continue;
        }
        const std::byte* row =
            host->table.Row(static_cast<int>(r), kv_head, 0, b);
        auto& numbers = kept.rows.emplace_back();
        for (int c = 0; c < shape.k_dim; ++c) {
          numbers.push_back(
              program.rows.dtype == Dtype::kFloat8E4M3
                  ? Float8Of(row[c]) *
                        LoadElement(Dtype::kFloat32, row + shape.k_dim)
                  : LoadElement(program.rows.dtype,
                                row + c * DtypeBytes(program.rows.dtype)));
        }
      }
    }
  }
  return lists;
}

// What is fixed is nothing but free partitions, as many as the budget has, and
// the best of them.
void ExpectFixed(const SparseCase& sparse, const ListKey& key,
                 const Kept& kept) {
  const SelectProgram& program =
      sparse.programs[static_cast<size_t>(sparse.selectors[key.request])];
  const int64_t block = program.block_tokens;
  const Shape shape(sparse, key.request,
                    sparse.paged.requests()[key.request].end_position());
  if (shape.end > sparse.paged.requests()[key.request].end_position()) return;
  std::vector<int64_t> in, out;
  for (int64_t t = 0; t < shape.end; ++t) {
    const int64_t b = t / block;
    const bool is_fixed = kept.fixed[static_cast<size_t>(t)];
    if (b < shape.first_free || b >= shape.end_free) {
      ASSERT_FALSE(is_fixed) << "token " << t;
      continue;
    }
    ASSERT_EQ(is_fixed, kept.fixed[static_cast<size_t>(b * block)]);
    if (t % block == 0) (is_fixed ? in : out).push_back(b);
  }
  ASSERT_EQ(std::ssize(in), shape.num_fixed);
  ExpectBetter(program.fixed.kind == FixedKind::kObserved
                   ? ObservedScores(sparse, key.request, key.list, shape)
                   : OutlierScores(sparse, key.request, key.list, shape, kept),
               in, out, "fixed");
}

// A row's list: what is forced and fixed, and the best of the rest.
void ExpectList(const SparseCase& sparse, const ListKey& key, int64_t row,
                int64_t context, const std::vector<Pick>& picks,
                const Kept& kept) {
  const SelectProgram& program =
      sparse.programs[static_cast<size_t>(sparse.selectors[key.request])];
  const int64_t block = program.block_tokens;
  const Shape shape(sparse, key.request, context);
  const bool is_every = picks.size() == 1 && picks[0].tokens == 0;
  ASSERT_EQ(is_every, context - 1 < shape.end);
  if (is_every) return;
  std::map<int64_t, uint32_t> masks;
  for (size_t i = 0; i < picks.size(); ++i) {
    ASSERT_TRUE(i == 0 || picks[i - 1].page < picks[i].page);
    masks[picks[i].page] = picks[i].tokens;
  }
  std::vector<int64_t> in, out;
  for (int64_t t = 0; t < context; ++t) {
    const bool is_read = (masks[t / kPageTokens] >> t % kPageTokens & 1) != 0;
    const int64_t b = t / block;
    if (b < shape.first_free || b >= shape.end_free ||
        kept.fixed[static_cast<size_t>(t)]) {
      ASSERT_TRUE(is_read) << "token " << t;
    } else if (t % block == 0) {
      (is_read ? in : out).push_back(b);
    } else {
      ASSERT_EQ(is_read, !in.empty() && in.back() == b) << "token " << t;
    }
  }
  ASSERT_EQ(context % kPageTokens == 0
                ? 0u
                : masks[context / kPageTokens] >> context % kPageTokens,
            0u);
  ASSERT_EQ(std::ssize(in), shape.num_chosen);
  if (out.empty() || in.empty()) return;
  ExpectBetter(RowScores(sparse, key.request, row, key.list, shape, kept), in,
               out, "chosen");
}

TEST_P(FixedConformanceTest, FixesTheBestAndReadsThemForGood) {
  if ((Features() & static_cast<uint32_t>(SelectFeature::kFixedChoice)) == 0) {
    GTEST_SKIP() << "the device fixes no choice";
  }
  ForSeeds(100, [&](RandomSource& random, int num_threads) {
    const SparseCase sparse = FixedCase(Features(), random);
    TestDevice device = Device(num_threads);
    KeptLists kept;
    SparseRun run;
    run.summarize_tokens = random.Among({1 << 20, 64, 17});
    run.select_rows = static_cast<int>(random.Between(1, 8));
    run.on_summaries = [&](std::span<const LayerSelector> selectors,
                           const LayerCache&) {
      kept = Collect(device, sparse, selectors);
    };
    const SparseResult got = RunSparse(device, sparse, run);
    for (const auto& [key, list] : kept) ExpectFixed(sparse, key, list);
    int64_t row = 0;
    for (size_t r = 0; r < sparse.paged.requests().size(); ++r) {
      const RequestRows& rows = sparse.paged.requests()[r];
      for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
        const auto& lists = got.picks[static_cast<size_t>(row)];
        if (sparse.selectors[r] < 0) continue;
        for (size_t list = 0; list < lists.size(); ++list) {
          const ListKey key = {r, static_cast<int>(list)};
          ExpectList(sparse, key, row, int64_t{rows.first_position} + t + 1,
                     lists[list], kept[key]);
        }
      }
    }
  });
}

// Lists that do not fit a block's shared memory, and a window whose queries
// come in several parts.
TEST_P(FixedConformanceTest, FixesTokensOfALongPrompt) {
  if ((Features() & static_cast<uint32_t>(SelectFeature::kFixedChoice)) == 0) {
    GTEST_SKIP() << "the device fixes no choice";
  }
  RandomSource random(3);
  KvShape shape;
  shape.group_heads = 3;
  SparseCase sparse(shape, {{26000, 1, 0}}, random);
  SelectProgram program;
  program.scope = Scope::kKvHead;
  program.block_tokens = 1;
  program.fixed = {.kind = FixedKind::kObserved,
                   .budget = {Amount::Unit::kTokens, 900},
                   .window_tokens = 15,
                   .pool = {Reduction::kMean, 5, 1, 2}};
  program.forced.recent_tokens = 15;
  program.rows = {SummaryRows::Kind::kKeys, 1, 1, Dtype::kFloat32};
  program.budget = {Amount::Unit::kTokens, 300};
  sparse.programs = {program};
  sparse.selectors = {0};
  sparse.prompt_tokens = {25990};
  sparse.token_q = {RandomArray(shape.dtype, {26001, 3, shape.k_dim}, random)};
  TestDevice device = Device(2);
  KeptLists kept;
  SparseRun run;
  run.on_summaries = [&](std::span<const LayerSelector> selectors,
                         const LayerCache&) {
    kept = Collect(device, sparse, selectors);
  };
  const SparseResult got = RunSparse(device, sparse, run);
  const ListKey key = {0, 0};
  sparse.context_tokens = sparse.prompt_tokens;
  ExpectFixed(sparse, key, kept[key]);
  ExpectList(sparse, key, 0, 26001, got.picks[0][0], kept[key]);
}

// Of what is chosen once the budget is the choice's own; what outliers there
// are decides whom the others stand beside.
TEST_P(FixedConformanceTest, PicksGrowWithTheBudget) {
  if ((Features() & static_cast<uint32_t>(SelectFeature::kFixedChoice)) == 0) {
    GTEST_SKIP() << "the device fixes no choice";
  }
  ForSeeds(12, [&](RandomSource& random, int num_threads) {
    SparseCase sparse = FixedCase(Features(), random);
    ListedTokens before;
    for (const double budget : {0.0, 20.0, 60.0, 130.0, 300.0, 900.0}) {
      for (SelectProgram& program : sparse.programs) {
        const bool is_observed = program.fixed.kind == FixedKind::kObserved;
        (is_observed ? program.fixed.budget : program.budget) = {
            Amount::Unit::kTokens, budget};
      }
      TestDevice device = Device(num_threads);
      ExpectGrown(sparse, RunSparse(device, sparse), before);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, FixedConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
