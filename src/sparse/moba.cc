// MoBA gates blocks by their mean key, in prompts too. Its models are trained
// for it; on others it costs accuracy.
#include "sparse/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"block", "4096", "tokens of a block: a multiple of 32"},
    {"budget", "48K",
     "tokens that are read, or a share: 12 blocks, the row's "
     "own included"},
    {"dense_layers", "none", "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, values.GetBlock("block"));
  program.rows = {SummaryRows::Kind::kMean, program.block_tokens,
                  program.block_tokens, shape.kv_dtype};
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
};

}  // namespace winnow
