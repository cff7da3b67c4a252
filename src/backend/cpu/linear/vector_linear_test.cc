#include "backend/cpu/linear/vector_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/isa/float_types.h"
#include "backend/cpu/linear/linear.h"

namespace winnow {
namespace {

constexpr int64_t kMaxRows = 512;

// A matrix of normal numbers with the memory that it stands in.
struct Matrix {
  std::vector<std::byte> bytes;
  View view;

  Matrix(Dtype dtype, int64_t rows, int64_t columns, std::mt19937& random)
      : bytes(static_cast<size_t>(rows * columns * DtypeBytes(dtype))),
        view(MakeView(bytes.data(), dtype, {rows, columns})) {
    std::normal_distribution<float> normal;
    WithFloatType(dtype, [&](auto element) {
      using T = decltype(element);
      for (int64_t i = 0; i < rows * columns; ++i) {
        view.As<T>()[i] = T(normal(random));
      }
    });
  }
};

// One product of two parts, which can be run on any of its rows.
struct Product {
  int64_t num_in, num_out;
  Matrix x, first, second, bias;

  Product(Dtype dtype, int64_t in, int64_t out, std::mt19937& random)
      : num_in(in),
        num_out(out),
        x(dtype, kMaxRows, in, random),
        first(dtype, out, in, random),
        second(dtype, 3, in, random),
        bias(dtype, 1, out, random) {}

  // Rows [begin, begin + count): [count, num_out + 3] in float32.
  template <typename Linear>
  std::vector<float> Run(int64_t begin, int64_t count, bool batch_invariant,
                         Linear&& linear) const {
    std::vector<float> out(static_cast<size_t>(count * (num_out + 3)));
    const View whole =
        MakeView(out.data(), Dtype::kFloat32, {count, num_out + 3});
    LinearPart parts[2];
    parts[0].weight = DenseMatrix(first.view);
    parts[0].bias = bias.view.Reshape({num_out});
    parts[0].out = whole;
    parts[0].out.shape[1] = num_out;
    parts[1].weight = DenseMatrix(second.view);
    parts[1].out = whole;
    parts[1].out.data += num_out * static_cast<int64_t>(sizeof(float));
    parts[1].out.shape[1] = 3;
    LinearArgs args;
    args.x = x.view.Slice(begin, count);
    args.parts = parts;
    args.batch_invariant = batch_invariant;
    linear(args);
    return out;
  }

  std::vector<float> Run(VectorLinear& op, int64_t begin, int64_t count,
                         bool batch_invariant) const {
    return Run(begin, count, batch_invariant,
               [&](const LinearArgs& args) { op.Linear(args); });
  }

  // Whether rows [begin, ...) of `all` are bit for bit those of `some`.
  bool Matches(const std::vector<float>& all, const std::vector<float>& some,
               int64_t begin) const {
    return std::memcmp(all.data() + begin * (num_out + 3), some.data(),
                       some.size() * sizeof(float)) == 0;
  }
};

// Inputs from one to thousands, outputs around the widths of slices.
struct Sizes {
  int64_t num_in, num_out;
};
constexpr Sizes kSizes[] = {{1, 2},   {2, 65},    {31, 64},  {48, 130},
                            {97, 47}, {384, 129}, {1000, 1}, {2048, 193}};
constexpr Dtype kDtypes[] = {Dtype::kFloat32, Dtype::kBFloat16,
                             Dtype::kFloat16};

class VectorLinearTest : public testing::TestWithParam<CpuKernels> {
 protected:
  template <typename Check>
  void ForProducts(Check&& check) {
    std::mt19937 random(7);
    for (const Dtype dtype : kDtypes) {
      for (const Sizes& sizes : kSizes) {
        SCOPED_TRACE(testing::Message()
                     << DtypeName(dtype) << " in=" << sizes.num_in
                     << " out=" << sizes.num_out);
        check(Product(dtype, sizes.num_in, sizes.num_out, random), random);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(VectorLinearTest, InvariantRowsDoNotDependOnTheirNumber) {
  ThreadPool pool(2);
  VectorLinear op(GetParam(), pool);
  ForProducts([&](const Product& product, std::mt19937& random) {
    const auto all = product.Run(op, 0, kMaxRows, true);
    std::vector<int64_t> counts = {64, 100, 257, 300};
    for (int64_t count = 1; count <= 33; ++count) counts.push_back(count);
    for (const int64_t count : counts) {
      const auto begin =
          static_cast<int64_t>(random() % (kMaxRows - count + 1));
      const auto some = product.Run(op, begin, count, true);
      ASSERT_TRUE(product.Matches(all, some, begin))
          << "rows [" << begin << ", " << begin + count << ")";
    }
  });
}

TEST_P(VectorLinearTest, InvariantRowsSurviveAnySplit) {
  ThreadPool pool(3);
  VectorLinear op(GetParam(), pool);
  ForProducts([&](const Product& product, std::mt19937& random) {
    const auto all = product.Run(op, 0, kMaxRows, true);
    for (int64_t begin = 0; begin < kMaxRows;) {
      const int64_t limit = random() % 2 == 0 ? 8 : 200;
      const int64_t count = std::min<int64_t>(
          kMaxRows - begin, 1 + static_cast<int64_t>(random()) % limit);
      const auto some = product.Run(op, begin, count, true);
      ASSERT_TRUE(product.Matches(all, some, begin))
          << "rows [" << begin << ", " << begin + count << ")";
      begin += count;
    }
  });
}

TEST_P(VectorLinearTest, ThreadsDoNotChangeBits) {
  ThreadPool one(1), four(4);
  VectorLinear alone(GetParam(), one), together(GetParam(), four);
  ForProducts([&](const Product& product, std::mt19937&) {
    for (const bool batch_invariant : {false, true}) {
      for (const int64_t count : {1, 2, 5, 8, 9, 16, 17, 300}) {
        ASSERT_TRUE(product.Matches(
            product.Run(alone, 0, count, batch_invariant),
            product.Run(together, 0, count, batch_invariant), 0))
            << "rows=" << count << " batch_invariant=" << batch_invariant;
      }
    }
  });
}

// Sizes beyond the conformance suite's, against the scalar truth.
TEST_P(VectorLinearTest, AnswersAsTheTruthDoes) {
  ThreadPool pool(2);
  VectorLinear op(GetParam(), pool);
  ForProducts([&](const Product& product, std::mt19937&) {
    for (const int64_t count : {1, 2, 3, 8, 13, 30, 32, 70, 300}) {
      const auto expected = product.Run(
          0, count, false,
          [&](const LinearArgs& args) { LinearScalar(args, pool); });
      const auto got = product.Run(op, 0, count, false);
      // Terms are products of normal numbers: a sum of n of them is of size
      // sqrt(n), and n such sums are rounded at random, by 2^-24 of it each.
      const auto terms = static_cast<double>(product.num_in);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 6 * 0x1p-24 * (terms + 1))
            << "rows=" << count << " element " << i;
      }
    }
  });
}

std::vector<CpuKernels> KernelsButScalar() {
  std::vector<CpuKernels> all = AvailableCpuKernels();
  all.erase(all.begin());  // kScalar
  return all;
}

INSTANTIATE_TEST_SUITE_P(Kernels, VectorLinearTest,
                         testing::ValuesIn(KernelsButScalar()),
                         [](const auto& instance) {
                           std::string name(CpuKernelsName(instance.param));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace winnow
