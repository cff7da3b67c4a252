// Quest bounds what any key of a page can score, channel by channel.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr std::string_view kHeads[] = {"q", "kv"};

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what is read: at least the row's own page, sinks and window, which are "
     "included"},
    {"block", "16", PowerOfTwoFrom(8, kMaxBlockTokens), "tokens of a page"},
    {"heads", "q", OneOf(kHeads),
     "who chooses: q (each q head, as published) or kv (the "
     "greatest bound of a group)"},
    {"sink", "0", TokensFrom(0), "first tokens, whose pages are always read"},
    {"recent", "0", TokensFrom(0),
     "last tokens before the own page, whose pages are always "
     "read"},
    {"dense_layers", "0-1", SomeLayers(), "layers that read everything"},
    {"summaries", "auto", OneOf(kSummaryForms),
     "how they are kept: auto (as K and V) or fp8 (E4M3 with a scale a row; "
     "bounds stay bounds)"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(const Dtype dtype, GetSummaryDtype(values, shape));
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  program.rows = {SummaryRows::Kind::kMinMax, program.block_tokens,
                  program.block_tokens, dtype};
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads"));
  program.scope = heads == 0 ? Scope::kQHead : Scope::kKvHead;
  program.group = Reduction::kMax;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  program.forced.inside_budget = true;
  return program;
}

}  // namespace

const SelectorKind kQuestSelector = {
    .name = "quest",
    .title =
        "pages by an upper bound from the least and greatest of each "
        "channel",
    .source =
        "Quest, arXiv 2406.10774, 3.2, and its kernels' rule: the own "
        "page is read inside the budget; layers 0 and 1 are dense",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
