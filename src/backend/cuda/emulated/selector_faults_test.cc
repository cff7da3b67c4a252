// What selectors ask of a device besides scores and choices, refused call by
// call.
#include <gtest/gtest.h>

#include "backend/conformance/sparse_case.h"
#include "backend/cuda/emulated/faulty_backend.h"

namespace winnow {
namespace {

using Kind = SummaryRows::Kind;

// Two requests that one program chooses for, at positions that it chooses at.
SparseCase CaseOf(const SelectProgram& program, RandomSource& random) {
  KvShape shape;
  shape.group_heads = 2;
  shape.k_dim = shape.v_dim = 16;
  SparseCase sparse(shape, {{90, 1, 0}, {70, 2, 0}}, random);
  sparse.programs = {program};
  sparse.selectors = {0, 0};
  sparse.prompt_tokens = {60, 60};
  sparse.context_tokens = {60, 60};
  return sparse;
}

void ExpectRefused(const SparseCase& sparse,
                   std::initializer_list<std::string_view> launches,
                   const SparseRun& run = {}) {
  ExpectEachRefused([&](TestDevice& device) { RunSparse(device, sparse, run); },
                    launches);
}

TEST(SelectorFaultsTest, GatesThatCannotBeLaunchedAreAnError) {
  for (const Rule rule : {Rule::kTopK, Rule::kThreshold}) {
    RandomSource random(1);
    SelectProgram program;
    program.block_tokens = 8;
    program.rows = {Kind::kGate, 8, 8, Dtype::kFloat32};
    program.map = HeadMap::kSoftmax;
    program.budget = {Amount::Unit::kTokens, 16};
    program.rule = rule;
    program.threshold = 0.05f;
    SparseCase sparse = CaseOf(program, random);
    const int64_t heads = sparse.paged.shape().num_kv_heads;
    sparse.gates = {{RandomArray(Dtype::kFloat32, {heads, 32, 16}, random),
                     RandomArray(Dtype::kFloat32, {heads, 48, 16}, random),
                     {},
                     {}}};
    sparse.q_pre = RandomArray(Dtype::kFloat32, sparse.q.shape, random);
    ExpectRefused(sparse,
                  {"Summarize: gates", "Select: gates", "Select: scores",
                   "Select: reduce",
                   rule == Rule::kTopK ? "Select: choice" : "Select: masks"});
  }
}

TEST(SelectorFaultsTest, ClustersThatCannotBeLaunchedAreAnError) {
  RandomSource random(2);
  SelectProgram program;
  program.map = HeadMap::kSoftmax;
  program.group = Reduction::kSum;
  program.block_tokens = 4;
  program.rows = {Kind::kClusters, 32, 4, Dtype::kFloat32};
  program.index = {2, true};
  program.budget = {Amount::Unit::kTokens, 8};
  program.estimate = {Amount::Unit::kTokens, 24};
  const SparseCase sparse = CaseOf(program, random);
  ExpectRefused(sparse, {"ClusterKeys", "Select: scores", "Select: masks",
                         "Attend of estimates", "MergeStates"});
}

TEST(SelectorFaultsTest, ChoicesOnceThatCannotBeLaunchedAreAnError) {
  RandomSource random(3);
  SelectProgram observed;
  observed.block_tokens = 1;
  observed.fixed = {.kind = FixedChoice::Kind::kObserved,
                    .budget = {Amount::Unit::kTokens, 20},
                    .window_tokens = 8,
                    .pool = {Reduction::kMean, 3, 1, 1}};
  observed.forced.recent_tokens = 8;
  SparseCase sparse = CaseOf(observed, random);
  for (const RequestRows& rows : sparse.paged.requests()) {
    sparse.token_q.push_back(RandomArray(
        Dtype::kFloat32, {rows.end_position(), sparse.q.dim(1), 16}, random));
  }
  ExpectRefused(sparse,
                {"Summarize: queries", "Summarize: choices", "Select: masks"});
  SelectProgram outliers;
  outliers.block_tokens = 8;
  outliers.rows = {Kind::kMean, 8, 8, Dtype::kFloat32};
  outliers.fixed.kind = FixedChoice::Kind::kOutliers;
  outliers.fixed.budget = {Amount::Unit::kTokens, 16};
  outliers.budget = {Amount::Unit::kTokens, 16};
  sparse = CaseOf(outliers, random);
  ExpectRefused(sparse, {"Summarize", "Summarize: choices", "Select: scores",
                         "Select: masks"});
}

TEST(SelectorFaultsTest, NextRanksThatCannotBeLaunchedAreAnError) {
  RandomSource random(4);
  SelectProgram program;
  program.block_tokens = 8;
  program.rows = {Kind::kMean, 8, 8, Dtype::kFloat32};
  program.budget = {Amount::Unit::kTokens, 16};
  const SparseCase sparse = CaseOf(program, random);
  ExpectRefused(sparse, {"Select: next ranks"},
                {.next_times = 2, .num_segments = {1, 1}});
}

}  // namespace
}  // namespace winnow
