// The conformance suite, part one: the ops that touch no pages. Each against
// a float64 reference written here, over random shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/conformance/backend_under_test.h"
#include "backend/conformance/closeness.h"
#include "backend/conformance/test_array.h"

namespace winnow {
namespace {

constexpr Dtype kFloats[] = {Dtype::kFloat32, Dtype::kBFloat16,
                             Dtype::kFloat16};

Dtype AnyFloat(RandomSource& random) {
  return kFloats[static_cast<size_t>(random.Between(0, 2))];
}

class ConformanceTest : public testing::TestWithParam<BackendUnderTest> {
 protected:
  // Runs `check` on `num_rounds` seeds, each with a device of its own.
  template <typename Check>
  void ForSeeds(int num_rounds, Check&& check) {
    for (int seed = 0; seed < num_rounds && !HasFailure();
         seed += GetParam().seed_step) {
      SCOPED_TRACE(testing::Message() << "seed=" << seed);
      TestDevice device(GetParam().make(1 + seed % 3));
      RandomSource random(static_cast<uint64_t>(seed));
      check(device, random);
    }
  }
};

TEST_P(ConformanceTest, EmbedScalesRowsOfTheTable) {
  ForSeeds(60, [](TestDevice& device, RandomSource& random) {
    const int64_t num_rows = random.Between(0, 40);
    const int64_t grain = random.Among({1, 8});
    const int64_t hidden = grain * random.Between(1, 200);
    const TestArray table =
        RandomArray(AnyFloat(random), {random.Between(1, 50), hidden}, random);
    std::vector<int32_t> token_ids(static_cast<size_t>(num_rows));
    for (auto& id : token_ids) {
      id = static_cast<int32_t>(random.Between(-1, table.dim(0) - 1));
    }
    EmbedArgs args;
    args.token_ids = device.Upload(Int32Array(token_ids));
    args.table = device.Upload(table, grain * random.Between(0, 5));
    args.scale = random.Chance(0.5) ? 1.0f : 12.5f;
    args.out = device.Output(Dtype::kFloat32, {num_rows, hidden},
                             grain * random.Between(0, 9));
    device.backend().Embed(device.queue(), args);
    Closeness close(device.Download(args.out), Arithmetic::kElementwise);
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t i = 0; i < hidden; ++i) {
        const int32_t id = token_ids[static_cast<size_t>(row)];
        const double value = id < 0 ? 0 : table.at(id, i) * args.scale;
        close.Expect({row, i}, value, std::abs(value));
      }
    }
  });
}

TEST_P(ConformanceTest, RmsNormDividesByTheRootMeanSquare) {
  ForSeeds(100, [](TestDevice& device, RandomSource& random) {
    const int64_t num_rows = random.Between(0, 40);
    const int64_t size = random.Between(1, random.Chance(0.2) ? 1100 : 300);
    const TestArray x = RandomArray(AnyFloat(random), {num_rows, size}, random);
    const TestArray weight = RandomArray(AnyFloat(random), {size}, random);
    const int64_t gap = random.Between(0, 9);
    RmsNormArgs args;
    args.x = device.Upload(x, gap);
    args.weight = device.Upload(weight);
    args.epsilon = random.Chance(0.5) ? 1e-5f : 0.1f;
    args.out = random.Chance(0.3)
                   ? args.x
                   : device.Output(AnyFloat(random), {num_rows, size}, gap);
    device.backend().RmsNorm(device.queue(), args);
    Closeness close(device.Download(args.out), Arithmetic::kElementwise);
    for (int64_t row = 0; row < num_rows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += x.at(row, i) * x.at(row, i);
      const double root =
          std::sqrt(sum / static_cast<double>(size) + args.epsilon);
      for (int64_t i = 0; i < size; ++i) {
        const double value =
            x.at(row, i) / root * weight.values[static_cast<size_t>(i)];
        close.Expect({row, i}, value, std::abs(value));
      }
    }
  });
}

// Rows of more threads than a warp has: few, and more than run at a time.
TEST_P(ConformanceTest, RmsNormOfManyRowsIsThatOfEach) {
  ForSeeds(20, [](TestDevice& device, RandomSource& random) {
    const int64_t rows =
        random.Chance(0.5) ? random.Between(1, 70) : random.Between(265, 560);
    const int64_t grain = random.Among({1, 8});
    const int64_t size = grain * random.Between(513 / grain, 1600 / grain);
    const TestArray x = RandomArray(AnyFloat(random), {rows, size}, random);
    const int64_t gap = grain * random.Between(0, 5);
    RmsNormArgs args;
    args.x = device.Upload(x, gap);
    args.weight = device.Upload(RandomArray(AnyFloat(random), {size}, random));
    args.epsilon = 1e-5f;
    args.out = random.Chance(0.3)
                   ? args.x
                   : device.Output(AnyFloat(random), {rows, size}, gap);
    RmsNormArgs alone = args;
    alone.x = device.Upload(x, gap);
    alone.out = device.Output(args.out.dtype, {rows, size}, gap);
    const TestArray wanted = [&] {
      for (int64_t row = 0; row < rows; ++row) {
        RmsNormArgs one = alone;
        one.x = alone.x.Slice(row, 1);
        one.out = alone.out.Slice(row, 1);
        device.backend().RmsNorm(device.queue(), one);
      }
      return device.Download(alone.out);
    }();
    device.backend().RmsNorm(device.queue(), args);
    EXPECT_TRUE(device.Download(args.out).values == wanted.values);
  });
}

// Heads of rows that stand apart, as columns of a wider array do.
TEST_P(ConformanceTest, RmsNormOfHeadsIsThatOfEachHead) {
  ForSeeds(40, [](TestDevice& device, RandomSource& random) {
    const int64_t rows = random.Between(0, 20), heads = random.Between(1, 9);
    const int64_t size = random.Between(1, 140);
    const Dtype dtype = AnyFloat(random);
    const TestArray x = RandomArray(dtype, {rows, heads, size}, random);
    RmsNormArgs args;
    args.x = device.Upload(x, random.Between(0, 9));
    args.weight = device.Upload(RandomArray(dtype, {size}, random));
    args.epsilon = 1e-5f;
    args.out = device.Output(dtype, {rows, heads, size}, random.Between(0, 9));
    device.backend().RmsNorm(device.queue(), args);
    const TestArray got = device.Download(args.out);
    TestArray flat = x;
    flat.shape = {rows * heads, size};
    RmsNormArgs apart = args;
    apart.x = device.Upload(flat);
    apart.out = device.Output(dtype, flat.shape);
    device.backend().RmsNorm(device.queue(), apart);
    EXPECT_TRUE(got.values == device.Download(apart.out).values);
  });
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

TEST_P(ConformanceTest, GatedActMultipliesTheActivatedGate) {
  ForSeeds(100, [](TestDevice& device, RandomSource& random) {
    // Rows that whole pieces of 16 bytes fill, or do not.
    const int64_t grain = random.Among({1, 4, 8});
    const std::vector<int64_t> shape = {random.Between(0, 20),
                                        grain * random.Between(1, 900 / grain)};
    const Dtype in = AnyFloat(random);
    TestArray gate = RandomArray(in, shape, random);
    // Some far out, where a careless exponential overflows.
    for (double& value : gate.values) {
      if (random.Chance(0.1)) value = RoundTo(in, value * 60);
    }
    const TestArray up = RandomArray(in, shape, random);
    const int64_t gap = grain * random.Between(0, 3);
    GatedActArgs args;
    args.activation = random.Among(
        {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh});
    args.gate = device.Upload(gate, gap);
    args.up =
        device.Upload(up, random.Chance(0.2) ? random.Between(0, 9)
                                             : grain * random.Between(0, 3));
    args.out = random.Chance(0.3) ? args.gate
                                  : device.Output(AnyFloat(random), shape, gap);
    device.backend().GatedAct(device.queue(), args);
    Closeness close(device.Download(args.out), Arithmetic::kElementwise);
    for (int64_t row = 0; row < shape[0]; ++row) {
      for (int64_t i = 0; i < shape[1]; ++i) {
        const double value =
            Activate(args.activation, gate.at(row, i)) * up.at(row, i);
        // GeLU's tail is a difference of nearly equal numbers.
        close.Expect({row, i}, value,
                     std::abs(value) + std::abs(up.at(row, i)));
      }
    }
  });
}

TEST_P(ConformanceTest, GatherRowsCopiesBytes) {
  ForSeeds(60, [](TestDevice& device, RandomSource& random) {
    const int64_t size = random.Between(1, 100);
    const TestArray x =
        RandomArray(AnyFloat(random), {random.Between(1, 40), size}, random);
    std::vector<int32_t> indices(static_cast<size_t>(random.Between(0, 50)));
    for (auto& index : indices) {
      index = static_cast<int32_t>(random.Between(0, x.dim(0) - 1));
    }
    GatherRowsArgs args;
    args.x = device.Upload(x, random.Between(0, 9));
    args.indices = device.Upload(Int32Array(indices));
    args.out = device.Output(x.dtype, {std::ssize(indices), size},
                             random.Between(0, 9));
    device.backend().GatherRows(device.queue(), args);
    const TestArray out = device.Download(args.out);
    for (size_t row = 0; row < indices.size(); ++row) {
      for (int64_t i = 0; i < size; ++i) {
        ASSERT_EQ(out.at(static_cast<int64_t>(row), i), x.at(indices[row], i));
      }
    }
  });
}

// What a random product has: numbers of rows, and of multiples of `grain`, of
// which sizes and gaps along rows are made.
struct ProductSizes {
  int64_t grain = 1;
  int64_t min_rows = 0, max_rows = 40;
  int64_t max_in = 300;
  int64_t min_out = 1, max_out = 130;
};

// One random product: inputs on the host, arguments on the device.
struct Product {
  TestArray x, residual;
  std::vector<TestArray> weights, biases;
  std::vector<LinearPart> parts;
  LinearArgs args;

  Product(TestDevice& device, RandomSource& random,
          const ProductSizes& sizes = {}) {
    const Dtype dtype = AnyFloat(random);
    const int64_t grain = sizes.grain;
    const int64_t num_rows = random.Between(sizes.min_rows, sizes.max_rows);
    const int64_t num_in = grain * random.Between(1, sizes.max_in);
    const auto gap = [&] { return grain * random.Between(0, 9); };
    x = RandomArray(dtype, {num_rows, num_in}, random);
    args.x = device.Upload(x, gap());
    const int64_t num_parts = random.Between(1, 3);
    for (int64_t i = 0; i < num_parts; ++i) {
      const int64_t num_out =
          grain * random.Between(sizes.min_out, sizes.max_out);
      weights.push_back(RandomArray(dtype, {num_out, num_in}, random));
      biases.push_back(RandomArray(dtype, {num_out}, random));
      const Dtype out = random.Chance(0.5) ? dtype : Dtype::kFloat32;
      LinearPart part;
      part.weight = DenseMatrix(device.Upload(weights.back()));
      if (random.Chance(0.5)) part.bias = device.Upload(biases.back());
      part.out = device.Output(out, {num_rows, num_out}, gap());
      parts.push_back(part);
    }
    args.scale = random.Chance(0.5) ? 1.0f : 0.25f;
    args.batch_invariant = random.Chance(0.5);
    const bool may_add =
        num_parts == 1 && parts[0].out.dtype == Dtype::kFloat32;
    if (may_add && random.Chance(0.7)) {
      residual =
          RandomArray(Dtype::kFloat32, {num_rows, weights[0].dim(0)}, random);
      args.residual = device.Upload(residual, gap());
      if (random.Chance(0.5)) parts[0].out = args.residual;
    }
    args.parts = parts;
  }
};

// What each element of a product's parts must be.
void ExpectProducts(TestDevice& device, const Product& product) {
  for (size_t p = 0; p < product.parts.size(); ++p) {
    const LinearPart& part = product.parts[p];
    Closeness close(device.Download(part.out), Arithmetic::kSum);
    const TestArray& weight = product.weights[p];
    for (int64_t row = 0; row < product.x.dim(0); ++row) {
      for (int64_t n = 0; n < weight.dim(0); ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < weight.dim(1); ++i) {
          const double term = product.x.at(row, i) * weight.at(n, i);
          sum += term;
          magnitude += std::abs(term);
        }
        if (!part.bias.empty()) {
          sum += product.biases[p].values[static_cast<size_t>(n)];
        }
        sum *= product.args.scale;
        if (!product.args.residual.empty()) {
          sum += product.residual.at(row, n);
        }
        close.Expect({row, n}, sum, magnitude + std::abs(sum));
      }
    }
  }
}

TEST_P(ConformanceTest, LinearMultipliesAddsAndRoundsOnce) {
  ForSeeds(120, [](TestDevice& device, RandomSource& random) {
    const Product product(device, random);
    device.backend().Linear(device.queue(), product.args);
    ExpectProducts(device, product);
  });
}

// Sizes as models have them, which libraries and tensor cores take.
constexpr ProductSizes kEights = {.grain = 8, .max_in = 100, .max_out = 43};

TEST_P(ConformanceTest, LinearOfMultiplesOfEight) {
  ForSeeds(80, [](TestDevice& device, RandomSource& random) {
    const Product product(device, random, kEights);
    device.backend().Linear(device.queue(), product.args);
    ExpectProducts(device, product);
  });
}

TEST_P(ConformanceTest, LinearOfManyRows) {
  ForSeeds(40, [](TestDevice& device, RandomSource& random) {
    ProductSizes sizes = kEights;
    sizes.min_rows = 17;
    sizes.max_rows = 70;
    const Product product(device, random, sizes);
    device.backend().Linear(device.queue(), product.args);
    ExpectProducts(device, product);
  });
}

// More outputs than the device takes in at a time.
TEST_P(ConformanceTest, LinearOfManyOutputs) {
  ForSeeds(5, [](TestDevice& device, RandomSource& random) {
    const Product product(device, random,
                          {.grain = 8,
                           .min_rows = 1,
                           .max_rows = 64,
                           .max_in = 30,
                           .min_out = 1000,
                           .max_out = 2600});
    device.backend().Linear(device.queue(), product.args);
    ExpectProducts(device, product);
  });
}

// A product with the ops around it, and memory for their answers in turn.
struct SurroundedProduct {
  std::vector<LinearPart> parts;
  LinearArgs args;

  SurroundedProduct(TestDevice& device, RandomSource& random) {
    const Dtype dtype = AnyFloat(random);
    // Mostly few rows, of numbers that are enough to be summed by a block.
    const int64_t num_rows =
        random.Between(0, random.Chance(0.6) ? 4 : random.Among({19, 66}));
    const int64_t num_in = 8 * random.Between(1, random.Chance(0.7) ? 250 : 40);
    const auto gap = [&] { return 8 * random.Between(0, 3); };
    const bool gates = random.Chance(0.6);
    const bool norms = !gates || random.Chance(0.7);
    args.x = norms ? device.Output(dtype, {num_rows, num_in}, gap())
                   : device.Upload(
                         RandomArray(dtype, {num_rows, num_in}, random), gap());
    if (norms) {
      const Dtype of_weight = random.Chance(0.8) ? dtype : AnyFloat(random);
      args.norm = RmsNormArgs{
          .x = device.Upload(
              RandomArray(Dtype::kFloat32, {num_rows, num_in}, random), gap()),
          .weight = device.Upload(RandomArray(of_weight, {num_in}, random)),
          .epsilon = random.Chance(0.5) ? 1e-5f : 0.1f,
          .out = args.x};
    }
    const int64_t num_out = random.Between(1, random.Chance(0.8) ? 60 : 400);
    const int64_t num_parts = gates ? 2 : random.Between(1, 2);
    // One weight and the next; a joined product has them as one matrix.
    const bool joined = random.Chance(0.5);
    const int64_t between = joined || random.Chance(0.5) ? 0 : 8;
    const WeightMatrix weights = DenseMatrix(device.Upload(
        RandomArray(dtype, {num_parts * num_out + between, num_in}, random)));
    const View outs = device.Output(dtype, {num_rows, num_parts * num_out});
    const View biases =
        random.Chance(0.3)
            ? device.Upload(RandomArray(dtype, {num_parts * num_out}, random))
            : View{};
    const int64_t width = joined ? num_parts * num_out : num_out;
    for (int64_t first = 0; first < num_parts * num_out; first += width) {
      const int64_t row = first == 0 ? 0 : first + between;
      parts.push_back(
          {.weight = weights.Rows(row, width),
           .bias = biases.empty() ? View{} : biases.Slice(first, width),
           .out = outs.Columns(first, width)});
    }
    args.parts = parts;
    args.scale = random.Chance(0.7) ? 1.0f : 0.25f;
    args.batch_invariant = random.Chance(0.2);
    if (!gates) return;
    args.gated_act = GatedActArgs{
        .activation = random.Among(
            {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}),
        .gate = outs.Columns(0, num_out),
        .up = outs.Columns(num_out, num_out),
        .out = random.Chance(0.5)
                   ? outs.Columns(0, num_out)
                   : device.Output(dtype, {num_rows, num_out}, gap())};
  }
};

// The answers of the ops around a product are theirs in turn, to the bit.
TEST_P(ConformanceTest, LinearNormsAndGatesAsTheOpsInTurn) {
  ForSeeds(150, [](TestDevice& device, RandomSource& random) {
    const SurroundedProduct product(device, random);
    const LinearArgs& args = product.args;
    const auto answers = [&] {
      std::vector<TestArray> all;
      // Columns of one array have other columns between their rows.
      const auto take = [&](const View& view) {
        for (int64_t row = 0; row < view.dim(0); ++row) {
          View one = view.Slice(row, 1);
          one.stride[0] = one.dim(1);
          all.push_back(device.Download(one));
        }
      };
      take(args.x);
      if (args.gated_act) {
        take(args.gated_act->out);
      } else {
        for (const LinearPart& part : args.parts) take(part.out);
      }
      return all;
    };
    device.backend().Linear(device.queue(), args);
    const std::vector<TestArray> together = answers();
    LinearArgs alone = args;
    alone.norm.reset();
    alone.gated_act.reset();
    if (args.norm) device.backend().RmsNorm(device.queue(), *args.norm);
    device.backend().Linear(device.queue(), alone);
    if (args.gated_act)
      device.backend().GatedAct(device.queue(), *args.gated_act);
    const std::vector<TestArray> in_turn = answers();
    for (size_t i = 0; i < together.size(); ++i) {
      ASSERT_EQ(together[i].values, in_turn[i].values)
          << "row " << i << " of x " << ToString(args.x) << " parts "
          << args.parts.size() << " of " << ToString(args.parts[0].weight);
    }
  });
}

TEST_P(ConformanceTest, ABatchInvariantProductIsARowAtATime) {
  ForSeeds(40, [](TestDevice& device, RandomSource& random) {
    Product product(device, random);
    product.args.batch_invariant = true;
    if (!product.args.residual.empty()) {
      // Out of place, so that the product can be run again.
      product.parts[0].out = device.Output(
          Dtype::kFloat32, {product.x.dim(0), product.parts[0].weight.rows});
    }
    device.backend().Linear(device.queue(), product.args);
    for (int64_t row = 0; row < product.x.dim(0); ++row) {
      std::vector<LinearPart> alone = product.parts;
      LinearArgs args = product.args;
      args.x = args.x.Slice(row, 1);
      if (!args.residual.empty()) args.residual = args.residual.Slice(row, 1);
      for (LinearPart& part : alone) {
        part.out = device.Output(part.out.dtype, {1, part.out.dim(1)});
      }
      args.parts = alone;
      device.backend().Linear(device.queue(), args);
      for (size_t p = 0; p < alone.size(); ++p) {
        View in_batch = product.parts[p].out.Slice(row, 1);
        in_batch.stride[0] = in_batch.dim(1);  // one row: no gap to check
        ASSERT_EQ(device.Download(alone[p].out).values,
                  device.Download(in_batch).values)
            << "row=" << row << " part=" << p;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
