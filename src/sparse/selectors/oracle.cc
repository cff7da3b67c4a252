// What no selector can beat on the same blocks: the attention itself decides.
// It reads every key, so it is for measuring.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr std::string_view kHeads[] = {"kv", "q"};

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what the attention chooses: at least a block"},
    {"block", "16", PowerOfTwoFrom(1, kMaxBlockTokens), "tokens of a block"},
    {"heads", "kv", OneOf(kHeads),
     "who chooses: kv (mass summed over a group) or q"},
    {"sink", "4", TokensFrom(0), "first tokens, whose blocks are always read"},
    {"recent", "64", TokensFrom(0),
     "last tokens, whose blocks are always read"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  program.rows = {SummaryRows::Kind::kKeys, 1, 1, shape.kv_dtype};
  program.map = HeadMap::kSoftmax;
  program.group = Reduction::kSum;
  program.pool = {Reduction::kSum, program.block_tokens, program.block_tokens,
                  0};
  ASSIGN_OR_RETURN(const int heads, values.GetChoice("heads"));
  program.scope = heads == 0 ? Scope::kKvHead : Scope::kQHead;
  RETURN_IF_ERROR(ReadAmounts(values, program));
  return program;
}

}  // namespace

const SelectorKind kOracleSelector = {
    .name = "oracle",
    .title = "blocks by their true attention mass; for measuring",
    .source = "none: softmax(q k) summed over a block and a group",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
