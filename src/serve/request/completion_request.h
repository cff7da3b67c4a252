// CompletionRequest: a client's request, parsed from JSON and checked.
#ifndef WINNOW_SERVE_REQUEST_COMPLETION_REQUEST_H_
#define WINNOW_SERVE_REQUEST_COMPLETION_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/sampling_params.h"
#include "model/config/generation_defaults.h"
#include "model/config/json_fields.h"
#include "serve/request/asked_thoughts.h"
#include "serve/request/request_fields.h"
#include "text/grammar/grammar.h"
#include "text/tools/tool_call_grammar.h"

namespace winnow {

// The grammar of an answer, and the field that requested it.
struct AskedGrammar {
  Grammar grammar;
  std::string field;
  // The field that set its white space; empty: none.
  std::string white_space_field = {};
};

struct CompletionRequest {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;  // empty: the server's model
  // Completions: one of the two, with one entry for each prompt.
  std::vector<std::string> texts = {};
  std::vector<std::vector<int32_t>> token_ids = {};
  // Chats: for ChatInput.
  std::string messages_json = {};
  std::string template_json = "{}";
  bool add_generation_prompt = true;
  bool continues_message = false;  // the answer continues the last message
  // The tools that the template gets; empty: no calls are parsed.
  std::vector<CallableTool> tools = {};
  bool one_call = false;  // an answer ends with its first call
  // The tools of which the answer must call one, and nothing else; empty: no
  // call is required.
  std::vector<CallableTool> forced_tools = {};
  AskedThoughts thoughts = {};
  // Responses: members of the answer that repeat the request's values.
  std::string echo_json = {};
  // True if the tokenizer adds its special tokens around a text. A template
  // writes them itself.
  bool add_special_tokens = true;

  // Of the answer; beside tools, of an answer without calls.
  std::optional<AskedGrammar> grammar = {};

  bool echo = false;                   // the answer begins with the prompt
  std::optional<int> max_tokens = {};  // 0: the prompt alone is returned
  SamplingParams sampling = {};        // without the seed
  std::optional<uint64_t> seed = {};
  int n = 1;  // answers to each prompt
  std::vector<std::string> stop = {};
  // Keeps the stop string that ends an answer in its text.
  bool keeps_stops = false;
  std::vector<int32_t> stop_token_ids = {};
  bool ignore_eos = false;
  int min_tokens = 0;                           // before an end token
  std::vector<int32_t> allowed_token_ids = {};  // empty: all
  std::vector<std::string> bad_words = {};      // forbidden in the answer
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;       // at a stream's end
  bool continuous_usage = false;    // with include_usage: in all events
  bool returns_token_ids = false;   // of the prompt and of drawn tokens
  bool names_tokens_by_id = false;  // in log probabilities
  bool wants_picks = false;  // in a stream: the ranges that each token read
  std::string select = {};   // empty: the server's default
  std::string cache_salt = {};
  int priority = 0;                       // lower starts first
  std::optional<double> timeout_s = {};   // from arrival to end
  std::vector<std::string> ignored = {};  // fields without effect
};

// The limits and defaults of requests.
struct RequestRules {
  GenerationDefaults defaults;
  JsonLimits json;
  int max_n = 1;
  int vocab_size = 0;
};

// Fails with a line that names the field, the expected value and the value
// found.
Result<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                 Endpoint endpoint,
                                                 const RequestRules& rules);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_COMPLETION_REQUEST_H_
