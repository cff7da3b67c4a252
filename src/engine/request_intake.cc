#include "engine/request_intake.h"

#include <algorithm>
#include <utility>

#include "base/size_text.h"
#include "model/forward/rope.h"

namespace winnow {

RequestIntake::RequestIntake(const Links& links)
    : links_(links),
      limits_(
          {.vocab_size = links.model.config().vocab_size,
           .max_model_len = links.options.max_model_len,
           .num_selectors = static_cast<int>(links.options.selectors.size()),
           .num_pages = links.residency.tiers().kv->num_pages(),
           .page_bytes = links.residency.page_bytes(),
           .scores_prompts = links.options.max_scored_rows > 0}) {}

bool RequestIntake::ActsInPrompt(int selector) const {
  return selector >= 0 &&
         BelongsToPrompt(
             links_.residency.tiers().selectors->selector(selector).program);
}

void RequestIntake::CheckForkable(const Request& request,
                                  const Sequence& prefix) const {
  const int of_prefix = prefix.request().selector;
  CHECK(request.selector == of_prefix ||
            !(ActsInPrompt(request.selector) || ActsInPrompt(of_prefix)),
        "selector={} of the fork, {} of the prefix", request.selector,
        of_prefix);
  CHECK(prefix.is_prefix() && !prefix.released(),
        "sequence={} is no prefix, or released", prefix.id().value());
}

RequestRope RequestIntake::RopeFor(int64_t planned_tokens) const {
  const RopeConfig& config = links_.model.config().rope;
  RequestRope rope;
  rope.inverse_frequencies.resize(static_cast<size_t>(config.rotary_dim / 2));
  RopeFrequencies(config, planned_tokens, rope.inverse_frequencies,
                  &rope.scale);
  return rope;
}

Status RequestIntake::CheckWatch(const Request& request,
                                 bool is_layerwise) const {
  if (request.is_watched && is_layerwise) {
    const int64_t num_tokens =
        std::ssize(request.prompt) + request.max_tokens - 1;
    return MakeError(
        ErrorCode::kInvalidArgument,
        "KV of a watched request must be at most {} (device-kv), "
        "as a larger one is read layer by layer, is {} ({} tokens: "
        "a prompt of {} and max-tokens)",
        FormatBytes(limits_.num_pages * limits_.page_bytes),
        FormatBytes(PagesFor(num_tokens) * limits_.page_bytes), num_tokens,
        request.prompt.size());
  }
  const auto num_watched = std::ranges::count_if(
      links_.sequences,
      [](const auto& other) { return other->request().is_watched; });
  if (!request.is_watched ||
      num_watched < links_.options.max_watched_requests) {
    return Ok{};
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "watched requests at once must be at most {}, are {}",
                   links_.options.max_watched_requests, num_watched + 1);
}

Status RequestIntake::CheckFits(const Request& request) const {
  return links_.residency.Check(request, limits_.CheckRoom(request));
}

Status RequestIntake::Check(const Request& request) const {
  CHECK(!request.prefix, "prefix={}", request.prefix->value());
  RETURN_IF_ERROR(limits_.Check(request));
  Request fitted = request;
  FitMaxTokens(fitted);
  return CheckFits(fitted);
}

void RequestIntake::FitMaxTokens(Request& request) const {
  if (!request.may_get_fewer) return;
  const int asked = request.max_tokens;
  const auto fits = [&](int max_tokens) {
    request.max_tokens = max_tokens;
    return CheckFits(request).ok();
  };
  int most = std::max(1, request.min_tokens);
  if (!fits(asked) && fits(most)) {
    for (int end = asked; end - most > 1;) {
      const int middle = most + (end - most) / 2;
      (fits(middle) ? most : end) = middle;
    }
    request.max_tokens = most;
  } else {
    request.max_tokens = asked;
  }
}

Result<SequenceId> RequestIntake::Add(Request request,
                                      RequestObserver* observer) {
  RETURN_IF_ERROR(limits_.Check(request));
  FitMaxTokens(request);
  const bool is_layerwise = links_.residency.IsLayerwise(request);
  RETURN_IF_ERROR(CheckFits(request));
  RETURN_IF_ERROR(CheckWatch(request, is_layerwise));
  if (request.prefix) {
    const Sequence& prefix = links_.sequences.Get(*request.prefix);
    CheckForkable(request, prefix);
    RETURN_IF_ERROR(RequestLimits::CheckFork(request, prefix));
    const SequenceId id = links_.sequences.TakeId();
    links_.sequences.Add(
        Sequence::MakeFork(id, std::move(request), prefix, observer));
    return id;
  }
  RequestRope rope = RopeFor(std::max<int64_t>(
      std::ssize(request.prompt) + request.max_tokens, request.planned_tokens));
  const SequenceId id = links_.sequences.TakeId();
  Sequence& sequence = links_.sequences.Add(std::make_unique<Sequence>(
      id, std::move(request), std::move(rope), observer));
  if (is_layerwise) sequence.ReadByLayers();
  return id;
}

Result<SequenceId> RequestIntake::AddPrefix(Prefix prefix,
                                            RequestObserver* observer) {
  RETURN_IF_ERROR(limits_.Check(prefix));
  const auto num_held =
      std::ranges::count_if(links_.sequences, [](const auto& other) {
        return other->is_prefix() && other->request().selector >= 0;
      });
  if (prefix.selector >= 0 && num_held >= links_.options.max_num_seqs) {
    return MakeError(ErrorCode::kResourceExhausted,
                     "prefixes with a selector must be at most max-num-seqs "
                     "({}) at once, are {}",
                     links_.options.max_num_seqs, num_held + 1);
  }
  RequestRope rope = RopeFor(prefix.max_length);
  const SequenceId id = links_.sequences.TakeId();
  links_.sequences.Add(
      Sequence::MakePrefix(id, std::move(prefix), std::move(rope), observer));
  return id;
}

}  // namespace winnow
