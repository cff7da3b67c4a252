// SeerAttention-R: what a gate, trained beside the model, says of blocks.
//
// Departures from its code: the own block is never a candidate, where theirs
// may take a place of the budget while it is open; a block's key is turned by
// its first token's position, as in training (their decoding takes the last
// one's); gates are float32, block keys have the cache's type. The keys before
// RoPE are those of the cache turned back, so that a sequence may be taken on
// late and share any prefix.
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

constexpr ParameterRange kBlockRange = AutoOrPowerOfTwoFrom(8, kMaxBlockTokens);

constexpr SelectorParameter kParameters[] = {
    {"budget", "2048", AnAmount(),
     "what the gate chooses: at least a block; the own block besides"},
    {"threshold", "0", FractionBelowOne(),
     "above 0: every block whose share of the gate's softmax is "
     "above it is read, whatever the budget (published: 0.004)"},
    {"block", "auto", kBlockRange,
     "tokens of a block: what the gates were trained with. auto: what their "
     "file says, 64 where it says nothing"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

constexpr int kPublishedBlock = 64;

// What the gates were trained with, as far as it is known: others would say
// nothing of the blocks.
Result<int> ReadBlock(const SelectorValues& values,
                      const SelectorShape& shape) {
  const int trained = shape.gate_block_tokens;
  if (values.GetText("block") == "auto") {
    if (trained == 0) return kPublishedBlock;
    RETURN_IF_ERROR(CheckRange(values.Field("block") + " of the model's gates",
                               fmt::format("{}", trained), kBlockRange, 0,
                               false));
    return trained;
  }
  ASSIGN_OR_RETURN(const int block, values.GetTokens("block"));
  if (trained == 0 || block == trained) return block;
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be what the model's gates were trained with, {}, "
                   "is {}",
                   values.Field("block"), trained, block);
}

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, ReadBlock(values, shape));
  program.rows = {SummaryRows::Kind::kGate, program.block_tokens,
                  program.block_tokens, shape.kv_dtype};
  program.map = HeadMap::kSoftmax;
  program.open_scores_zero = true;
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  ASSIGN_OR_RETURN(const double threshold, values.GetFraction("threshold"));
  program.threshold = static_cast<float>(threshold);
  if (threshold > 0) program.rule = Rule::kThreshold;
  return program;
}

}  // namespace

const SelectorKind kSeerAttentionSelector = {
    .name = "seerattention-r",
    .title = "blocks by a gate that was trained beside the model",
    .source =
        "SeerAttention-R, arXiv 2506.08889, 3, and its code's defaults: blocks "
        "of 64, 2048 tokens or a threshold, one choice a KV head; gates from "
        "attn_gate_weights.safetensors in the model's folder",
    .parameters = kParameters,
    .make = Make,
    .differs =
        "budget=2048, the least that its paper measures (up to 8192). Blocks "
        "are "
        "turned as their first token, as in training; its decode code takes "
        "the "
        "last one.",
};

}  // namespace winnow
