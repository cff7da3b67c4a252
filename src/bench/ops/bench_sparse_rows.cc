#include "bench/ops/bench_sparse_rows.h"

#include <string>

#include "bench/roofs/roof.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Json RowOf(const std::string& op, double seconds) {
  return {{"verb", op},
          {"ms", seconds * 1e3},
          {"gb_per_second", 0.0},
          {"gflops", 0.0},
          {"share_of_read_roof", 0.0},
          {"share_of_product_roof", 0.0}};
}

// Seconds of one op over the rounds, and its share of each round's roof and
// of each run's plain read.
struct OpTimes {
  std::vector<double> seconds, shares, paired_shares;

  void Add(double of_round, double bytes, double roof_gb_per_second) {
    seconds.push_back(of_round);
    shares.push_back(bytes / of_round / 1e9 / roof_gb_per_second);
  }
  Json Row(const std::string& op, double bytes) const {
    const double median = Median(seconds);
    Json row = RowOf(op, median);
    row["gb_per_second"] = bytes / median / 1e9;
    row["share_of_read_roof"] = Median(shares);
    if (!paired_shares.empty()) {
      row["share_of_paired_read"] = Median(paired_shares);
    }
    return row;
  }
};

// Bound by products: what is read stays in the caches.
void AddClusterKeysRow(BenchSparse& bench, std::string_view name,
                       int num_rounds, const RoofSources& roofs, Json& rows) {
  std::vector<double> seconds, read_shares, shares;
  for (int round = 0; round < num_rounds; ++round) {
    const double gflops = roofs.product_gflops();
    const double gb_per_second = roofs.read_gb_per_second();
    bench.NextLayer();
    const double once = SecondsOf([&] { bench.ClusterKeys(); });
    seconds.push_back(once);
    read_shares.push_back(bench.indexed_bytes() / once / 1e9 / gb_per_second);
    shares.push_back(bench.index_flops() / once / 1e9 / gflops);
  }
  const double median = Median(seconds);
  Json row = RowOf(fmt::format("ClusterKeys, {}", name), median);
  row["gb_per_second"] = bench.indexed_bytes() / median / 1e9;
  row["gflops"] = bench.index_flops() / median / 1e9;
  row["share_of_read_roof"] = Median(read_shares);
  row["share_of_product_roof"] = Median(shares);
  rows.push_back(std::move(row));
}

struct DecodeTimes {
  OpTimes select, read, estimate, all;
  std::vector<double> ratios;  // of dense attention's seconds
  // Of a Select right behind one of the same, whose summaries are in the caches
  // where these have room.
  std::vector<double> cached_selects;
  double estimated_bytes = 0, all_bytes = 0;
};

void MeasureDecodeRound(BenchSparse& bench, const RoofSources& roofs,
                        DecodeTimes& times) {
  constexpr int kRuns = 32;
  constexpr int kDenseRuns = 8;
  const double gb_per_second = roofs.read_gb_per_second();
  std::vector<double> selects, cached_selects, reads, estimates, sums, denses;
  for (int run = 0; run < kRuns; ++run) {
    bench.NextLayer();
    const double of_summaries =
        PlainRead(roofs.pool, bench.Summaries()).BytesPerSecond();
    bench.ReadPicks();  // To rouse the workers.
    bench.NextLayer();
    selects.push_back(SecondsOf([&] { bench.Select(); }));
    reads.push_back(SecondsOf([&] { bench.ReadPicks(); }));
    sums.push_back(selects.back() + reads.back());
    if (bench.estimates()) {
      estimates.push_back(SecondsOf([&] { bench.ReadEstimates(); }));
      sums.back() += estimates.back();
    }
    bench.NextLayer();
    const double of_picked =
        PlainRead(roofs.pool, bench.Picked()).BytesPerSecond();
    times.select.paired_shares.push_back(bench.summary_bytes() /
                                         selects.back() / of_summaries);
    times.read.paired_shares.push_back(bench.picked_bytes() / reads.back() /
                                       of_picked);
    bench.NextLayer();
    bench.ReadPicks();  // To rouse the workers.
    bench.Select();
    cached_selects.push_back(SecondsOf([&] { bench.Select(); }));
  }
  // Behind the others, which would find in the caches what these have read.
  for (int run = 0; run < kDenseRuns; ++run) {
    bench.NextLayer();
    denses.push_back(SecondsOf([&] { bench.ReadEverything(); }));
  }
  times.estimated_bytes = bench.estimates() ? bench.estimated_bytes() : 0;
  times.all_bytes =
      bench.summary_bytes() + bench.picked_bytes() + times.estimated_bytes;
  times.cached_selects.push_back(Median(cached_selects));
  times.select.Add(Median(selects), bench.summary_bytes(), gb_per_second);
  times.read.Add(Median(reads), bench.picked_bytes(), gb_per_second);
  if (bench.estimates()) {
    times.estimate.Add(Median(estimates), times.estimated_bytes, gb_per_second);
  }
  times.all.Add(Median(sums), times.all_bytes, gb_per_second);
  times.ratios.push_back(Median(denses) / Median(sums));
}

void AddDecodeRows(BenchSparse& bench, std::string_view name, int num_rounds,
                   const RoofSources& roofs, Json& rows) {
  DecodeTimes times;
  bench.Select();  // So that there are lists.
  for (int round = 0; round < num_rounds; ++round) {
    MeasureDecodeRound(bench, roofs, times);
  }
  Json of_select =
      times.select.Row(fmt::format("Select, {}", name), bench.summary_bytes());
  of_select["gflops"] =
      bench.select_flops() / 1e6 / of_select["ms"].get<double>();
  of_select["cached_ms"] = Median(times.cached_selects) * 1e3;
  of_select["summary_bytes"] = bench.summary_bytes();
  of_select["list_bytes"] = bench.list_bytes();
  rows.push_back(std::move(of_select));
  rows.push_back(times.read.Row(fmt::format("Attend, picks of {}", name),
                                bench.picked_bytes()));
  if (bench.estimates()) {
    rows.push_back(times.estimate.Row(
        fmt::format("Attend, estimates of {}", name), times.estimated_bytes));
  }
  const double ratio = Median(times.ratios);
  Json row = times.all.Row(
      fmt::format("{}, {}: dense / {:.1f}", bench.estimates() ? "all" : "both",
                  name, ratio),
      times.all_bytes);
  row["speedup_over_dense"] = ratio;
  rows.push_back(std::move(row));
}

// Every kind of score; a window and what queries have fixed are read without.
constexpr struct {
  std::string_view name, spec;
} kSelectors[] = {
    // Quest as published chooses for each q head, and so reads a group's pages
    // as many times as it has heads.
    {"mean", "mean:budget=1/16"},
    {"quest, KV heads", "quest:budget=1/16,heads=kv,dense_layers=none"},
    {"quest", "quest:budget=1/16,dense_layers=none"},
    {"quest, fp8, KV heads",
     "quest:budget=1/16,heads=kv,dense_layers=none,summaries=fp8"},
    {"arkvale", "arkvale:budget=1/16,dense_layers=none"},
    {"moba", "moba:budget=1/16,block=64"},
    {"infllm-v2", "infllm-v2:budget=1/16,sink=0,recent=0,dense_len=0"},
    {"shadowkv", "shadowkv:budget=1/16"},
    {"seerattention-r", "seerattention-r:budget=1/16"},
    {"oracle", "oracle:budget=1/16"},
    {"tidal", "tidal:budget=1/16,select_layers=0"},
    {"clusterkv", "clusterkv:budget=1/16,dense_layers=none"},
    {"retroinfer", "retroinfer"},
};

}  // namespace

Status AddSparseRows(Backend& backend, const BenchSparse::Shape& shape,
                     int num_rounds, const RoofSources& roofs, Json& rows) {
  for (const auto& [name, spec] : kSelectors) {
    ASSIGN_OR_RETURN(const std::unique_ptr<BenchSparse> bench,
                     BenchSparse::Create(backend, shape, spec));
    if (bench->has_clusters()) {
      AddClusterKeysRow(*bench, name, num_rounds, roofs, rows);
    }
    AddDecodeRows(*bench, name, num_rounds, roofs, rows);
  }
  return Ok{};
}

}  // namespace winnow
