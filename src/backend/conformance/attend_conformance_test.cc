// The conformance suite, part three: Attend against softmax attention in
// float64, and the bits that must not change (docs/design.md section 5).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "backend/conformance/attend_result.h"
#include "backend/conformance/attention_oracle.h"
#include "backend/conformance/closeness.h"
#include "backend/conformance/paged_case.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

// One Attend: the case, the queries, and how it is asked for.
struct AttendCase {
  PagedCase paged;
  TestArray q;  // [rows, q_heads, k_dim]
  Dtype out = Dtype::kFloat32;
  int window = 0;
  bool attends_prefill_rows = true;
  bool attends_decode_rows = true;
  bool batch_invariant = false;
  float scale = 0;

  AttendCase(const KvShape& shape, std::vector<RequestRows> requests,
             RandomSource& random)
      : paged(shape, std::move(requests), random) {
    q = RandomArray(shape.dtype,
                    {paged.num_rows(), shape.num_q_heads(), shape.k_dim},
                    random);
    out = shape.dtype;
    // Twice the usual scale, so that some keys stand out.
    scale = 2.0f / std::sqrt(static_cast<float>(shape.k_dim));
  }
};

AttendCase RandomAttendCase(RandomSource& random, int max_position) {
  const KvShape shape = RandomKvShape(random);
  AttendCase read(shape, RandomRequests(random, max_position), random);
  if (random.Chance(0.2)) {
    const TestArray wide = RandomArray(Dtype::kFloat32, read.q.shape, random);
    read.q = wide;
  }
  if (random.Chance(0.2)) read.out = Dtype::kFloat32;
  if (random.Chance(0.4)) {
    read.window = random.Among({1, 2, 32, 100, 128, 129, 1000, 5000});
  }
  read.batch_invariant = random.Chance(0.5);
  return read;
}

// Runs the rows that `rows` names; `q` holds theirs.
AttendResult RunAttend(TestDevice& device, const AttendCase& read,
                       const std::vector<RequestRows>& rows, const TestArray& q,
                       int64_t gap) {
  std::vector<int> num_tokens;
  for (const RequestRows& request : rows) {
    num_tokens.push_back(request.end_position());
  }
  const View pool = device.UploadBytes(read.paged.PoolImage(num_tokens));
  const AttendSource all_pages;
  AttendArgs args;
  args.q = device.Upload(q, gap);
  args.sources = {&all_pages, 1};
  args.scale = read.scale;
  args.batch_invariant = read.batch_invariant;
  args.out = device.Output(read.out,
                           {q.dim(0), q.dim(1), read.paged.shape().v_dim}, gap);
  args.lse = device.Output(Dtype::kFloat32, {q.dim(0), q.dim(1)}, gap);
  LayerStep step = read.paged.Step(device, rows, read.window);
  step.has_prefill_rows = read.attends_prefill_rows;
  step.has_decode_rows = read.attends_decode_rows;
  device.backend().Attend(device.queue(), step, args,
                          read.paged.Cache(device, pool));
  return {device.Download(args.out), device.Download(args.lse)};
}

AttendResult RunAttend(TestDevice& device, const AttendCase& read) {
  return RunAttend(device, read, read.paged.requests(), read.q, 0);
}

// Of a row and q head, over all that the row may see.
Attention AttendAll(const AttendCase& read, size_t request, int64_t position,
                    int64_t row, int head) {
  const int64_t first =
      read.window > 0 ? std::max<int64_t>(0, position - read.window + 1) : 0;
  std::vector<int64_t> tokens(static_cast<size_t>(position + 1 - first));
  std::iota(tokens.begin(), tokens.end(), first);
  return Attend(read.paged, request, head / read.paged.shape().group_heads,
                read.q.numbers(row, head), double{read.scale}, tokens);
}

void ExpectAttention(const AttendCase& read, const AttendResult& got) {
  const KvShape& shape = read.paged.shape();
  AttentionCloseness close(shape.dtype, got.out, got.lse);
  int64_t row = 0;
  for (size_t r = 0; r < read.paged.requests().size(); ++r) {
    const RequestRows& rows = read.paged.requests()[r];
    for (int t = 0; t < rows.num_tokens; ++t, ++row) {
      for (int head = 0; head < shape.num_q_heads(); ++head) {
        close.Expect(row, head,
                     AttendAll(read, r, rows.first_position + t, row, head));
      }
    }
  }
}

class AttendConformanceTest : public SeededTest {};

TEST_P(AttendConformanceTest, IsSoftmaxAttention) {
  ForSeeds(100, [this](RandomSource& random, int num_threads) {
    const AttendCase read = RandomAttendCase(random, 600);
    TestDevice device = Device(num_threads);
    ExpectAttention(read, RunAttend(device, read, read.paged.requests(), read.q,
                                    random.Between(0, 7)));
  });
}

// Past 4,096 tokens a row has more than one group of units.
TEST_P(AttendConformanceTest, IsSoftmaxAttentionOverManyGroups) {
  ForSeeds(6, [this](RandomSource& random, int num_threads) {
    KvShape shape;
    shape.dtype =
        random.Among({Dtype::kFloat32, Dtype::kBFloat16, Dtype::kFloat16});
    shape.num_kv_heads = static_cast<int>(random.Between(1, 3));
    shape.group_heads = 2;
    shape.k_dim = shape.v_dim = 32;
    const auto position = static_cast<int32_t>(random.Between(4000, 13000));
    AttendCase read(shape, {{position, 3, 1}, {4095, 2, 0}}, random);
    if (random.Chance(0.5)) read.window = 5000;
    TestDevice device = Device(num_threads);
    ExpectAttention(read, RunAttend(device, read));
  });
}

// One key so much greater than the rest that their weights vanish, early or
// late, and scores that an exponential without a maximum would not survive.
TEST_P(AttendConformanceTest, SurvivesGreatScores) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    AttendCase read = RandomAttendCase(random, 600);
    read.scale = 60.0f;
    TestDevice device = Device(num_threads);
    const AttendResult got = RunAttend(device, read);
    for (const double value : got.out.values) ASSERT_TRUE(std::isfinite(value));
    for (const double value : got.lse.values) ASSERT_TRUE(std::isfinite(value));
  });
}

// Of as many rows and KV heads as are read together.
TEST_P(AttendConformanceTest, HasRoomForTheGreatestHeads) {
  RandomSource random(1);
  KvShape shape;
  shape.num_kv_heads = 8;
  shape.group_heads = 16;
  shape.k_dim = shape.v_dim = 1024;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBFloat16}) {
    shape.dtype = dtype;
    AttendCase read(shape, {{40, 3, 0}, {33, 2, 0}}, random);
    TestDevice device = Device(1);
    ExpectAttention(read, RunAttend(device, read));
    if (dtype == Dtype::kFloat32) continue;
    read.q = RandomArray(Dtype::kFloat32, read.q.shape, random);
    ExpectAttention(read, RunAttend(device, read));
  }
}

TEST_P(AttendConformanceTest, BitsDoNotDependOnThreads) {
  ForSeeds(15, [this](RandomSource& random, int) {
    const AttendCase read = RandomAttendCase(random, 5000);
    TestDevice one = Device(1);
    const AttendResult expected = RunAttend(one, read);
    for (const int num_threads : {2, 5}) {
      TestDevice device = Device(num_threads);
      ExpectSame(RunAttend(device, read), expected);
    }
  });
}

TEST_P(AttendConformanceTest, BitsDoNotDependOnKvBlocks) {
  ForSeeds(15, [this](RandomSource& random, int num_threads) {
    AttendCase read = RandomAttendCase(random, 5000);
    TestDevice device = Device(num_threads);
    const AttendResult expected = RunAttend(device, read);
    for (int round = 0; round < 2; ++round) {
      read.paged.Shuffle(random);
      ExpectSame(RunAttend(device, read), expected);
    }
  });
}

// Two groups of units and more, whose states fill a small workspace more than
// once; a backend may hand out units or groups, as threads and rows go.
TEST_P(AttendConformanceTest, BitsDoNotDependOnTheWorkAtHand) {
  RandomSource random(1);
  constexpr std::pair<int32_t, Dtype> kSteps[] = {{12, Dtype::kBFloat16},
                                                  {40, Dtype::kBFloat16},
                                                  {40, Dtype::kFloat32},
                                                  {12, Dtype::kFloat16}};
  for (const auto& [num_rows, dtype] : kSteps) {
    KvShape shape;
    shape.dtype = dtype;
    shape.num_kv_heads = 2;
    shape.group_heads = 4;
    shape.v_dim = 128;
    const auto position = static_cast<int32_t>(random.Between(4200, 6000));
    const AttendCase read(shape, {{position, num_rows, 0}}, random);
    TestDevice one = Device(1);
    const AttendResult expected = RunAttend(one, read);
    for (const int num_threads : {2, 5}) {
      TestDevice device = Device(num_threads);
      ExpectSame(RunAttend(device, read), expected);
    }
  }
}

TEST_P(AttendConformanceTest, BitsDoNotDependOnTheBatch) {
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    AttendCase read = RandomAttendCase(random, 5000);
    read.batch_invariant = true;
    TestDevice device = Device(num_threads);
    const AttendResult expected = RunAttend(device, read);
    int64_t row = 0;
    for (size_t r = 0; r < read.paged.requests().size(); ++r) {
      std::vector<RequestRows> alone(read.paged.requests().size());
      alone[r] = read.paged.requests()[r];
      const int64_t end = row + alone[r].num_tokens;
      ExpectSame(
          RunAttend(device, read, alone, RowsOf(read.q, row, end), 0),
          {RowsOf(expected.out, row, end), RowsOf(expected.lse, row, end)});
      row = end;
    }
  });
}

// More groups of units than a device has blocks, which then take whole ones; of
// a row alone they may share units.
TEST_P(AttendConformanceTest, BitsOfManyRowsAreThoseOfEach) {
  RandomSource random(1);
  KvShape shape;
  shape.dtype = Dtype::kBFloat16;
  shape.k_dim = shape.v_dim = 128;
  shape.num_kv_heads = 3;
  shape.group_heads = 2;
  constexpr int kShort = 60, kLong = 46;
  for (const std::vector<RequestRows>& requests :
       {std::vector<RequestRows>(5, {20, kShort, 0}),
        std::vector<RequestRows>(1, {4100, kLong, 0})}) {
    AttendCase read(shape, requests, random);
    TestDevice device = Device(1);
    const AttendResult all = RunAttend(device, read);
    int64_t row = 0;
    for (size_t r = 0; r < requests.size(); ++r) {
      const RequestRows& rows = requests[r];
      for (const int32_t t : {0, 7, rows.num_tokens - 1}) {
        std::vector<RequestRows> alone(requests.size());
        alone[r] = {rows.first_position + t, 1, 0};
        const int64_t begin = row + t;
        ExpectSame(
            RunAttend(device, read, alone, RowsOf(read.q, begin, begin + 1), 0),
            {RowsOf(all.out, begin, begin + 1),
             RowsOf(all.lse, begin, begin + 1)});
      }
      row += rows.num_tokens;
    }
  }
}

// The shapes that tensor cores take, which random ones seldom are: generated
// rows of several requests, their bits those of each request alone.
TEST_P(AttendConformanceTest, IsSoftmaxAttentionOfTensorCoreShapes) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    KvShape shape;
    shape.dtype = Dtype::kBFloat16;
    shape.k_dim = shape.v_dim = random.Among({64, 96, 128});
    shape.num_kv_heads = static_cast<int>(random.Between(1, 3));
    shape.group_heads = static_cast<int>(random.Among({1, 3, 4, 8, 11, 16}));
    std::vector<RequestRows> requests(
        static_cast<size_t>(random.Between(1, 4)));
    for (RequestRows& request : requests) {
      request.first_position = static_cast<int32_t>(random.Between(0, 900));
      request.num_tokens = static_cast<int32_t>(random.Between(1, 2));
    }
    AttendCase read(shape, requests, random);
    if (random.Chance(0.3)) read.window = random.Among({1, 40, 128, 300});
    TestDevice device = Device(num_threads);
    const AttendResult got = RunAttend(device, read);
    ExpectAttention(read, got);
    int64_t row = 0;
    for (size_t r = 0; r < requests.size(); ++r) {
      std::vector<RequestRows> alone(requests.size());
      alone[r] = requests[r];
      const int64_t end = row + alone[r].num_tokens;
      ExpectSame(RunAttend(device, read, alone, RowsOf(read.q, row, end), 0),
                 {RowsOf(got.out, row, end), RowsOf(got.lse, row, end)});
      row = end;
    }
  });
}

// A few prefill rows behind many keys, which a device may have several blocks
// read: of one request or of several, some with too few keys for that.
TEST_P(AttendConformanceTest, IsSoftmaxAttentionOfFewRowsFarIntoTheirPrompts) {
  const bool is_slow = GetParam().seed_step > 1;
  ForSeeds(8, [this, is_slow](RandomSource& random, int num_threads) {
    KvShape shape;
    shape.dtype = Dtype::kBFloat16;
    shape.k_dim = shape.v_dim = random.Among({64, 96, 128});
    shape.num_kv_heads = static_cast<int>(random.Between(1, is_slow ? 2 : 3));
    shape.group_heads = static_cast<int>(random.Among({1, 3, 4, 8}));
    std::vector<RequestRows> requests(
        static_cast<size_t>(random.Between(1, 3)));
    for (RequestRows& request : requests) {
      const bool far = random.Chance(0.8);
      request.first_position =
          static_cast<int32_t>(random.Between(0, far ? 14000 : 300));
      request.num_tokens =
          static_cast<int32_t>(random.Between(1, is_slow ? 24 : 40));
      request.num_prefill_rows =
          random.Chance(0.8) ? request.num_tokens : request.num_tokens / 2;
    }
    AttendCase read(shape, requests, random);
    if (random.Chance(0.2)) read.window = random.Among({128, 300, 7000});
    TestDevice device = Device(num_threads);
    const AttendResult got = RunAttend(device, read);
    ExpectAttention(read, got);
    read.paged.Shuffle(random);
    ExpectSame(RunAttend(device, read), got);
  });
}

// A request's rows in one step, or in several: each later step finds what the
// earlier ones wrote, and poison behind its own end. Rows keep their kind.
TEST_P(AttendConformanceTest, BitsDoNotDependOnChunks) {
  ForSeeds(30, [this](RandomSource& random, int num_threads) {
    const auto chunk = static_cast<int32_t>(random.Among({1, 7, 64, 100}));
    const auto num_tokens =
        static_cast<int32_t>(random.Between(1, chunk == 1 ? 30 : 200));
    const auto start = static_cast<int32_t>(random.Among({0, 5, 128, 200}));
    const auto prompt = static_cast<int32_t>(random.Between(0, num_tokens));
    AttendCase read(RandomKvShape(random), {{start, num_tokens, prompt}},
                    random);
    if (random.Chance(0.4)) read.window = random.Among({1, 40, 128, 200});
    read.batch_invariant = true;
    TestDevice device = Device(num_threads);
    const AttendResult expected = RunAttend(device, read);
    for (int32_t row = 0; row < num_tokens; row += chunk) {
      const int32_t end = std::min(num_tokens, row + chunk);
      const RequestRows rows = {start + row, end - row,
                                std::clamp(prompt - row, 0, end - row)};
      ExpectSame(
          RunAttend(device, read, {rows}, RowsOf(read.q, row, end), 0),
          {RowsOf(expected.out, row, end), RowsOf(expected.lse, row, end)});
    }
  });
}

TEST_P(AttendConformanceTest, RowsOfAKindThatIsOffAreLeftAlone) {
  ForSeeds(20, [this](RandomSource& random, int num_threads) {
    AttendCase read = RandomAttendCase(random, 3000);
    TestDevice device = Device(num_threads);
    const AttendResult expected = RunAttend(device, read);
    for (const bool prompt : {true, false}) {
      read.attends_prefill_rows = prompt;
      read.attends_decode_rows = !prompt;
      const AttendResult got = RunAttend(device, read);
      int64_t row = 0;
      for (const RequestRows& request : read.paged.requests()) {
        for (int t = 0; t < request.num_tokens; ++t, ++row) {
          const double lse = got.lse.at(row, 0);
          if ((t < request.num_prefill_rows) == prompt) {
            ASSERT_EQ(lse, expected.lse.at(row, 0)) << "row=" << row;
            ASSERT_EQ(got.out.at(row, 0, 0), expected.out.at(row, 0, 0));
          } else {
            ASSERT_TRUE(std::isnan(lse)) << "row=" << row << " lse=" << lse;
            ASSERT_TRUE(std::isnan(got.out.at(row, 0, 0))) << "row=" << row;
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, AttendConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
