// The cases of fixtures.json: a selector, numbers from a seed, and what an
// independent oracle chose and read. tests/oracle/README.md is the law.
#ifndef WINNOW_TESTS_ORACLE_ORACLE_CASE_H_
#define WINNOW_TESTS_ORACLE_ORACLE_CASE_H_

#include <string>
#include <vector>

#include "backend/conformance/sparse_case.h"
#include "sparse/spec/selector.h"

namespace winnow {

// What the oracle says of one row.
struct OracleProbe {
  int row = 0;             // of the case
  std::string picks;       // its lists, or their hash
  double out[2] = {0, 0};  // weighted sums of its outputs
  double lse = 0;          // sum over its heads
};

struct OracleCase {
  std::string name;
  std::string spec;
  Dtype dtype = Dtype::kFloat32;
  KvShape shape;
  RequestRows rows;
  int prompt_tokens = 0;
  int context_tokens = 0;
  int q_gain = 1;
  int period = 0;
  bool gate_norms = false;
  uint64_t seed = 0;
  int block = 1;  // tokens that the picks are written in
  int layer = 0;
  int num_layers = 1;
  std::string picks;  // the hash of all rows'
  std::vector<OracleProbe> probes;
  // The share of its picks that bfloat16 summaries choose too; 0: not measured.
  double bfloat16_recall = 0;
};

// One table for which six ways of reducing heads choose six first blocks.
struct ReductionTable {
  int group = 0;
  std::vector<std::vector<double>> logits;  // [2 * group, blocks], scaled
  std::vector<int64_t> first;               // by way: the first list's block
};

// Test code: what cannot be read CHECK-fails.
std::vector<OracleCase> ReadOracleCases();
ReductionTable ReadReductionTable();

// Cases of several layers, by case and layer.
std::vector<std::vector<OracleCase>> ReadLayerCases();

// What a SPEC asks for, for the case's shape.
Selector SelectorOf(const OracleCase& oracle);

// A batch of cases of one shape, each a request of its own. q, K and V are
// those of substrate.py.
SparseCase BatchOf(const std::vector<OracleCase>& cases, RandomSource& random);

// Runs a batch of cases; clusters are those of substrate.py.
SparseResult RunOracle(TestDevice& device, const SparseCase& sparse,
                       const std::vector<OracleCase>& cases,
                       SparseRun run = {});

// A row's lists as the fixtures write them: "0-2,5|0,4-5~1", or "all". Fails
// the test where a list reads a part of a block.
std::string TextOf(const std::vector<std::vector<Pick>>& lists, int block,
                   int64_t context,
                   const std::vector<std::vector<int32_t>>& estimates = {});
// "#" and the 64-bit FNV-1a hash.
std::string Hashed(const std::string& text);

}  // namespace winnow

#endif  // WINNOW_TESTS_ORACLE_ORACLE_CASE_H_
