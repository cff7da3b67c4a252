// ShadowKV's choice, with K and V as they are (SPIN's variant): landmarks,
// which are means of 8 keys, choose chunks of the context; its outliers, whose
// landmarks say least of their keys, its end and all that is generated are
// always read. Scores are float32 where its code rounds them to the model's
// type. A landmark that is kept in fp8 also tells the outliers.
#include "sparse/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", "tokens that the landmarks choose, or a share"},
    {"block", "8", "tokens of a chunk: a power of two up to 32"},
    {"outliers", "384",
     "tokens of the context's outlier chunks, or a share: 48 chunks"},
    {"recent", "32",
     "last tokens of the context, whose chunks are always read: 4 chunks; so "
     "is what follows them"},
    {"dense_layers", "none", "layers that read everything"},
    {"summaries", "auto",
     "how they are kept: auto (as K and V) or fp8 (E4M3 with a scale a row)"},
};

constexpr int kMaxBlock = 32;  // a page

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, values.GetBlock("block"));
  if (program.block_tokens > kMaxBlock) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be at most {}, is {}", values.Field("block"),
                     kMaxBlock, program.block_tokens);
  }
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
