#include "engine/engine_options.h"

#include <algorithm>

#include "base/ids.h"
#include "base/size_text.h"
#include "cache/host/layer_block_pool.h"

namespace winnow {
namespace {

Status CheckInRange(std::string_view field, int64_t value, int64_t most) {
  RETURN_IF_ERROR(CheckPositive(field, value));
  if (value <= most) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument, "{} must be at most {}, is {}",
                   field, most, value);
}

int64_t PageBytes(const Model& model) {
  return KvBytesPerToken(model.config(), model.dtypes().kv) * kPageTokens;
}

}  // namespace

Status CheckPositive(std::string_view field, int64_t value) {
  if (value > 0) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument, "{} must be at least 1, is {}",
                   field, value);
}

int64_t KvBytesPerToken(const ModelConfig& config, Dtype kv_dtype) {
  return int64_t{2} * config.num_layers * config.num_kv_heads *
         config.head_dim * DtypeBytes(kv_dtype);
}

int64_t MemoryLeft(const BackendAttributes& attributes, const Model& model) {
  const int64_t weight_bytes =
      model.weights().mapped_bytes() + model.weights().copied_bytes();
  return std::max<int64_t>(0, attributes.available_bytes - weight_bytes);
}

int64_t DefaultKvBytes(const BackendAttributes& attributes,
                       const Model& model) {
  constexpr double kPoolShare = 0.9;
  return static_cast<int64_t>(
      kPoolShare * static_cast<double>(MemoryLeft(attributes, model)));
}

Result<EngineOptions> ResolveOptions(const EngineOptions& options,
                                     const ModelConfig& config) {
  RETURN_IF_ERROR(
      CheckInRange("max-num-seqs", options.max_num_seqs, kMaxNumSeqs));
  RETURN_IF_ERROR(CheckInRange("max-num-batched-tokens",
                               options.max_num_batched_tokens,
                               kMaxNumBatchedTokens));
  if (options.max_model_len < 0 ||
      options.max_model_len > config.max_context_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "max-model-len must be in [1, {}] (the model's "
                     "context), is {}",
                     config.max_context_tokens, options.max_model_len);
  }
  if (options.cache_budget && options.host_kv_bytes == 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "cache-budget needs host-kv, where pages lie that are not "
                     "whole on the device, and there is none");
  }
  if (options.max_watched_requests > 0) {
    RETURN_IF_ERROR(CheckPositive("max-read-ranges", options.max_read_ranges));
    if (options.layers_per_step > 0) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "max-watched-requests must be 0 where prompts run "
                       "layer range by range, is {}",
                       options.max_watched_requests);
    }
  }
  if (options.max_scored_rows < 0 ||
      options.max_scored_rows > kMaxNumBatchedTokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "max-scored-rows must be in [0, {}], is {}",
                     kMaxNumBatchedTokens, options.max_scored_rows);
  }
  if (!(options.max_step_ms >= 0)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "max-inter-token-time must be at least 0, is {}",
                     options.max_step_ms);
  }
  EngineOptions resolved = options;
  if (resolved.max_model_len == 0) {
    resolved.max_model_len = static_cast<int>(
        std::min<int64_t>(config.max_context_tokens, INT32_MAX));
  }
  return resolved;
}

Result<int64_t> KvPagesOf(const EngineOptions& options, const Model& model,
                          const BackendAttributes& attributes) {
  // Nobody's size would do, and where none was given it is this share.
  const int64_t most_bytes = DefaultKvBytes(attributes, model);
  if (options.device_kv_bytes < PageBytes(model) &&
      most_bytes < PageBytes(model)) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "memory must have room for a page of KV of {} beside the "
                     "weights, has {} for it",
                     FormatBytes(PageBytes(model)), FormatBytes(most_bytes));
  }
  ASSIGN_OR_RETURN(
      const int64_t num_pages,
      KvBlocksIn(options.device_kv_bytes, PageBytes(model), "device-kv"));
  const int64_t left_bytes = MemoryLeft(attributes, model);
  if (num_pages * PageBytes(model) > left_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "device-kv must be at most {} (the memory that is left "
                     "beside the weights), is {}",
                     FormatBytes(left_bytes),
                     FormatBytes(options.device_kv_bytes));
  }
  return num_pages;
}

Result<int64_t> HostPagesOf(const EngineOptions& options, const Model& model,
                            const BackendAttributes& attributes) {
  if (options.host_kv_bytes == 0) return 0;
  ASSIGN_OR_RETURN(
      const int64_t num_pages,
      KvBlocksIn(options.host_kv_bytes, PageBytes(model), "host-kv"));
  const int64_t left_bytes = std::max<int64_t>(
      0, MemoryLeft(attributes, model) - options.device_kv_bytes);
  if (attributes.device_is_host && num_pages * PageBytes(model) > left_bytes) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "host-kv must be at most {} (the memory that is left "
                     "beside the weights and device-kv), is {}",
                     FormatBytes(left_bytes),
                     FormatBytes(options.host_kv_bytes));
  }
  return num_pages;
}

}  // namespace winnow
