#include "cli/info/info.h"

#include <nlohmann/json.hpp>

#include "base/size_text.h"
#include "cli/command/command.h"
#include "cli/command/loaded_model.h"
#include "cli/command/output.h"
#include "cli/command/progress.h"

namespace winnow {
namespace {

struct ModelFacts {
  std::string architecture;
  int64_t num_parameters = 0;
  Dtype dtype = Dtype::kBFloat16;
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t max_context_tokens = 0;
  int64_t fitting_context_tokens = 0;
  NativeSelector native_selector;
};

ModelFacts FactsOf(const Backend& backend, const Model& model) {
  const ModelConfig& config = model.config();
  ModelFacts facts;
  facts.architecture = config.family->architecture;
  facts.num_parameters = model.weights().num_parameters();
  facts.dtype = model.dtypes().compute;
  facts.weight_bytes =
      model.weights().mapped_bytes() + model.weights().copied_bytes();
  facts.kv_bytes_per_token = KvBytesPerToken(config, model.dtypes().kv);
  facts.max_context_tokens = config.max_context_tokens;
  // Weights are mapped: they leave less for the KV once they are read.
  const int64_t fitting =
      DefaultKvBytes(backend.attributes(), model) / facts.kv_bytes_per_token;
  facts.fitting_context_tokens =
      std::min(fitting / kPageTokens * kPageTokens, facts.max_context_tokens);
  facts.native_selector = config.native_selector;
  return facts;
}

void PrintFacts(const ModelConfig& config, const ModelFacts& facts,
                const Backend& backend) {
  const auto row = [](const char* name, const std::string& value) {
    Print(fmt::format("{:<20} {}\n", name, value));
  };
  row("architecture", facts.architecture);
  row("shape",
      fmt::format("{} layers, hidden {}, {} query heads, {} KV heads of {}, "
                  "MLP {}, vocabulary {}",
                  config.num_layers, config.hidden_size, config.num_q_heads,
                  config.num_kv_heads, config.head_dim,
                  config.intermediate_size, config.vocab_size));
  row("parameters", FormatCount(facts.num_parameters));
  row("dtype", std::string(DtypeName(facts.dtype)));
  row("weights", FormatBytes(facts.weight_bytes));
  row("KV a token", FormatBytes(facts.kv_bytes_per_token));
  row("context", FormatCount(facts.max_context_tokens) + " tokens");
  row("context that fits", FormatCount(facts.fitting_context_tokens) +
                               " tokens on " +
                               backend.attributes().description);
  row("asks for selector", !facts.native_selector ? "none"
                           : facts.native_selector->ok()
                               ? **facts.native_selector
                               : facts.native_selector->error().message);
}

std::string ToJson(const ModelFacts& facts) {
  nlohmann::ordered_json selector = "";
  if (facts.native_selector) {
    selector = facts.native_selector->ok()
                   ? nlohmann::ordered_json(**facts.native_selector)
                   : nlohmann::ordered_json();
  }
  const nlohmann::ordered_json line = {
      {"architecture", facts.architecture},
      {"parameters", facts.num_parameters},
      {"dtype", DtypeName(facts.dtype)},
      {"weight_bytes", facts.weight_bytes},
      {"kv_bytes_per_token", facts.kv_bytes_per_token},
      {"max_model_len", facts.max_context_tokens},
      {"fitting_context_tokens", facts.fitting_context_tokens},
      {"native_selector", std::move(selector)}};
  return line.dump() + "\n";
}

}  // namespace

Command& AddInfoCommand(Command& program, InfoFlags* flags) {
  Command& command =
      program.AddCommand("info", "What a checkpoint is, and what fits here");
  AddModelFlags(command, &flags->engine);
  AddJsonFlag(command, "One JSON line, to standard output or to FILE",
              &flags->engine);
  return command;
}

Result<int> RunInfo(const InfoFlags& flags) {
  RETURN_IF_ERROR(CheckEngineFlags(flags.engine, /*selects=*/{}));
  RETURN_IF_ERROR(CheckJsonFile(flags.engine));
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   MakeBackend(flags.engine));
  LoadOptions options;
  ASSIGN_OR_RETURN(options.dtype, ParseDtype(flags.engine.dtype));
  ASSIGN_OR_RETURN(const Model model, LoadModel(flags.engine.model, options));
  const ModelFacts facts = FactsOf(*backend, model);
  if (flags.engine.json) {
    RETURN_IF_ERROR(WriteJson(flags.engine, ToJson(facts)));
  } else {
    PrintFacts(model.config(), facts, *backend);
  }
  return 0;
}

}  // namespace winnow
