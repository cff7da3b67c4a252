#include "engine/run/sample_outputs.h"

#include "base/check.h"

namespace winnow {
namespace {

size_t BytesFor(int num_rows) {
  return static_cast<size_t>(num_rows) * (8 + 8 * kMaxTopLogprobs);
}

}  // namespace

Result<SampleOutputs> SampleOutputs::Create(Backend& backend, int max_rows,
                                            const std::string& purpose) {
  SampleOutputs outputs(backend, max_rows);
  ASSIGN_OR_RETURN(
      outputs.device_,
      backend.Allocate(Tier::kDevice, BytesFor(max_rows), purpose));
  ASSIGN_OR_RETURN(
      outputs.host_,
      backend.Allocate(Tier::kHost, BytesFor(max_rows), purpose + ", host"));
  return outputs;
}

// The four arrays of all rows, one after another.
SampleOutputs::Views SampleOutputs::In(const Buffer& buffer, int first,
                                       int num_rows) const {
  CHECK(0 <= first && first + num_rows <= max_rows_, "rows=[{},+{}) max={}",
        first, num_rows, max_rows_);
  const auto rows = static_cast<size_t>(max_rows_);
  constexpr size_t kTopBytes = 4 * kMaxTopLogprobs;
  const auto before = static_cast<size_t>(first);
  return {
      .token_ids = buffer.At(4 * before, Dtype::kInt32, {num_rows}),
      .logprobs = buffer.At(4 * (rows + before), Dtype::kFloat32, {num_rows}),
      .top_ids = buffer.At(8 * rows + kTopBytes * before, Dtype::kInt32,
                           {num_rows, kMaxTopLogprobs}),
      .top_logprobs = buffer.At((8 + kTopBytes) * rows + kTopBytes * before,
                                Dtype::kFloat32, {num_rows, kMaxTopLogprobs})};
}

void SampleOutputs::CopyToHost(Queue& queue) const {
  const auto num_bytes = static_cast<int64_t>(BytesFor(max_rows_));
  backend_->Copy(queue, device_.At(0, Dtype::kUInt8, {num_bytes}),
                 host_.At(0, Dtype::kUInt8, {num_bytes}));
}

GeneratedToken SampleOutputs::Token(int row, int num_top) const {
  const Views views = In(host_, row, 1);
  GeneratedToken token;
  token.token_id = *views.token_ids.As<int32_t>();
  token.logprob = *views.logprobs.As<float>();
  // Where there are no more the rest of the ids is -1.
  for (int i = 0; i < num_top; ++i) {
    const int32_t top_id = views.top_ids.As<int32_t>()[i];
    if (top_id < 0) break;
    token.top.push_back({top_id, views.top_logprobs.As<float>()[i]});
  }
  return token;
}

}  // namespace winnow
