// ArkVale's digest of a page, and one choice for all heads of a layer. What it
// recalls and evicts is the tiers' affair: here a step reads its budget.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what is read: at least a page, sinks and window, which are included"},
    {"block", "32", PowerOfTwoFrom(8, kMaxBlockTokens), "tokens of a page"},
    {"sink", "64", TokensFrom(0), "first tokens, whose pages are always read"},
    {"recent", "32", TokensFrom(0),
     "last tokens before the own page, whose pages are always "
     "read"},
    {"dense_layers", "0-1", SomeLayers(), "layers that read everything"},
    {"summaries", "auto", OneOf(kSummaryForms),
     "how they are kept: auto (as K and V) or fp8 (E4M3 with a scale a row)"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(const Dtype dtype, GetSummaryDtype(values, shape));
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  program.rows = {SummaryRows::Kind::kCuboid, program.block_tokens,
                  program.block_tokens, dtype};
  program.scope = Scope::kLayer;
  program.group = Reduction::kMean;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  program.forced.inside_budget = true;
  return program;
}

}  // namespace

const SelectorKind kArkValeSelector = {
    .name = "arkvale",
    .title = "pages by a box around their keys, one choice for all heads",
    .source =
        "ArkVale, NeurIPS 2024, 3.3: cuboid-mean digest, mean over all "
        "heads, 2 sink and 2 window pages (the own one is one)",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "a row reads what its own scores say; published: half the budget's "
        "pages "
        "are recalled a step, and those that were there stay until others "
        "score "
        "higher. A choice that hung on the rows before it would hang on "
        "preemption "
        "and on what is sampled beside it.",
};

}  // namespace winnow
