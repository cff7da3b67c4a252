// InfLLM-v2, as MiniCPM4's Hugging Face code computes it: keys compressed at
// two strides, the coarser of which only normalises the finer's scores.
//
// Exact in every row: where that code sees one window fewer (a prompt whose
// length is 15 modulo 16) we see it; and whether a prompt is sparse is decided
// by its whole length, as in one call of theirs.
#include "base/ids.h"
#include "sparse/spec/kinds.h"

namespace winnow {
namespace {

// Far above any checkpoint.
constexpr int64_t kMaxWindow = 4096;
constexpr int64_t kMaxDenseLen = int64_t{1} << 30;

constexpr SelectorParameter kParameters[] = {
    {"kernel", "32", PowerOfTwoFrom(1, kMaxWindow),
     "keys that one compressed key averages: at least the stride"},
    {"stride", "16", PowerOfTwoFrom(1, kMaxWindow),
     "keys from one compressed key to the next"},
    {"block", "64", PowerOfTwoFrom(kPageTokens, kMaxWindow),
     "tokens of a block: at least the stride"},
    {"budget", "6144", AnAmount(),
     "what is read: 96 blocks; at least a block, sinks and window, which are "
     "included"},
    {"sink", "64", TokensFrom(0), "first tokens, whose blocks are always read"},
    {"recent", "2048", TokensFrom(0),
     "tokens before the own block that are always read"},
    {"dense_len", "8192", TokensFrom(0, kMaxDenseLen),
     "shorter prompts and contexts are read whole"},
    {"dense_layers", "none", SomeLayers(), "layers that read everything"},
};

// The normaliser's windows and strides are these times the finer level's.
constexpr int kCoarser = 4;

Result<SelectProgram> Make(const SelectorValues& values,
                           const SelectorShape& shape) {
  SelectProgram program;
  ASSIGN_OR_RETURN(program.block_tokens, values.GetTokens("block"));
  ASSIGN_OR_RETURN(const int kernel, values.GetTokens("kernel"));
  ASSIGN_OR_RETURN(const int stride, values.GetTokens("stride"));
  if (kernel < stride || program.block_tokens < stride) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select infllm-v2: stride must divide kernel {} and "
                     "block {}, is {}",
                     kernel, program.block_tokens, stride);
  }
  program.rows = {SummaryRows::Kind::kMean, kernel, stride, shape.kv_dtype};
  program.normalizer = {SummaryRows::Kind::kMean, kCoarser * kernel,
                        kCoarser * stride, shape.kv_dtype};
  program.map = HeadMap::kExpMinusLse;
  program.group = Reduction::kSum;
  program.rounds_to_bfloat16 = shape.kv_dtype == Dtype::kBFloat16;
  const int rows_a_block = program.block_tokens / stride;
  program.pool = {Reduction::kMax, rows_a_block + 1, rows_a_block, 1};
  RETURN_IF_ERROR(ReadAmounts(values, program));
  program.forced.inside_budget = true;
  program.in_prompt = true;
  ASSIGN_OR_RETURN(program.dense_len, values.GetTokens("dense_len"));
  return program;
}

}  // namespace

const SelectorKind kInfLlmV2Selector = {
    .name = "infllm-v2",
    .title = "blocks by compressed keys, one choice a KV head, also in prompts",
    .source =
        "InfLLM-v2, arXiv 2509.24663, and MiniCPM4's modeling_minicpm.py: "
        "32/16 and 128/64 windows, pooling 5/4/1, 1 + 33 forced of 96 "
        "blocks",
    .parameters = kParameters,
    .make = Make,
};

}  // namespace winnow
