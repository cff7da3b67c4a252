// SnapKV chooses once, when the prompt ends: what its last tokens attend to,
// and all that is generated. A token that is not chosen then is not read again.
//
// Scores are float32 where its code rounds probabilities to the model's type.
// A prefix is shared by requests of this selector alone: the last queries of
// its tokens are kept, as the window of what is forked from it may begin there.
#include "sparse/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048",
     "tokens of the prompt that are read, or a share of it; the window "
     "included"},
    {"window", "32", "last tokens of the prompt, which choose: 1 to 1024"},
    {"kernel", "5", "tokens that scores are pooled over: odd, 1 to 63"},
    {"pool", "avg", "how they are pooled: avg or max"},
    {"heads", "q",
     "who chooses: q (each q head, as published) or kv (the mean of a group, "
     "as KVCache-Factory and kvpress have it)"},
    {"dense_layers", "none", "layers that read everything"},
};

constexpr int kMaxWindow = 1024;
constexpr int kMaxKernel = 63;

Status ReadWindow(const SelectorValues& values, SelectProgram& program) {
  FixedChoice& fixed = program.fixed;
  ASSIGN_OR_RETURN(fixed.window_tokens, values.GetTokens("window"));
  if (fixed.window_tokens < 1 || fixed.window_tokens > kMaxWindow) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be from 1 to {}, is {}", values.Field("window"),
                     kMaxWindow, fixed.window_tokens);
  }
  program.forced.recent_tokens = fixed.window_tokens;
  ASSIGN_OR_RETURN(fixed.budget, values.GetAmount("budget"));
  if (fixed.budget.unit == Amount::Unit::kTokens &&
      fixed.budget.value <= fixed.window_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be more than the window's {} tokens, is {}",
                     values.Field("budget"), fixed.window_tokens,
                     fixed.budget.value);
  }
  return Ok{};
}

Result<SelectProgram> Make(const SelectorValues& values, const SelectorShape&) {
  constexpr std::string_view kHeads[] = {"q", "kv"};
  constexpr std::string_view kPools[] = {"avg", "max"};
  SelectProgram program;
  program.block_tokens = 1;
  program.fixed.kind = FixedChoice::Kind::kObserved;
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads", kHeads));
  program.scope = heads == 0 ? Scope::kQHead : Scope::kKvHead;
  RETURN_IF_ERROR(ReadWindow(values, program));
  ASSIGN_OR_RETURN(const int kernel, values.GetTokens("kernel"));
  if (kernel % 2 == 0 || kernel > kMaxKernel) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be odd, from 1 to {}, is {}",
                     values.Field("kernel"), kMaxKernel, kernel);
  }
  ASSIGN_OR_RETURN(const int pool, values.GetChoice("pool", kPools));
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
};

}  // namespace winnow
