#include "bench/ops/bench_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

namespace winnow {

Result<std::unique_ptr<BenchAttention>> BenchAttention::Create(
    Backend& backend, const Model& model, const Shape& shape) {
  CHECK(backend.attributes().device_is_host, "tables are filled in place");
  std::unique_ptr<BenchAttention> bench(
      new BenchAttention(backend, model.config(), shape));
  bench->queue_ = backend.MakeQueue();
  RETURN_IF_ERROR(bench->Allocate(model.dtypes()));
  return bench;
}

Status BenchAttention::Allocate(const Dtypes& dtypes) {
  dtypes_ = dtypes;
  const int64_t num_pages = PagesFor(shape_.context_tokens);
  cache_.format =
      MakeHeadBlockFormat(dtypes.kv, shape_.head_dim, shape_.head_dim);
  cache_.num_kv_heads = config_.num_kv_heads;
  cache_.kv_block_stride_bytes =
      int64_t{config_.num_kv_heads} * cache_.format.head_block_bytes;
  layer_bytes_ = static_cast<size_t>(num_pages * cache_.kv_block_stride_bytes);
  const auto num_layers = static_cast<size_t>(shape_.num_layers);
  ASSIGN_OR_RETURN(
      layer_blocks_,
      backend_.Allocate(Tier::kDevice, num_layers * layer_bytes_, "KV"));
  const int64_t num_rows = shape_.context_tokens - shape_.first_position;
  const auto row_bytes =
      static_cast<size_t>(num_rows * config_.num_q_heads * shape_.head_dim *
                          DtypeBytes(dtypes.compute));
  ASSIGN_OR_RETURN(q_, backend_.Allocate(Tier::kDevice, row_bytes, "q"));
  ASSIGN_OR_RETURN(out_, backend_.Allocate(Tier::kDevice, row_bytes, "out"));
  // The row's first entry, the pages, and the numbers of steps.
  const auto table_bytes =
      static_cast<size_t>(1 + num_pages + num_rows + 64) * 4;
  ASSIGN_OR_RETURN(tables_,
                   backend_.Allocate(Tier::kDevice, table_bytes, "tables"));
  cache_.max_pages = static_cast<int>(num_pages);
  cache_.page_table = {.first = tables_.At(0, Dtype::kInt32, {1}),
                       .entries = tables_.At(4, Dtype::kUInt32, {num_pages})};
  *cache_.page_table.first.As<int32_t>() = 0;
  uint32_t* pages = cache_.page_table.Row(0);
  std::iota(pages, pages + num_pages, 0u);
  if (shape_.shuffled_pages) {
    std::shuffle(pages, pages + num_pages, std::mt19937(1));
  }
  FillRandomly(layer_blocks_.At(
      0, dtypes.kv,
      {static_cast<int64_t>(layer_bytes_) / DtypeBytes(dtypes.kv)}));
  for (size_t layer = 1; layer < num_layers; ++layer) {
    std::memcpy(layer_blocks_.data() + layer * layer_bytes_,
                layer_blocks_.data(), layer_bytes_);
  }
  FillRandomly(
      q_.At(0, dtypes.compute,
            {static_cast<int64_t>(row_bytes) / DtypeBytes(dtypes.compute)}));
  return Ok{};
}

void BenchAttention::FillRandomly(const View& view) {
  std::minstd_rand random(7);
  const auto value = [&random] {
    return static_cast<float>(random()) / 0x1p30f - 1.0f;
  };
  for (int64_t i = 0; i < view.num_elements(); ++i) {
    switch (view.dtype) {
      case Dtype::kBFloat16:
        view.As<BFloat16>()[i] = BFloat16(value());
        break;
      case Dtype::kFloat16:
        view.As<Float16>()[i] = Float16(value());
        break;
      default:
        view.As<float>()[i] = value();
    }
  }
}

LayerStep BenchAttention::StepFor(int64_t first_position, int64_t num_rows) {
  const auto base = static_cast<size_t>(1 + cache_.max_pages) * 4;
  const auto put = [&](size_t index, int64_t value) {
    const View view = tables_.At(base + index * 4, Dtype::kInt32, {1});
    *view.As<int32_t>() = static_cast<int32_t>(value);
    return view;
  };
  LayerStep step;
  step.num_rows = static_cast<int>(num_rows);
  step.num_requests = 1;
  step.first_row = put(0, 0);
  step.first_position = put(1, first_position);
  step.num_tokens = put(2, num_rows);
  step.num_prefill_rows = put(3, shape_.prefill_rows ? num_rows : 0);
  step.row_to_request = tables_.At(base + 16, Dtype::kInt32, {num_rows});
  std::fill_n(step.row_to_request.As<int32_t>(), num_rows, 0);
  return step;
}

void BenchAttention::Run(int64_t chunk) {
  const int64_t num_rows = shape_.context_tokens - shape_.first_position;
  const AttendSource all_pages;
  cache_.layer_blocks =
      layer_blocks_.data() + static_cast<size_t>(layer_) * layer_bytes_;
  layer_ = (layer_ + 1) % shape_.num_layers;
  for (int64_t row = 0; row < num_rows; row += chunk) {
    const int64_t count = std::min(chunk, num_rows - row);
    const LayerStep step = StepFor(shape_.first_position + row, count);
    const auto rows_of = [&](const Buffer& buffer) {
      return buffer
          .At(0, dtypes_.compute,
              {num_rows, config_.num_q_heads, shape_.head_dim})
          .Slice(row, count);
    };
    AttendArgs args;
    args.q = rows_of(q_);
    args.sources = {&all_pages, 1};
    args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    args.out = rows_of(out_);
    backend_.Attend(*queue_, step, args, cache_);
  }
}

Bytes BenchAttention::NextLayerKv() {
  const Bytes kv(
      layer_blocks_.data() + static_cast<size_t>(layer_) * layer_bytes_,
      layer_bytes_);
  layer_ = (layer_ + 1) % shape_.num_layers;
  return kv;
}

double BenchAttention::kv_bytes() const {
  return static_cast<double>(shape_.context_tokens) * 2 * config_.num_kv_heads *
         shape_.head_dim * DtypeBytes(dtypes_.kv);
}

double BenchAttention::flops() const {
  const auto first = static_cast<double>(shape_.first_position);
  const auto end = static_cast<double>(shape_.context_tokens);
  const double pairs = (end - first) * (first + end + 1) / 2;
  return 4 * pairs * config_.num_q_heads * shape_.head_dim;
}

}  // namespace winnow
