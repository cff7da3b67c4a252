#include "tests/oracle/oracle_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backend/cpu/select/cluster_means.h"
#include "base/check.h"
#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

using nlohmann::json;

// substrate.py's streams of numbers, and the tokens of one run of keys.
constexpr uint64_t kQ = 1, kKeyOfToken = 2, kKeyOfRun = 3, kV = 4,
                   kQOfToken = 5, kGateQ = 6, kGateK = 7, kGateNorm = 8,
                   kQPre = 9, kCluster = 10;
constexpr int kRunTokens = 24;
constexpr uint64_t kLayerSeeds = 64;  // tidal.py's

json ReadFixtures() {
  constexpr size_t kMaxFileBytes = size_t{1} << 20;
  return json::parse(ReadFile(std::filesystem::path(WINNOW_SOURCE_DIR) /
                                  "tests/oracle/fixtures.json",
                              kMaxFileBytes)
                         .value());
}

Dtype DtypeOf(const std::string& name) {
  for (const Dtype dtype :
       {Dtype::kFloat32, Dtype::kBFloat16, Dtype::kFloat16}) {
    if (DtypeName(dtype) == name) return dtype;
  }
  CHECK(false, "dtype={}", name);
}

uint64_t HashOf(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t z = seed * 0xD1342543DE82EF95u + stream * 0x9E3779B1u +
               (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 40;
}

// Number `index` of a stream: a whole one in [-most, most].
double Whole(uint64_t seed, uint64_t stream, uint64_t index, uint64_t most) {
  const uint64_t whole = HashOf(seed, stream, index) % (2 * most + 1);
  return static_cast<double>(whole) - static_cast<double>(most);
}

// Streams of learned gates.
TestArray GateArray(const OracleCase& oracle, uint64_t stream,
                    std::vector<int64_t> shape) {
  TestArray array(Dtype::kFloat32, std::move(shape));
  for (size_t i = 0; i < array.values.size(); ++i) {
    array.values[i] = Whole(oracle.seed, stream, i, 8) / 16;
  }
  return array;
}

TestGate GateOf(const OracleCase& oracle) {
  const int64_t heads = oracle.shape.num_kv_heads, dim = oracle.shape.k_dim;
  const int64_t group = oracle.shape.group_heads;
  TestGate gate = {.q = GateArray(oracle, kGateQ, {heads, group * dim, dim}),
                   .k = GateArray(oracle, kGateK, {heads, 3 * dim, dim}),
                   .q_norm = {},
                   .k_norm = {}};
  if (!oracle.gate_norms) return gate;
  gate.q_norm = gate.k_norm = TestArray(Dtype::kFloat32, {dim});
  for (size_t i = 0; i < gate.q_norm.values.size(); ++i) {
    const size_t size = gate.q_norm.values.size();
    gate.q_norm.values[i] = 1 + Whole(oracle.seed, kGateNorm, i, 2) / 8;
    gate.k_norm.values[i] = 1 + Whole(oracle.seed, kGateNorm, size + i, 2) / 8;
  }
  return gate;
}

// Whose cluster a token is, of `clusters` of its segment: every fifth has none.
int ClusterOf(const OracleCase& oracle, int64_t token, int head, int clusters) {
  const auto index =
      static_cast<uint64_t>(token * oracle.shape.num_kv_heads + head);
  const auto id = static_cast<int>(HashOf(oracle.seed, kCluster, index) %
                                   static_cast<uint64_t>(clusters));
  return id % 5 == 4 ? 0 : id;
}

// Puts the case's clusters, of one segment and KV head, in the place of those
// that ClusterKeys has found.
void PutClusters(const OracleCase& oracle, const ClusterTask& task) {
  const SummaryRows& rows = task.program.rows;
  const ClusterSegment segment =
      ClusterSegmentOf(task.table, rows, task.request, task.head, task.segment);
  uint32_t end = 0;
  for (int c = 0; c < segment.num_clusters; ++c) {
    for (int t = 0; t < rows.tokens; ++t) {
      const int64_t token = segment.first_token + t;
      if (token < task.program.forced.sink_tokens ||
          ClusterOf(oracle, token, task.head, segment.num_clusters) != c) {
        continue;
      }
      segment.members[end++] = static_cast<uint16_t>(t);
    }
    segment.ends[c] = end;
  }
  WriteClusterMeans(task);
}

// Keys and values of one request: [tokens, kv_heads, dim] each.
void FillKv(const OracleCase& oracle, PagedCase& paged, size_t request) {
  TestArray keys = paged.keys(request);
  TestArray values = paged.values(request);
  const auto width =
      static_cast<size_t>(oracle.shape.num_kv_heads * oracle.shape.k_dim);
  for (size_t i = 0; i < keys.values.size(); ++i) {
    values.values[i] = Whole(oracle.seed, kV, i, 8) / 8;
    size_t token = i / width;
    if (oracle.period > 0) token %= static_cast<size_t>(oracle.period);
    const double of_token =
        Whole(oracle.seed, kKeyOfToken, token * width + i % width, 32);
    const double of_run = Whole(oracle.seed, kKeyOfRun,
                                token / kRunTokens * width + i % width, 32);
    keys.values[i] = (of_token + of_run) / 64;
  }
  paged.SetKeysAndValues(request, std::move(keys), std::move(values));
}

// [tokens, q_heads, k_dim]
TestArray TokenQueriesOf(const OracleCase& oracle) {
  TestArray q(oracle.shape.dtype,
              {oracle.rows.end_position(), oracle.shape.num_q_heads(),
               oracle.shape.k_dim});
  for (size_t i = 0; i < q.values.size(); ++i) {
    q.values[i] = oracle.q_gain * Whole(oracle.seed, kQOfToken, i, 8) / 8;
  }
  return q;
}

// Ascending numbers: "0-2,5".
std::string RangesOf(const std::vector<int32_t>& numbers) {
  std::string text;
  for (size_t i = 0, end = 0; i < numbers.size(); i = end) {
    for (end = i + 1; end < numbers.size(); ++end) {
      if (numbers[end] != numbers[end - 1] + 1) break;
    }
    text += text.empty() ? "" : ",";
    text += end == i + 1 ? fmt::format("{}", numbers[i])
                         : fmt::format("{}-{}", numbers[i], numbers[end - 1]);
  }
  return text;
}

// The blocks that a list reads.
std::string RangesOf(const std::vector<Pick>& list, int block,
                     int64_t context) {
  std::vector<int64_t> num_read(
      static_cast<size_t>((context + block - 1) / block), 0);
  for (const Pick& pick : list) {
    for (int t = 0; t < kPageTokens; ++t) {
      if ((pick.tokens >> t & 1) == 0) continue;
      const int64_t token = int64_t{pick.page} * kPageTokens + t;
      EXPECT_LT(token, context);
      if (token < context) ++num_read[static_cast<size_t>(token / block)];
    }
  }
  std::vector<int32_t> read;
  for (size_t b = 0; b < num_read.size(); ++b) {
    if (num_read[b] == 0) continue;
    const auto begin = static_cast<int64_t>(b) * block;
    EXPECT_EQ(num_read[b], std::min<int64_t>(block, context - begin))
        << "tokens of block " << b;
    read.push_back(static_cast<int32_t>(b));
  }
  return RangesOf(read);
}

OracleCase CaseOf(const json& fixture) {
  OracleCase oracle;
  oracle.name = fixture.at("name");
  oracle.spec = fixture.at("spec");
  oracle.shape = {.dtype = DtypeOf(fixture.value("dtype", "float32")),
                  .num_kv_heads = fixture.value("kv_heads", 2),
                  .group_heads = fixture.at("group")};
  const int length = fixture.at("length");
  const int rows = fixture.value("rows", 1);
  oracle.rows = {length - rows, rows, fixture.value("prompt_rows", 0)};
  oracle.prompt_tokens = fixture.at("prompt_tokens");
  oracle.context_tokens = fixture.value("context_tokens", oracle.prompt_tokens);
  oracle.q_gain = fixture.value("q_gain", 1);
  oracle.period = fixture.value("period", 0);
  oracle.gate_norms = fixture.value("gate_norms", false);
  oracle.seed = fixture.at("seed");
  oracle.block = fixture.at("block");
  oracle.bfloat16_recall = fixture.value("bfloat16_recall", 0.0);
  oracle.picks = fixture.at("picks");
  for (const json& probe : fixture.at("probes")) {
    oracle.probes.push_back({.row = probe.at(0),
                             .picks = probe.at(1),
                             .out = {probe.at(2), probe.at(3)},
                             .lse = probe.at(4)});
  }
  return oracle;
}

}  // namespace

std::vector<OracleCase> ReadOracleCases() {
  std::vector<OracleCase> cases;
  const json fixtures = ReadFixtures();
  for (const json& fixture : fixtures.at("cases")) {
    cases.push_back(CaseOf(fixture));
  }
  return cases;
}

ReductionTable ReadReductionTable() {
  const json fixtures = ReadFixtures();
  const json& table = fixtures.at("reductions");
  return {.group = table.at("group"),
          .logits = table.at("logits"),
          .first = table.at("first")};
}

std::vector<std::vector<OracleCase>> ReadLayerCases() {
  std::vector<std::vector<OracleCase>> cases;
  const json fixtures = ReadFixtures();
  for (json fixture : fixtures.at("layer_cases")) {
    const json layers = fixture.at("layers");
    const uint64_t seed = fixture.at("seed");
    std::vector<OracleCase>& of_case = cases.emplace_back();
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      fixture.update(layers[layer]);
      fixture["seed"] = seed * kLayerSeeds + layer;
      fixture["block"] = 1;
      of_case.push_back(CaseOf(fixture));
      of_case.back().layer = static_cast<int>(layer);
      of_case.back().num_layers = static_cast<int>(layers.size());
    }
  }
  return cases;
}

Selector SelectorOf(const OracleCase& oracle) {
  const KvShape& shape = oracle.shape;
  const Result<Selector> selector =
      MakeSelector(oracle.spec, {.num_layers = oracle.num_layers,
                                 .num_q_heads = shape.num_q_heads(),
                                 .num_kv_heads = shape.num_kv_heads,
                                 .head_dim = shape.k_dim,
                                 .kv_dtype = shape.dtype,
                                 .max_context_tokens = 1 << 20,
                                 .windows = {}});
  CHECK(selector.ok(), "{}", selector.error().message);
  return *selector;
}

SparseCase BatchOf(const std::vector<OracleCase>& cases, RandomSource& random) {
  std::vector<RequestRows> requests;
  for (const OracleCase& oracle : cases) requests.push_back(oracle.rows);
  SparseCase sparse(cases[0].shape, requests, random);
  sparse.scale = 1 / std::sqrt(static_cast<float>(cases[0].shape.k_dim));
  sparse.q_pre = sparse.q;
  size_t q = 0;
  for (size_t r = 0; r < cases.size(); ++r) {
    const OracleCase& oracle = cases[r];
    FillKv(oracle, sparse.paged, r);
    const auto count =
        static_cast<size_t>(oracle.rows.num_tokens *
                            oracle.shape.num_q_heads() * oracle.shape.k_dim);
    for (size_t i = 0; i < count; ++i, ++q) {
      sparse.q.values[q] = oracle.q_gain * Whole(oracle.seed, kQ, i, 8) / 8;
      sparse.q_pre.values[q] =
          oracle.q_gain * Whole(oracle.seed, kQPre, i, 8) / 8;
    }
    sparse.gates.push_back(GateOf(oracle));
    const Selector selector = SelectorOf(oracle);
    const bool is_dense = selector.ForLayer(oracle.layer) == nullptr;
    CHECK(!is_dense || oracle.num_layers > 1, "{}", oracle.spec);
    sparse.programs.push_back(selector.program);
    sparse.selectors.push_back(is_dense ? -1 : static_cast<int32_t>(r));
    sparse.prompt_tokens.push_back(oracle.prompt_tokens);
    sparse.context_tokens.push_back(oracle.context_tokens);
    sparse.token_q.push_back(TokenQueriesOf(oracle));
  }
  return sparse;
}

SparseResult RunOracle(TestDevice& device, const SparseCase& sparse,
                       const std::vector<OracleCase>& cases, SparseRun run) {
  run.on_summaries = [&](std::span<const LayerSelector> selectors,
                         const LayerCache& cache) {
    for (size_t r = 0; r < cases.size(); ++r) {
      if (sparse.selectors[r] < 0) continue;
      const LayerSelector& selector =
          selectors[static_cast<size_t>(sparse.selectors[r])];
      const SummaryRows& rows = selector.program->rows;
      if (rows.kind != SummaryRows::Kind::kClusters) continue;
      const int64_t num_segments = cases[r].rows.end_position() / rows.tokens;
      for (int64_t i = 0; i < num_segments * cache.num_kv_heads; ++i) {
        PutClusters(cases[r], {.program = *selector.program,
                               .table = selector.summaries,
                               .cache = cache,
                               .request = static_cast<int>(r),
                               .head = static_cast<int>(i % cache.num_kv_heads),
                               .segment = i / cache.num_kv_heads});
      }
    }
  };
  return RunSparse(device, sparse, run);
}

std::string TextOf(const std::vector<std::vector<Pick>>& lists, int block,
                   int64_t context,
                   const std::vector<std::vector<int32_t>>& estimates) {
  std::string text;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].size() == 1 && lists[i][0].tokens == 0) return "all";
    text += i == 0 ? "" : "|";
    text += RangesOf(lists[i], block, context);
    if (i < estimates.size() && !estimates[i].empty()) {
      text += "~" + RangesOf(estimates[i]);
    }
  }
  return text;
}

std::string Hashed(const std::string& text) {
  uint64_t state = 0xCBF29CE484222325u;
  for (const char byte : text) {
    state = (state ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
  }
  return fmt::format("#{:016x}", state);
}

}  // namespace winnow
