// The conformance suite, part two: rotary angles, and the ops that write and
// copy pages. Each against a float64 reference written here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/conformance/backend_under_test.h"
#include "backend/conformance/closeness.h"
#include "backend/conformance/paged_case.h"

namespace winnow {
namespace {

class PagedConformanceTest : public testing::TestWithParam<BackendUnderTest> {
 protected:
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

std::vector<int> EndsOf(const std::vector<RequestRows>& requests) {
  std::vector<int> ends;
  for (const RequestRows& rows : requests) ends.push_back(rows.end_position());
  return ends;
}

std::vector<int> StartsOf(const std::vector<RequestRows>& requests) {
  std::vector<int> starts;
  for (const RequestRows& rows : requests) {
    starts.push_back(rows.first_position);
  }
  return starts;
}

TEST_P(PagedConformanceTest, RotaryAnglesFollowPositionAndRequest) {
  ForSeeds(40, [](TestDevice& device, RandomSource& random) {
    const std::vector<RequestRows> requests = RandomRequests(random, 130000);
    KvShape shape;  // of no interest here
    shape.k_dim = shape.v_dim = 1;
    const PagedCase paged(shape, requests, random);
    const auto num_requests = std::ssize(requests);
    const int64_t half = random.Between(1, 64);
    TestArray frequencies =
        RandomArray(Dtype::kFloat32, {num_requests, half}, random);
    const TestArray scale =
        RandomArray(Dtype::kFloat32, {num_requests}, random);
    RotaryAnglesArgs args;
    args.inverse_frequencies = device.Upload(frequencies, 2);
    args.scale = device.Upload(scale);
    args.out = device.Output(Dtype::kFloat32, {paged.num_rows(), 2 * half}, 5);
    const LayerStep step = paged.Step(device, requests, 0);
    device.backend().RotaryAngles(device.queue(), step, args);
    Closeness close(device.Download(args.out), Arithmetic::kElementwise);
    int64_t row = 0;
    for (int64_t r = 0; r < num_requests; ++r) {
      const auto& rows = requests[static_cast<size_t>(r)];
      for (int t = 0; t < rows.num_tokens; ++t, ++row) {
        for (int64_t i = 0; i < half; ++i) {
          const auto frequency = static_cast<float>(frequencies.at(r, i));
          const float angle =
              static_cast<float>(rows.first_position + t) * frequency;
          const double factor = scale.values[static_cast<size_t>(r)];
          const double size = std::abs(factor);
          close.Expect({row, i}, std::cos(double{angle}) * factor, size);
          close.Expect({row, half + i}, std::sin(double{angle}) * factor, size);
        }
      }
    }
  });
}

// x rotated by the cosines and sines of its row, in float64.
double Rotated(const TestArray& x, const TestArray& cos_sin, int64_t row,
               int64_t head, int64_t i) {
  const int64_t half = cos_sin.dim(1) / 2;
  if (i >= 2 * half) return x.at(row, head, i);
  const bool first = i < half;
  const double other = x.at(row, head, first ? i + half : i - half);
  const double cosine = cos_sin.at(row, i % half);
  const double sine = cos_sin.at(row, half + i % half);
  return x.at(row, head, i) * cosine + (first ? -other : other) * sine;
}

// What an Append of one case takes, on the host.
struct AppendInputs {
  TestArray q, k, v, cos_sin;

  AppendInputs(const PagedCase& paged, Dtype dtype, RandomSource& random) {
    const KvShape& shape = paged.shape();
    const int64_t rows = paged.num_rows();
    q = RandomArray(dtype, {rows, shape.num_q_heads(), shape.k_dim}, random);
    k = RandomArray(dtype, {rows, shape.num_kv_heads, shape.k_dim}, random);
    v = RandomArray(dtype, {rows, shape.num_kv_heads, shape.v_dim}, random);
    const int64_t rotary =
        random.Chance(0.8)
            ? shape.k_dim
            : 2 * random.Between(1, std::min(shape.k_dim / 2, 16));
    cos_sin = RandomArray(Dtype::kFloat32, {rows, rotary}, random);
  }
};

// Compares the pool after an Append with the one before: what was appended is
// near its reference, and no other byte has changed.
void ExpectAppended(const PagedCase& paged, const AppendInputs& inputs,
                    std::vector<std::byte> before,
                    const std::vector<std::byte>& after) {
  const KvShape& shape = paged.shape();
  const auto bytes = static_cast<size_t>(DtypeBytes(shape.dtype));
  TestArray got_k(shape.dtype, inputs.k.shape);
  TestArray got_v(shape.dtype, inputs.v.shape);
  const auto take = [&](size_t offset, int64_t size, double* to) {
    for (int64_t i = 0; i < size; ++i, offset += bytes) {
      to[i] = LoadElement(shape.dtype, after.data() + offset);
    }
    std::memcpy(before.data() + offset - static_cast<size_t>(size) * bytes,
                after.data() + offset - static_cast<size_t>(size) * bytes,
                static_cast<size_t>(size) * bytes);
  };
  double* next_k = got_k.values.data();
  double* next_v = got_v.values.data();
  for (size_t r = 0; r < paged.requests().size(); ++r) {
    const RequestRows& rows = paged.requests()[r];
    for (int t = rows.first_position; t < rows.end_position(); ++t) {
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        take(paged.KeyOffset(r, t, head), shape.k_dim, next_k);
        take(paged.ValueOffset(r, t, head), shape.v_dim, next_v);
        next_k += shape.k_dim;
        next_v += shape.v_dim;
      }
    }
  }
  EXPECT_TRUE(before == after) << "bytes of other tokens have changed";
  Closeness close_k(got_k, Arithmetic::kElementwise);
  Closeness close_v(got_v, Arithmetic::kElementwise);
  for (int64_t row = 0; row < inputs.k.dim(0); ++row) {
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      for (int i = 0; i < shape.k_dim; ++i) {
        close_k.Expect({row, head, i},
                       Rotated(inputs.k, inputs.cos_sin, row, head, i), 10);
      }
      for (int i = 0; i < shape.v_dim; ++i) {
        close_v.Expect({row, head, i}, inputs.v.at(row, head, i), 0);
      }
    }
  }
}

TEST_P(PagedConformanceTest, AppendRotatesAndWritesItsTokensAlone) {
  ForSeeds(160, [](TestDevice& device, RandomSource& random) {
    const KvShape shape = RandomKvShape(random);
    const PagedCase paged(shape, RandomRequests(random, 400), random);
    const AppendInputs inputs(
        paged, random.Chance(0.5) ? shape.dtype : Dtype::kFloat32, random);
    const std::vector<std::byte> before =
        paged.PoolImage(StartsOf(paged.requests()));
    const View pool = device.UploadBytes(before);
    TokenInputs args;
    // Heads that whole pieces of 16 bytes fill, or do not.
    const int64_t grain = random.Among({1, 8, 8});
    const auto gap = [&] { return grain * random.Between(0, 5); };
    args.q = device.Upload(inputs.q, gap());
    args.k = device.Upload(inputs.k, gap());
    args.v = device.Upload(inputs.v, gap());
    args.cos_sin = device.Upload(inputs.cos_sin, gap());
    const bool keeps_q = random.Chance(0.5);
    if (keeps_q) {
      args.q_pre = device.Output(inputs.q.dtype, inputs.q.shape, 3 * grain);
    }
    const LayerStep step = paged.Step(device, paged.requests(), 0);
    device.backend().Append(device.queue(), step, args,
                            paged.Cache(device, pool));
    ExpectAppended(paged, inputs, before, device.DownloadBytes(pool));
    if (keeps_q) {
      EXPECT_EQ(device.Download(args.q_pre).values, inputs.q.values);
    }
    EXPECT_EQ(device.Download(args.k).values, inputs.k.values);
    Closeness close_q(device.Download(args.q), Arithmetic::kElementwise);
    for (int64_t row = 0; row < inputs.q.dim(0); ++row) {
      for (int64_t head = 0; head < inputs.q.dim(1); ++head) {
        for (int64_t i = 0; i < shape.k_dim; ++i) {
          close_q.Expect({row, head, i},
                         Rotated(inputs.q, inputs.cos_sin, row, head, i), 10);
        }
      }
    }
  });
}

TEST_P(PagedConformanceTest, MoveCopiesTheTokensThatItIsGiven) {
  ForSeeds(60, [](TestDevice& device, RandomSource& random) {
    const KvShape shape = RandomKvShape(random);
    const auto tokens = static_cast<int32_t>(random.Between(1, 100));
    // The first one's pages over the second one's, and one into the spare.
    const PagedCase paged(shape, {{0, tokens, 0}, {0, tokens, 0}}, random);
    std::vector<PageCopy> copies;
    for (int64_t page = 0; page < PagesFor(tokens); ++page) {
      copies.push_back({.from = KvBlockId(paged.KvBlockOf(0, page)),
                        .to = KvBlockId(paged.KvBlockOf(1, page))});
    }
    copies.push_back(
        {.from = copies.back().from, .to = KvBlockId(paged.spare_kv_block())});
    for (PageCopy& copy : copies) {
      copy.num_tokens = static_cast<int>(random.Between(0, kPageTokens));
    }
    const std::vector<std::byte> before =
        paged.PoolImage(EndsOf(paged.requests()));
    // Two layers with pools of their own.
    const View pools[] = {device.UploadBytes(before),
                          device.UploadBytes(before)};
    const std::vector<LayerCache> layers = {paged.Cache(device, pools[0]),
                                            paged.Cache(device, pools[1])};
    device.backend().CopyPagePrefixes(device.queue(), {layers, copies});

    std::vector<std::byte> expected = before;
    const auto bytes = static_cast<size_t>(DtypeBytes(shape.dtype));
    const auto k_bytes = static_cast<size_t>(shape.k_dim) * bytes;
    const auto v_bytes = static_cast<size_t>(shape.v_dim) * bytes;
    for (const PageCopy& copy : copies) {
      const auto num_tokens = static_cast<size_t>(copy.num_tokens);
      for (int head = 0; head < shape.num_kv_heads; ++head) {
        const size_t from = paged.HeadBlockOffset(copy.from.value(), head);
        const size_t to = paged.HeadBlockOffset(copy.to.value(), head);
        const size_t v_offset = kPageTokens * k_bytes;
        std::memcpy(&expected[to], &before[from], num_tokens * k_bytes);
        std::memcpy(&expected[to + v_offset], &before[from + v_offset],
                    num_tokens * v_bytes);
      }
    }
    for (const View& pool : pools) {
      EXPECT_TRUE(device.DownloadBytes(pool) == expected);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, PagedConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
