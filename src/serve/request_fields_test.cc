#include "serve/request_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "serve/api_error.h"
#include "serve/completion_request.h"

namespace winnow {
namespace {

using nlohmann::json;

constexpr Endpoint kChat = Endpoint::kChatCompletions;

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

RequestRules Rules() {
  return {.defaults = {}, .json = {}, .max_n = 4, .vocab_size = 100};
}

json SmallestRequest(Endpoint endpoint) {
  if (endpoint == kChat) {
    return {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}};
  }
  return {{"prompt", "Hello"}};
}

TEST(RequestFieldsTest, KnowEveryFieldOfOpenAi) {
  const auto fields = FieldsOf(kChat);
  for (const std::string name : kOpenAiChatFields) {
    EXPECT_EQ(std::ranges::count(fields, name, &RequestField::name), 1) << name;
  }
}

// Of each that is read a value of a wrong type is refused, so it is looked at;
// each that is refused says why; each that is ignored is named.
TEST(RequestFieldsTest, EachIsReadRefusedOrNamed) {
  // A list with an object in it is what no field takes.
  const json wrong = json::array({json::object({{"x", json::array()}})});
  for (const Endpoint endpoint : {Endpoint::kCompletions, kChat}) {
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
  for (const RequestField& field : FieldsOf(kChat)) {
    if (field.use != RequestField::Use::kRefused) continue;
    json values = json::parse(field.neutral);
    values.push_back(nullptr);
    for (const json& value : values) {
      json request = SmallestRequest(kChat);
      request[std::string(field.name)] = value;
      const auto parsed =
          ParseCompletionRequest(request.dump(), kChat, Rules());
      EXPECT_TRUE(parsed.ok()) << field.name << " " << value;
    }
  }
}

}  // namespace
}  // namespace winnow
