#include "backend/conformance/sparse_case.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// Two-level compressed keys, as InfLLM-v2 has them, with smaller numbers.
void MakeTwoLevel(SelectProgram& program, Dtype dtype) {
  program.rows = {Kind::kMean, 16, 8, dtype};
  program.normalizer = {Kind::kMean, 64, 32, dtype};
  program.map = HeadMap::kExpMinusLse;
  program.group = Reduction::kSum;
  program.pool = {Reduction::kMax, 5, 4, 1};
  program.block_tokens = 32;
}

SelectProgram RandomClusters(Dtype dtype, RandomSource& random) {
  SelectProgram program;
  program.scope = random.Among({Scope::kQHead, Scope::kKvHead});
  program.group = random.Among({Reduction::kMax, Reduction::kSum});
  program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
  program.rule = random.Among({Rule::kTopK, Rule::kTokens});
  program.block_tokens = random.Among({4, 8, 16});
  program.rows = {Kind::kClusters, random.Among({32, 64, 128, 1024}),
                  program.block_tokens, dtype};
  program.index = {static_cast<int>(random.Between(1, 5)), random.Chance(0.5)};
  program.forced = {.sink_tokens = random.Among({0, 1, 40}),
                    .recent_tokens = random.Among({0, 7, 64}),
                    .inside_budget = random.Chance(0.5)};
  program.budget = random.Chance(0.3)
                       ? Amount{Amount::Unit::kShare, 0.25}
                       : Amount{Amount::Unit::kTokens,
                                random.Among({0.0, 30.0, 100.0, 500.0})};
  return program;
}

}  // namespace

SelectProgram RandomProgram(Dtype kv_dtype, uint32_t features,
                            RandomSource& random) {
  if ((features & static_cast<uint32_t>(SelectFeature::kClusters)) != 0 &&
      random.Chance(0.2)) {
    return RandomClusters(kv_dtype, random);
  }
  SelectProgram program;
  program.scope = random.Among({Scope::kQHead, Scope::kKvHead, Scope::kLayer});
  program.group =
      random.Among({Reduction::kMax, Reduction::kMean, Reduction::kSum});
  program.map = random.Among({HeadMap::kNone, HeadMap::kSoftmax});
  Dtype dtype = random.Chance(0.5) ? kv_dtype : Dtype::kFloat32;
  if ((features & static_cast<uint32_t>(SelectFeature::kFloat8Rows)) != 0 &&
      random.Chance(0.25)) {
    dtype = Dtype::kFloat8E4M3;
  }
  program.block_tokens = random.Among({8, 16, 32, 64, 128});
  switch (random.Between(0, 5)) {
    case 0:
      program.rows.kind = Kind::kNone;
      program.block_tokens = random.Among({1, 4, 32});
      break;
    case 1:
      program.rows = {Kind::kKeys, 1, 1, kv_dtype};
      program.block_tokens = random.Among({1, 8, 32});
      program.pool = {Reduction::kSum, program.block_tokens,
                      program.block_tokens, 0};
      break;
    case 2:
      MakeTwoLevel(program, dtype);
      program.rounds_to_bfloat16 = random.Chance(0.5);
      break;
    default:
      program.rows = {random.Among({Kind::kMean, Kind::kMinMax, Kind::kCuboid}),
                      program.block_tokens, program.block_tokens, dtype};
      if (program.rows.kind != Kind::kMean) program.map = HeadMap::kNone;
  }
  program.forced = {.sink_tokens = random.Among({0, 1, 4, 40, 64}),
                    .recent_tokens = random.Among({0, 1, 32, 100}),
                    .inside_budget = random.Chance(0.5)};
  program.budget = random.Chance(0.3)
                       ? Amount{Amount::Unit::kShare, 0.25}
                       : Amount{Amount::Unit::kTokens,
                                random.Among({0.0, 64.0, 256.0, 1000.0})};
  program.in_prompt = random.Chance(0.4);
  program.dense_len = random.Among({0, 0, 100});
  return program;
}

}  // namespace winnow
