#include "engine/run/sampler.h"

#include <algorithm>
#include <functional>

namespace winnow {
namespace {

SamplingRow RowOf(const Sequence& sequence) {
  const SamplingParams& params = sequence.request().sampling;
  SamplingRow row;
  row.temperature = params.temperature;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.top_k = params.top_k;
  row.num_top_logprobs = params.logprobs.value_or(0);
  row.seed = params.seed;
  row.draw = static_cast<uint64_t>(sequence.num_generated());
  return row;
}

size_t MaskWords(int vocab_size) {
  return (static_cast<size_t>(vocab_size) + 31) / 32;
}

bool MustGoOn(const Sequence& sequence) {
  return sequence.num_generated() < sequence.request().min_tokens &&
         !sequence.request().end_token_ids.empty();
}

bool IsMasked(const Sequence& sequence) {
  const Request& request = sequence.request();
  return request.constraint || !request.allowed_token_ids.empty() ||
         MustGoOn(sequence);
}

// Token ids as bits: u32 [ceil(vocab / 32)].
class TokenBits {
 public:
  explicit TokenBits(std::span<uint32_t> words) : words_(words) {}
  void Allow(int32_t id) { words_[Word(id)] |= Bit(id); }
  // Ids beyond the vocabulary, of a configuration, are nobody's.
  void Forbid(int32_t id) {
    if (Word(id) < words_.size()) words_[Word(id)] &= ~Bit(id);
  }
  // REQUIRES: words for `end` ids, no more.
  bool AnyBelow(int32_t end) const {
    const auto whole = words_.first(Word(end));
    return std::ranges::any_of(whole, std::identity()) ||
           (end % 32 != 0 && (words_.back() & (Bit(end) - 1)) != 0);
  }

 private:
  static size_t Word(int32_t id) { return static_cast<uint32_t>(id) / 32; }
  static uint32_t Bit(int32_t id) { return uint32_t{1} << (id % 32); }
  std::span<uint32_t> words_;
};

// Takes from `words`, all set, what the sequence may not draw now; fails where
// nothing is left.
Status Mask(const Sequence& sequence, int vocab_size,
            std::span<uint32_t> words) {
  const Request& request = sequence.request();
  if (request.constraint) RETURN_IF_ERROR(request.constraint->Mask(words));
  if (!request.allowed_token_ids.empty()) {
    std::vector<uint32_t> kept(words.size());
    for (const int32_t id : request.allowed_token_ids) {
      TokenBits(kept).Allow(id);
    }
    std::ranges::transform(words, kept, words.begin(), std::bit_and());
  }
  if (MustGoOn(sequence)) {
    for (const int32_t id : request.end_token_ids) TokenBits(words).Forbid(id);
  }
  if (TokenBits(words).AnyBelow(vocab_size)) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "no token is left to draw at position {}: allowed_token_ids "
                   "has {}, min_tokens is {}",
                   sequence.tokens().size(), request.allowed_token_ids.size(),
                   request.min_tokens);
}

}  // namespace

Sampler::Sampler(Backend& backend, int vocab_size, SampleOutputs outputs)
    : backend_(backend),
      vocab_size_(vocab_size),
      outputs_(std::move(outputs)) {}

Result<std::unique_ptr<Sampler>> Sampler::Create(Backend& backend,
                                                 int vocab_size,
                                                 int max_requests) {
  const size_t logits_bytes = static_cast<size_t>(max_requests) *
                              static_cast<size_t>(vocab_size) * sizeof(float);
  ASSIGN_OR_RETURN(Buffer logits,
                   backend.Allocate(Tier::kDevice, logits_bytes, "logits"));
  ASSIGN_OR_RETURN(
      SampleOutputs outputs,
      SampleOutputs::Create(backend, max_requests, "drawn tokens"));
  std::unique_ptr<Sampler> sampler(
      new Sampler(backend, vocab_size, std::move(outputs)));
  sampler->logits_ = std::move(logits);
  return sampler;
}

size_t Sampler::MaxTableBytes(int max_requests, int max_seen_tokens,
                              int vocab_size) {
  const size_t per_request =
      sizeof(SamplingRow) + 2 * sizeof(int32_t) +
      static_cast<size_t>(max_seen_tokens) * sizeof(SeenToken) +
      kMaxBiasedTokens * sizeof(TokenBias) +
      MaskWords(vocab_size) * sizeof(uint32_t);
  constexpr size_t kAlignmentSlack = 1024;
  return static_cast<size_t>(max_requests) * per_request + kAlignmentSlack;
}

View Sampler::logits(int num_rows) const {
  return logits_.At(0, Dtype::kFloat32, {num_rows, vocab_size_});
}

View Sampler::PutMasks(StepTables& tables,
                       std::span<const Sequence* const> sequences) {
  const auto is_masked = [](const Sequence* sequence) {
    return sequence != nullptr && IsMasked(*sequence);
  };
  if (std::ranges::none_of(sequences, is_masked)) return View();
  const size_t num_words = MaskWords(vocab_size_);
  // Whatever is not masked may draw everything.
  std::vector<uint32_t> words(sequences.size() * num_words, ~uint32_t{0});
  for (size_t row = 0; row < sequences.size(); ++row) {
    if (!is_masked(sequences[row])) continue;
    const Status masked =
        Mask(*sequences[row], vocab_size_,
             std::span(words).subspan(row * num_words, num_words));
    if (!masked.ok()) rows_[row].error = masked.error();
  }
  return tables.Put(std::span<const uint32_t>(words),
                    {static_cast<int64_t>(sequences.size()),
                     static_cast<int64_t>(num_words)});
}

void Sampler::Launch(Queue& queue, StepTables& tables,
                     std::span<const Sequence* const> sequences) {
  std::vector<SamplingRow> rows;
  std::vector<SeenToken> seen;
  std::vector<TokenBias> bias;
  std::vector<int32_t> seen_begin = {0};
  std::vector<int32_t> bias_begin = {0};
  rows_.clear();
  for (const Sequence* sequence : sequences) {
    Row& kept = rows_.emplace_back();
    SamplingRow& row = rows.emplace_back(SamplingRow{.temperature = 0});
    if (sequence != nullptr) {
      row = RowOf(*sequence);
      kept.sequence = sequence->id();
      kept.num_top = row.num_top_logprobs;
      for (const auto& [token_id, num_generated] : sequence->seen()) {
        seen.push_back({token_id, num_generated});
      }
      const auto& wanted = sequence->request().sampling.logit_bias;
      bias.insert(bias.end(), wanted.begin(), wanted.end());
    }
    seen_begin.push_back(static_cast<int32_t>(seen.size()));
    bias_begin.push_back(static_cast<int32_t>(bias.size()));
  }
  const auto num_rows = static_cast<int>(rows.size());
  const SampleOutputs::Views outputs = outputs_.OnDevice(0, num_rows);
  SampleArgs args;
  args.logits = logits(num_rows);
  args.rows = tables.PutStructs(std::span<const SamplingRow>(rows));
  if (!seen.empty()) {
    args.seen_begin =
        tables.Put(std::span<const int32_t>(seen_begin), {num_rows + 1});
    args.seen = tables.PutStructs(std::span<const SeenToken>(seen));
  }
  if (!bias.empty()) {
    args.bias_begin =
        tables.Put(std::span<const int32_t>(bias_begin), {num_rows + 1});
    args.bias = tables.PutStructs(std::span<const TokenBias>(bias));
  }
  args.mask = PutMasks(tables, sequences);
  args.token_ids = outputs.token_ids;
  args.logprobs = outputs.logprobs;
  args.top_ids = outputs.top_ids;
  args.top_logprobs = outputs.top_logprobs;
  tables.Flush(queue);
  backend_.Sample(queue, args);
  outputs_.CopyToHost(queue);
}

void Sampler::Collect(std::vector<DrawnToken>* drawn) const {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const auto& [sequence, num_top, error] = rows_[i];
    if (!sequence) continue;
    drawn->push_back({.sequence = *sequence,
                      .token = outputs_.Token(static_cast<int>(i), num_top),
                      .error = error});
  }
}

}  // namespace winnow
