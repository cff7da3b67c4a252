#include "cli/bench_verbs.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/bench_attention.h"
#include "cli/bench_products.h"
#include "cli/loaded_model.h"
#include "cli/roof.h"

namespace winnow {
namespace {

constexpr int kNumRuns = 5;
constexpr int64_t kChunkRows = 2048;

// What the products of many rows reach: the roof of what is bound by
// arithmetic. And a plain read: the roof of what is bound by memory.
struct Roofs {
  double gflops = 0;
  double gb_per_second = 0;
};

nlohmann::ordered_json RowOf(const std::string& verb, double seconds,
                             double bytes, double flops, const Roofs& roofs) {
  const double gb = bytes / seconds / 1e9;
  const double gflops = flops / seconds / 1e9;
  return {{"verb", verb},
          {"ms", seconds * 1e3},
          {"gb_per_second", gb},
          {"gflops", gflops},
          {"share_of_read_roof", gb / roofs.gb_per_second},
          {"share_of_product_roof", gflops / roofs.gflops}};
}

Result<nlohmann::ordered_json> ProductRow(Backend& backend, const Model& model,
                                          int64_t rows, const Roofs& roofs) {
  ASSIGN_OR_RETURN(const double seconds, ProductSeconds(backend, model, rows));
  const View& head = model.weights().lm_head;
  const auto head_bytes =
      static_cast<double>(head.num_elements() * DtypeBytes(head.dtype));
  return RowOf(fmt::format("Linear, all layers, {} rows", rows), seconds,
               static_cast<double>(ProductBytes(model)) - head_bytes,
               ProductFlops(model, rows, 0), roofs);
}

Result<nlohmann::ordered_json> ReadRow(Backend& backend, const Model& model,
                                       const BenchAttention::Shape& shape,
                                       const Roofs& roofs) {
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchAttention> attention,
                   BenchAttention::Create(backend, model, shape));
  const double seconds = MedianSeconds(shape.prompt_rows ? 1 : kNumRuns * 5,
                                       [&] { attention->Run(kChunkRows); });
  return RowOf(fmt::format("Read, {}, {} tokens",
                           shape.prompt_rows ? "prompt" : "decode",
                           shape.context_tokens),
               seconds, attention->kv_bytes(), attention->flops(), roofs);
}

void PrintTable(const nlohmann::ordered_json& rows) {
  fmt::print("{:<36} {:>10} {:>8} {:>10} {:>10} {:>13}\n", "verb", "ms", "GB/s",
             "GFLOP/s", "/read roof", "/product roof");
  for (const auto& row : rows) {
    fmt::print("{:<36} {:>10.3f} {:>8.1f} {:>10.1f} {:>10.2f} {:>13.2f}\n",
               row["verb"].get<std::string>(), row["ms"].get<double>(),
               row["gb_per_second"].get<double>(), row["gflops"].get<double>(),
               row["share_of_read_roof"].get<double>(),
               row["share_of_product_roof"].get<double>());
  }
}

Result<nlohmann::ordered_json> MeasureAll(Backend& backend, const Model& model,
                                          const BenchFlags& flags) {
  ThreadPool pool(flags.engine.threads);
  const View& head = model.weights().lm_head;
  const auto head_bytes =
      static_cast<size_t>(head.num_elements() * DtypeBytes(head.dtype));
  Roofs roofs;
  roofs.gb_per_second = ReadBytesPerSecond(pool, {head.data, head_bytes}) / 1e9;
  constexpr int64_t kManyRows = 512;
  ASSIGN_OR_RETURN(const double seconds,
                   ProductSeconds(backend, model, kManyRows));
  roofs.gflops = ProductFlops(model, kManyRows, 0) / seconds / 1e9;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int64_t num_rows : {1, 2, 4, 8, 16, 64, 512}) {
    ASSIGN_OR_RETURN(auto row, ProductRow(backend, model, num_rows, roofs));
    rows.push_back(std::move(row));
  }
  const int64_t decode = flags.decode_context_tokens;
  ASSIGN_OR_RETURN(
      auto decode_row,
      ReadRow(backend, model,
              {.context_tokens = decode, .first_position = decode - 1}, roofs));
  rows.push_back(std::move(decode_row));
  ASSIGN_OR_RETURN(auto prompt_row,
                   ReadRow(backend, model,
                           {.context_tokens = flags.prompt_context_tokens,
                            .first_position = 0,
                            .prompt_rows = true},
                           roofs));
  rows.push_back(std::move(prompt_row));
  return nlohmann::ordered_json{
      {"model", flags.engine.model},
      {"device", backend.attributes().description},
      {"read_roof_gb_per_second", roofs.gb_per_second},
      {"product_roof_gflops", roofs.gflops},
      {"verbs", std::move(rows)}};
}

}  // namespace

Result<int> RunBenchVerbs(const BenchFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  LoadOptions load_options;
  ASSIGN_OR_RETURN(load_options.dtype, ParseDtype(flags.engine.dtype));
  load_options.progress = [](int64_t, int64_t) {};  // Touches every page.
  ASSIGN_OR_RETURN(const Model model,
                   Model::Load(flags.engine.model, load_options));
  ASSIGN_OR_RETURN(const nlohmann::ordered_json report,
                   MeasureAll(*backend, model, flags));
  if (!flags.engine.json) {
    fmt::print("{}: read roof {:.1f} GB/s, product roof {:.0f} GFLOP/s\n",
               report["device"].get<std::string>(),
               report["read_roof_gb_per_second"].get<double>(),
               report["product_roof_gflops"].get<double>());
    PrintTable(report["verbs"]);
  } else if (flags.engine.json_file.empty()) {
    fmt::print("{}\n", report.dump());
  } else {
    RETURN_IF_ERROR(WriteFile(flags.engine.json_file, report.dump(2) + "\n"));
  }
  return 0;
}

}  // namespace winnow
