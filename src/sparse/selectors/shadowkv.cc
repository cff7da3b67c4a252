// ShadowKV's choice, with K and V as they are (SPIN's variant): landmarks,
// which are means of 8 keys, choose chunks of the context; its outliers, whose
// landmarks say least of their keys, its end and all that is generated are
// always read. Scores are float32 where its code rounds them to the model's
// type. A landmark that is kept in fp8 also tells the outliers.
#include "base/ids.h"
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what the landmarks choose: at least a chunk"},
    {"block", "8", PowerOfTwoFrom(1, kPageTokens), "tokens of a chunk"},
    {"outliers", "384", AnAmountOrNone(),
     "the context's outlier chunks: 48 of them; at least one, or none"},
    {"recent", "32", TokensFrom(0),
     "last tokens of the context, whose chunks are always read: 4 chunks; so "
     "is what follows them"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
    {"summaries", "auto", OneOf(kSummaryForms),
     "how they are kept: auto (as K and V) or fp8 (E4M3 with a scale a row)"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  ASSIGN_OR_RETURN(const Dtype dtype, GetSummaryDtype(values, shape));
  program.rows = {SummaryRows::Kind::kMean, program.block_tokens,
                  program.block_tokens, dtype};
  program.map = HeadMap::kSoftmax;
  program.group = Reduction::kMax;
  program.fixed.kind = FixedChoice::Kind::kOutliers;
  ASSIGN_OR_RETURN(program.fixed.budget, values.GetAmount("outliers"));
  ASSIGN_OR_RETURN(program.forced.recent_tokens, values.GetTokens("recent"));
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return program;
}

}  // namespace

const SelectorKind kShadowKvSelector = {
    .name = "shadowkv",
    .title = "chunks by their mean key, and outliers, of a context once read",
    .source =
        "ShadowKV, arXiv 2410.21465, 4.1, and its code's defaults: chunks of "
        "8, 48 outliers, 4 local; K and V themselves in place of low ranks",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
