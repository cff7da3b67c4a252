#include "engine/engine_options.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/memory_limit.h"
#include "base/ids.h"
#include "base/size_text.h"
#include "engine/engine.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

class EngineOptionsTest : public testing::Test {
 protected:
  // How ResolveOptions refuses these, or "".
  std::string ErrorOf(const EngineOptions& options) const {
    const auto resolved = ResolveOptions(options, model_->config());
    return resolved.ok() ? "" : resolved.error().message;
  }
  Error KvErrorOf(int64_t device_kv_bytes) const {
    return KvPagesOf({.device_kv_bytes = device_kv_bytes}, *model_,
                     backend_->attributes())
        .error();
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  const std::unique_ptr<Model> model_ =
      LoadTinyModel(ReadTinyCase("llama"), Dtype::kFloat32);
  const int64_t page_bytes_ =
      KvBytesPerToken(model_->config(), model_->dtypes().kv) * kPageTokens;
};

TEST_F(EngineOptionsTest, DefaultsAreTheModels) {
  const EngineOptions resolved = ResolveOptions({}, model_->config()).value();
  EXPECT_EQ(resolved.max_model_len, model_->config().max_context_tokens);
  EXPECT_EQ(resolved.max_num_seqs, EngineOptions{}.max_num_seqs);
}

TEST_F(EngineOptionsTest, WhatIsOutOfRangeIsRefused) {
  EXPECT_EQ(ErrorOf({.max_num_seqs = 0}),
            "max-num-seqs must be at least 1, is 0");
  EXPECT_EQ(ErrorOf({.max_num_seqs = INT32_MAX}),
            "max-num-seqs must be at most 65536, is 2147483647");
  EXPECT_EQ(ErrorOf({.max_num_seqs = kMaxNumSeqs}), "");
  EXPECT_EQ(ErrorOf({.max_num_batched_tokens = 0}),
            "max-num-batched-tokens must be at least 1, is 0");
  const auto longest = static_cast<int>(model_->config().max_context_tokens);
  EXPECT_EQ(ErrorOf({.max_model_len = longest}), "");
  EXPECT_EQ(ErrorOf({.max_model_len = longest + 1}),
            fmt::format("max-model-len must be in [1, {}] (the model's "
                        "context), is {}",
                        longest, longest + 1));
}

TEST_F(EngineOptionsTest, APoolHasThePagesThatItsBytesHold) {
  const auto pages_of = [&](int64_t device_kv_bytes) {
    return KvPagesOf({.device_kv_bytes = device_kv_bytes}, *model_,
                     backend_->attributes())
        .value();
  };
  EXPECT_EQ(pages_of(3 * page_bytes_), 3);
  EXPECT_EQ(pages_of(4 * page_bytes_ - 1), 3);
  EXPECT_NE(KvErrorOf(page_bytes_ - 1).message.find("device-kv must hold"),
            std::string::npos);
  EXPECT_EQ(KvErrorOf(page_bytes_ - 1).code, ErrorCode::kInvalidArgument);
}

// Whoever gave no size is told of memory, and not of one that is out of range.
TEST_F(EngineOptionsTest, MemoryWithoutRoomForAPageIsNoSizeOutOfRange) {
  BackendAttributes attributes = backend_->attributes();
  attributes.available_bytes -=
      MemoryLeft(attributes, *model_) - page_bytes_ / 2;
  const Error none =
      KvPagesOf({.device_kv_bytes = DefaultKvBytes(attributes, *model_)},
                *model_, attributes)
          .error();
  EXPECT_EQ(none.code, ErrorCode::kResourceExhausted);
  EXPECT_NE(none.message.find("memory must have room for a page of KV"),
            std::string::npos)
      << none.message;
}

// The system would grant more than there is, and end the process later.
TEST_F(EngineOptionsTest, APoolThatMemoryCannotHoldIsRefused) {
  const int64_t left_bytes = MemoryLeft(backend_->attributes(), *model_);
  ASSERT_GT(left_bytes, page_bytes_);
  EXPECT_LT(left_bytes, backend_->attributes().available_bytes);
  const int64_t unasked_bytes = DefaultKvBytes(backend_->attributes(), *model_);
  EXPECT_GT(unasked_bytes, left_bytes / 2);
  EXPECT_LT(unasked_bytes, left_bytes);
  const Error more = KvErrorOf(left_bytes + page_bytes_);
  EXPECT_EQ(more.code, ErrorCode::kResourceExhausted);
  EXPECT_NE(
      more.message.find("device-kv must be at most " + FormatBytes(left_bytes)),
      std::string::npos)
      << more.message;
  // More pages than 32 bits name, and than 31 do.
  EXPECT_NE(KvErrorOf(int64_t{1} << 62).message.find("device-kv may hold at"),
            std::string::npos);
  EXPECT_NE(KvErrorOf(page_bytes_ << 31).message.find("device-kv must be at"),
            std::string::npos);
}

// What an engine works in counts as well, not its pool alone.
TEST_F(EngineOptionsTest, AnEngineThatItsShareCannotHoldShowsTheSum) {
  const int64_t weight_bytes = backend_->attributes().available_bytes -
                               MemoryLeft(backend_->attributes(), *model_);
  const int64_t limit_bytes = weight_bytes + 5 * page_bytes_;
  const auto memory_bytes =
      static_cast<double>(backend_->attributes().memory_bytes);
  const std::unique_ptr<Backend> limited =
      LimitMemory(
          MakeCpuBackend({.num_threads = 1}),
          {.utilization = static_cast<double>(limit_bytes) / memory_bytes})
          .value();
  const auto engine = Engine::Create(
      *limited, *model_,
      {.max_num_batched_tokens = 1 << 16, .device_kv_bytes = 4 * page_bytes_});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kResourceExhausted);
  for (const char* part : {"KV pool of 4 pages", " = ", "may be taken",
                           "gpu-memory-utilization"}) {
    EXPECT_NE(engine.error().message.find(part), std::string::npos)
        << engine.error().message;
  }
  // A pool alone that is too large is refused before it is asked for.
  EXPECT_EQ(KvPagesOf({.device_kv_bytes = 6 * page_bytes_}, *model_,
                      limited->attributes())
                .error()
                .code,
            ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace winnow
