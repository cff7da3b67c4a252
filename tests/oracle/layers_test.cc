// Selectors whose choice outlives its layer, against their oracle, layer by
// layer; see README.md.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "sparse/spec/selector.h"
#include "tests/oracle/expect_case.h"

namespace winnow {
namespace {

// Runs all layers of cases of one shape, as one batch.
void ExpectLayers(const std::vector<std::vector<OracleCase>>& cases,
                  CpuKernels kernels) {
  TestDevice device(MakeCpuBackend({.num_threads = 2, .kernels = kernels}));
  PickLists lists;
  for (size_t layer = 0; layer < cases[0].size(); ++layer) {
    std::vector<OracleCase> batch;
    for (const auto& layers : cases) batch.push_back(layers[layer]);
    RandomSource random(layer + 1);
    const SparseCase sparse = BatchOf(batch, random);
    // Of the step, as a model has them: all layers have the same rows.
    if (layer == 0) lists = MakeKeptLists(device, sparse);
    const Selector selector = SelectorOf(batch[0]);
    const auto index = static_cast<int>(layer);
    const SparseResult got =
        RunSparse(device, sparse,
                  {.layer = index,
                   .keeps_lists = selector.KeepsLists(index),
                   .reuse_layer = selector.ReuseLayer(index),
                   .lists = lists});
    int64_t row = 0;
    for (const OracleCase& oracle : batch) {
      SCOPED_TRACE(fmt::format("layer {}", layer));
      ExpectCase(oracle, got, row);
      row += oracle.rows.num_tokens;
    }
    if (testing::Test::HasFailure()) return;
  }
}

class OracleLayersTest
    : public testing::TestWithParam<std::vector<OracleCase>> {};

TEST_P(OracleLayersTest, ReadsWhatTheLayerBeforeChose) {
  for (const CpuKernels kernels : {CpuKernels::kScalar, CpuKernels::kBest}) {
    ExpectLayers({GetParam()}, kernels);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OracleLayersTest,
                         testing::ValuesIn(ReadLayerCases()),
                         [](const auto& oracle) {
                           return oracle.param[0].name;
                         });

// E 18: the lists that are kept are each row's own.
TEST(OracleLayersBatchTest, KeepsTheSameInCompany) {
  std::vector<std::vector<OracleCase>> company;
  for (auto& layers : ReadLayerCases()) {
    const auto& first = layers[0];
    if (first.spec.ends_with("select_layers=1+3") &&
        first.shape.group_heads == 2 && first.shape.dtype == Dtype::kFloat32) {
      company.push_back(std::move(layers));
    }
  }
  ASSERT_GE(company.size(), 4u);
  ExpectLayers(company, CpuKernels::kBest);
}

}  // namespace
}  // namespace winnow
