#include "serve/request/request_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "serve/request/api_error.h"
#include "serve/request/completion_request.h"
#include "serve/request/request_case.h"

namespace winnow {
namespace {

using nlohmann::json;

// OpenAI's chat request, field by field, as its Python client spelled it in
// August 2026 (completion_create_params.py).
constexpr const char* kOpenAiChatFields[] = {
    "messages",
    "model",
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
};

// /v1/responses, as the same client spelled it (response_create_params.py).
constexpr const char* kOpenAiResponsesFields[] = {
    "background",
    "context_management",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
};

// /v1/messages, as Anthropic's client spells it (message_create_params.py).
constexpr const char* kAnthropicFields[] = {
    "cache_control", "container",      "inference_geo",   "max_tokens",
    "messages",      "metadata",       "model",           "output_config",
    "service_tier",  "stop_sequences", "stream",          "system",
    "temperature",   "thinking",       "tool_choice",     "tools",
    "top_k",         "top_p",          "user_profile_id",
};

// What vLLM takes besides, as its protocol.py had it in 2026.
constexpr const char* kVllmFields[] = {
    "use_beam_search",
    "top_k",
    "min_p",
    "repetition_penalty",
    "watermarking",
    "length_penalty",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "truncation_side",
    "prompt_logprobs",
    "logprob_token_ids",
    "allowed_token_ids",
    "bad_words",
    "echo",
    "add_special_tokens",
    "structured_outputs",
    "priority",
    "request_id",
    "session_id",
    "return_tokens_as_token_ids",
    "return_token_ids",
    "routed_experts_prompt_start",
    "return_token_offsets",
    "return_mm_kwargs",
    "cache_salt",
    "kv_transfer_params",
    "ec_transfer_params",
    "vllm_xargs",
    "repetition_detection",
    "stream_interval",
};
constexpr const char* kVllmChatFields[] = {
    "include_reasoning",
    "thinking_token_budget",
    "add_generation_prompt",
    "continue_final_message",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "media_io_kwargs",
    "mm_processor_kwargs",
    "return_prompt_text",
};
constexpr const char* kVllmCompletionFields[] = {
    "prompt_embeds",
    "logits_processors",
    "max_repetition_pattern_size",
    "min_repetition_pattern_size",
    "repetition_min_count",
};

json SmallestRequest(Endpoint endpoint) {
  if (endpoint == kChat || endpoint == Endpoint::kMessageTokens) {
    return {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}};
  }
  if (endpoint == Endpoint::kResponses) return {{"input", "Hello"}};
  if (endpoint == Endpoint::kMessages) {
    return {{"messages", {{{"role", "user"}, {"content", "Hello"}}}},
            {"max_tokens", 1}};
  }
  return {{"prompt", "Hello"}};
}

void ExpectKnown(Endpoint endpoint, std::span<const char* const> names) {
  const auto fields = FieldsOf(endpoint);
  for (const std::string name : names) {
    EXPECT_EQ(std::ranges::count(fields, name, &RequestField::name), 1) << name;
  }
}

TEST(RequestFieldsTest, KnowEveryFieldOfTheRoutesClients) {
  ExpectKnown(kChat, kOpenAiChatFields);
  ExpectKnown(Endpoint::kResponses, kOpenAiResponsesFields);
  ExpectKnown(Endpoint::kMessages, kAnthropicFields);
  ExpectKnown(kChat, kVllmFields);
  ExpectKnown(kChat, kVllmChatFields);
  ExpectKnown(Endpoint::kCompletions, kVllmFields);
  ExpectKnown(Endpoint::kCompletions, kVllmCompletionFields);
}

TEST(RequestFieldsTest, KnowEachOnce) {
  for (const Endpoint endpoint : kEndpoints) {
    std::set<std::string_view> names;
    for (const RequestField& field : FieldsOf(endpoint)) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
    }
  }
}

// Of each that is read a value of a wrong type is refused, so it is looked at;
// each that is refused says why; each that is ignored is named.
TEST(RequestFieldsTest, EachIsReadRefusedOrNamed) {
  // A list with an object in it is what no field takes.
  const json wrong = json::array({json::object({{"x", json::array()}})});
  for (const Endpoint endpoint : kEndpoints) {
    for (const RequestField& field : FieldsOf(endpoint)) {
      const std::string name(field.name);
      json request = SmallestRequest(endpoint);
      request[name] = wrong;
      const auto parsed =
          ParseCompletionRequest(request.dump(), endpoint, Rules());
      if (field.use == RequestField::Use::kIgnored) {
        ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.error().message;
        EXPECT_EQ(parsed->ignored, std::vector<std::string>{name});
        continue;
      }
      ASSERT_FALSE(parsed.ok()) << name;
      EXPECT_TRUE(FieldNamedIn(parsed.error().message).starts_with(name))
          << parsed.error().message;
      if (field.use == RequestField::Use::kRefused) {
        EXPECT_NE(parsed.error().message.find(field.reason), std::string::npos);
        EXPECT_FALSE(field.reason.empty()) << name;
      }
    }
  }
}

TEST(RequestFieldsTest, ARefusedFieldMayAskForNothing) {
  for (const Endpoint endpoint : kEndpoints) {
    for (const RequestField& field : FieldsOf(endpoint)) {
      if (field.use != RequestField::Use::kRefused) continue;
      json values = json::parse(field.neutral);
      values.push_back(nullptr);
      for (const json& value : values) {
        json request = SmallestRequest(endpoint);
        request[std::string(field.name)] = value;
        const auto parsed =
            ParseCompletionRequest(request.dump(), endpoint, Rules());
        EXPECT_TRUE(parsed.ok()) << field.name << " " << value;
      }
    }
  }
}

}  // namespace
}  // namespace winnow
