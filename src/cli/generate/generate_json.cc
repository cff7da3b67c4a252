#include "cli/generate/generate_json.h"

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const RequestTiming& timing, double load_ms) {
  return {{"load_ms", load_ms},
          {"queue_ms", timing.queue_ms},
          {"prefill_ms", timing.prefill_ms},
          {"first_token_ms", timing.first_token_ms},
          {"decode_ms", timing.decode_ms}};
}

Json ToJson(const KvCounters& kv) {
  return {{"device_bytes", kv.device_bytes},
          {"host_bytes", kv.host_bytes},
          {"picks", kv.picks},
          {"hits", kv.hits},
          {"misses", kv.misses},
          {"hints", kv.hints},
          {"hints_used", kv.hints_used},
          {"fetched_bytes", kv.fetched_bytes},
          {"written_bytes", kv.written_bytes},
          {"stall_ms", kv.stall_ms},
          {"tokens_read_share", kv.tokens_read_share}};
}

Json LogprobsOf(const std::vector<GeneratedToken>& tokens) {
  Json logprobs = Json::array();
  for (const GeneratedToken& token : tokens) {
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back({{"token_id", other.token_id}, {"logprob", other.logprob}});
    }
    logprobs.push_back({{"token_id", token.token_id},
                        {"logprob", token.logprob},
                        {"top", top}});
  }
  return logprobs;
}

}  // namespace

std::string ToJsonLine(const GenerationRecord& record) {
  Json token_ids = Json::array();
  for (const GeneratedToken& token : record.tokens) {
    token_ids.push_back(token.token_id);
  }
  const Completion& completion = record.completion;
  Json line = {{"prompt_tokens", completion.num_prompt_tokens},
               {"token_ids", token_ids},
               {"text", record.text},
               {"finish_reason", FinishReasonName(completion.reason)},
               {"logprobs", record.with_logprobs ? LogprobsOf(record.tokens)
                                                 : Json(nullptr)},
               {"timing", ToJson(completion.timing, record.load_ms)},
               {"kv", ToJson(completion.kv)}};
  if (completion.error) line["error"] = completion.error->message;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace winnow
