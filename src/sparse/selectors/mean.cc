// The plainest block selector: a block scores what its mean key does, averaged
// over the q heads that share the KV head.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(), "what the scores choose: at least a block"},
    {"block", "32", PowerOfTwoFrom(8, kMaxBlockTokens), "tokens of a block"},
    {"sink", "4", TokensFrom(0), "first tokens, whose blocks are always read"},
    {"recent", "64", TokensFrom(0),
     "last tokens, whose blocks are always read"},
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
  program.group = Reduction::kMean;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  return program;
}

}  // namespace

const SelectorKind kMeanSelector = {
    .name = "mean",
    .title = "blocks by their mean key, one choice a KV head",
    .source =
        "Kinetics, arXiv 2506.05333, block top-k: mean over the group of "
        "q . mean(k)",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "block=32 in all layers; its simulation: 16384 / budget tokens, "
        "counted "
        "from the sinks' end, and layer 0 dense. A block of a page is read at "
        "a "
        "page's rate.",
};

}  // namespace winnow
