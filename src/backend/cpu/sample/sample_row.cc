#include "backend/cpu/sample/sample_row.h"

#include <algorithm>

#include "backend/cpu/sample/kept_tokens.h"
#include "backend/cpu/sample/philox.h"
#include "backend/cpu/sample/token_logprobs.h"
#include "backend/cpu/sample/token_scores.h"
#include "backend/cpu/sample/token_weight.h"
#include "base/check.h"

namespace winnow {
namespace {

void CheckRow(const SampleRowArgs& args) {
  const SamplingRow& row = args.row;
  CHECK(!args.logits.empty() && args.logits.size() <= kMaxSampledVocab,
        "vocab={} at most {}", args.logits.size(), kMaxSampledVocab);
  CHECK(args.originals.size() >= args.logits.size(), "originals={} vocab={}",
        args.originals.size(), args.logits.size());
  CHECK(row.temperature >= 0 && row.temperature <= kHighestScore,
        "temperature={}", row.temperature);
  CHECK(row.repetition_penalty > 0, "repetition_penalty={}",
        row.repetition_penalty);
  CHECK(row.num_top_logprobs >= 0 &&
            static_cast<size_t>(row.num_top_logprobs) <= args.top_ids.size(),
        "num_top_logprobs={} room for {}", row.num_top_logprobs,
        args.top_ids.size());
}

// The wanted top logprobs; the rest of the outputs says that there is none.
void FillTop(const SampleRowArgs& args, const LogSoftmax& softmax) {
  const auto num_top = static_cast<size_t>(args.row.num_top_logprobs);
  FindTopLogprobs(args.logits, softmax, args.top_ids.first(num_top),
                  args.top_logprobs.first(num_top));
  std::ranges::fill(args.top_ids.subspan(num_top), -1);
  std::ranges::fill(args.top_logprobs.subspan(num_top), kExcludedScore);
}

// Penalties, bias and mask, in the row's place. Returns the highest score,
// which was best_logit before.
float ChangeScores(const SampleRowArgs& args, float best_logit) {
  if (args.seen.empty() && args.bias.empty() && args.mask == nullptr) {
    return best_logit;
  }
  const auto keep_original = [&args](const auto& token) {
    const auto id = static_cast<size_t>(token.token_id);
    CHECK(id < args.logits.size(), "token_id={} vocab={}", token.token_id,
          args.logits.size());
    args.originals[id] = args.logits[id];
  };
  std::ranges::for_each(args.seen, keep_original);
  std::ranges::for_each(args.bias, keep_original);
  ApplyPenalties(args.seen, args.row, args.logits);
  ApplyBias(args.bias, args.logits);
  if (args.mask != nullptr) ApplyMask(args.mask, args.logits);
  return BestScore(args.logits);
}

// The logit of a token that was not masked, as it came.
float OriginalLogit(const SampleRowArgs& args, int32_t token_id) {
  const auto names = [token_id](const auto& token) {
    return token.token_id == token_id;
  };
  const bool changed = std::ranges::any_of(args.seen, names) ||
                       std::ranges::any_of(args.bias, names);
  const auto id = static_cast<size_t>(token_id);
  return changed ? args.originals[id] : args.logits[id];
}

int32_t Choose(std::span<const float> scores, float best,
               const SamplingRow& row) {
  if (row.temperature == 0) return FirstTokenWith(scores, best);
  const WeightScale scale = MakeWeightScale(best, row.temperature);
  const KeptTokens kept = KeepTokens(scores, row, scale);
  return DrawToken(scores, kept, scale, RandomBits(row.seed, row.draw));
}

}  // namespace

SampledToken SampleRow(const SampleRowArgs& args) {
  CheckRow(args);
  const float best_logit = OrderScores(args.logits);
  if (best_logit == kExcludedScore) {
    std::ranges::fill(args.top_ids, -1);
    std::ranges::fill(args.top_logprobs, kExcludedScore);
    return {-1, kExcludedScore};
  }
  const LogSoftmax softmax = MakeLogSoftmax(args.logits, best_logit);
  FillTop(args, softmax);
  const float best = ChangeScores(args, best_logit);
  if (best == kExcludedScore) return {-1, kExcludedScore};
  const int32_t token_id = Choose(args.logits, best, args.row);
  return {token_id, softmax.Logprob(OriginalLogit(args, token_id))};
}

}  // namespace winnow
