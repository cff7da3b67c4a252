// MoBA gates blocks by their mean key, in prompts too. Its models are trained
// for it; on others it costs accuracy.
#include "base/ids.h"
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"block", "4096", PowerOfTwoFrom(kPageTokens, kMaxBlockTokens),
     "tokens of a block"},
    {"budget", "48K", AnAmount(),
     "what is read: 12 blocks; at least the row's own, which is included"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
    {"summaries", "auto", OneOf(kSummaryForms),
     "how they are kept: auto (as K and V) or fp8 (E4M3 with a scale a row)"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(const Dtype dtype, GetSummaryDtype(values, shape));
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  program.rows = {SummaryRows::Kind::kMean, program.block_tokens,
                  program.block_tokens, dtype};
  program.scope = Scope::kQHead;
  program.in_prompt = true;
  program.forced.inside_budget = true;
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return program;
}

}  // namespace

const SelectorKind kMobaSelector = {
    .name = "moba",
    .title =
        "blocks by their mean key, each q head for itself, also in prompts",
    .source =
        "MoBA, arXiv 2502.13189, eq. 5 f., naive form: the own block "
        "counts, gates are unscaled",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "dense_layers=none; its published model has its last three layers "
        "whole: "
        "which ones is the model's, so name them.",
};

}  // namespace winnow
