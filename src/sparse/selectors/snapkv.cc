// SnapKV chooses once, when the prompt ends: what its last tokens attend to,
// and all that is generated. A token that is not chosen then is not read again.
//
// Scores are float32 where its code rounds probabilities to the model's type.
// A prefix is shared by requests of this selector alone: the last queries of
// its tokens are kept, as the window of what is forked from it may begin there.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr int kMaxWindow = 1024;
constexpr int kMaxKernel = 63;
constexpr std::string_view kHeads[] = {"q", "kv"};
constexpr std::string_view kPools[] = {"avg", "max"};

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what of the prompt is read: more than the window, which is included"},
    {"window", "32", TokensFrom(1, kMaxWindow),
     "last tokens of the prompt, which choose"},
    {"kernel", "5", OddFrom(1, kMaxKernel),
     "tokens that scores are pooled over"},
    {"pool", "avg", OneOf(kPools), "how they are pooled"},
    {"heads", "q", OneOf(kHeads),
     "who chooses: q (each q head, as published) or kv (the mean of a group, "
     "as KVCache-Factory and kvpress have it)"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values, const SelectorShape&) {
  SelectProgram program;
  program.block_tokens = 1;
  program.fixed.kind = FixedChoice::Kind::kObserved;
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads"));
  program.scope = heads == 0 ? Scope::kQHead : Scope::kKvHead;
  ASSIGN_OR_RETURN(program.fixed.window_tokens, values.GetTokens("window"));
  program.forced.recent_tokens = program.fixed.window_tokens;
  ASSIGN_OR_RETURN(program.fixed.budget, values.GetAmount("budget"));
  ASSIGN_OR_RETURN(const int kernel, values.GetTokens("kernel"));
  ASSIGN_OR_RETURN(const int pool, values.GetChoice("pool"));
  program.fixed.pool = {pool == 0 ? Reduction::kMean : Reduction::kMax, kernel,
                        1, kernel / 2};
  return program;
}

}  // namespace

const SelectorKind kSnapKvSelector = {
    .name = "snapkv",
    .title = "tokens that the prompt's last ones attend to, chosen once",
    .source =
        "SnapKV, arXiv 2404.14469, and its code's defaults: window 32, "
        "average pool 5, 2048 tokens a q head",
    .parameters = kParameters,
    .make = Make,
    .differs = "window=32 as its paper has it; its class alone defaults to 64.",
};

}  // namespace winnow
