// CompletionRequest: what a client asks for, read from its JSON and checked.
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

// What holds an answer, and the field that asked for it.
struct AskedGrammar {
  Grammar grammar;
  std::string field;
  // That asked for its white space; empty: none did.
  std::string white_space_field = {};
};

struct CompletionRequest {
  Endpoint endpoint = Endpoint::kCompletions;
  std::string model;  // empty: whichever there is
  // Of completions: one of the two, a prompt each.
  std::vector<std::string> texts = {};
  std::vector<std::vector<int32_t>> token_ids = {};
  // Of chat: for ChatInput.
  std::string messages_json = {};
  std::string template_json = "{}";
  bool add_generation_prompt = true;
  bool continues_message = false;  // the answer goes on where the last one ends
  // Of the tools that the template is given; none: no calls are looked for.
  std::vector<CallableTool> tools = {};
  bool one_call = false;  // an answer ends with its first
  // Of these the answer must call one, and is nothing else; none: it need not.
  std::vector<CallableTool> forced_tools = {};
  AskedThoughts thoughts = {};
  // Of responses: members of the answer that say again what was asked.
  std::string echo_json = {};
  // Whether the tokenizer's own go around a text. A template writes them.
  bool add_special_tokens = true;

  // Of the answer, or, beside tools, of one that calls none of them.
  std::optional<AskedGrammar> grammar = {};

  bool echo = false;                   // the answer begins with the prompt
  std::optional<int> max_tokens = {};  // 0: the prompt alone is told
  SamplingParams sampling = {};        // all but the seed
  std::optional<uint64_t> seed = {};
  int n = 1;  // answers a prompt
  std::vector<std::string> stop = {};
  bool keeps_stops = false;  // the one that ends an answer is part of it
  std::vector<int32_t> stop_token_ids = {};
  bool ignore_eos = false;
  int min_tokens = 0;                           // before an end token
  std::vector<int32_t> allowed_token_ids = {};  // none: all
  std::vector<std::string> bad_words = {};      // not to be said
  bool skip_special_tokens = true;
  bool stream = false;
  bool include_usage = false;       // at a stream's end
  bool continuous_usage = false;    // with it: in all of its events
  bool returns_token_ids = false;   // of the prompt, and of what was drawn
  bool names_tokens_by_id = false;  // in log probabilities
  bool wants_picks = false;         // in a stream: what each token read
  std::string select = {};          // empty: the server's
  std::string cache_salt = {};
  int priority = 0;                       // lower starts first
  std::optional<double> timeout_s = {};   // from its arrival to its end
  std::vector<std::string> ignored = {};  // fields that changed nothing
};

// What a request may ask for, and what it gets where it does not say.
struct RequestRules {
  GenerationDefaults defaults;
  JsonLimits json;
  int max_n = 1;
  int vocab_size = 0;
};

// Fails with a line that names the field, what it must be and what it is.
Result<CompletionRequest> ParseCompletionRequest(std::string_view body,
                                                 Endpoint endpoint,
                                                 const RequestRules& rules);

}  // namespace winnow

#endif  // WINNOW_SERVE_REQUEST_COMPLETION_REQUEST_H_
