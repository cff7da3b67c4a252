// StreamingLLM's sinks and window. Its rotary positions count what is kept;
// ours stay those of the text, so that a prefix can be shared: beyond the
// trained length it therefore does not extrapolate as StreamingLLM does.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr SelectorParameter kParameters[] = {
    {"sink", "4", TokensFrom(0), "first tokens that are always read"},
    {"recent", "2044", TokensFrom(1),
     "last tokens that are read, the row's own included"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values, const SelectorShape&) {
  SelectProgram program;
  program.block_tokens = 1;
  ASSIGN_OR_RETURN(program.forced.sink_tokens, values.GetTokens("sink"));
  ASSIGN_OR_RETURN(const int recent, values.GetTokens("recent"));
  program.forced.recent_tokens = recent - 1;
  return program;
}

}  // namespace

const SelectorKind kWindowSelector = {
    .name = "window",
    .title = "the first tokens and a sliding window",
    .source =
        "StreamingLLM, arXiv 2309.17453, 3.2: 4 sinks; positions are "
        "those of the text",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
