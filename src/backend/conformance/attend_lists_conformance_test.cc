// The conformance suite, of Attend over lists: against softmax attention over
// their tokens in float64, and the bits that must not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/conformance/attend_result.h"
#include "backend/conformance/attention_oracle.h"
#include "backend/conformance/random_lists.h"
#include "backend/conformance/seeded_test.h"

namespace winnow {
namespace {

// One Attend of lists.
struct ListsCase {
  PagedCase paged;
  TestArray q;  // [rows, q_heads, k_dim]
  ListsOfRows lists;
  int window = 0;
  float scale = 0;

  ListsCase(const KvShape& shape, std::vector<RequestRows> requests,
            RandomSource& random)
      : paged(shape, std::move(requests), random),
        q(RandomArray(shape.dtype,
                      {paged.num_rows(), shape.num_q_heads(), shape.k_dim},
                      random)),
        lists(RandomLists(shape, paged.requests(), 0.5, random)),
        // Twice the usual scale, so that some keys stand out.
        scale(2.0f / std::sqrt(static_cast<float>(shape.k_dim))) {}
};

// Rows that are generated far into their requests, so that lists have many
// picks.
ListsCase RandomListsCase(RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  if (random.Chance(0.3)) {  // what tensor cores take
    shape.dtype = Dtype::kBFloat16;
    shape.k_dim = shape.v_dim = random.Among({64, 96, 128});
  }
  std::vector<RequestRows> requests;
  for (int64_t i = random.Between(1, 3); i > 0; --i) {
    requests.push_back({static_cast<int32_t>(random.Between(0, 3000)),
                        random.Among({1, 1, 3}), 0});
  }
  ListsCase of(shape, std::move(requests), random);
  if (random.Chance(0.2)) of.window = random.Among({1, 40, 129, 1000});
  return of;
}

// Reads rows [first, end) of the step that `requests` are.
AttendResult RunAttend(TestDevice& device, const ListsCase& of,
                       const std::vector<RequestRows>& requests, int64_t first,
                       int64_t end) {
  std::vector<int> num_tokens;
  for (const RequestRows& request : of.paged.requests()) {
    num_tokens.push_back(request.end_position());
  }
  const View pool = device.UploadBytes(of.paged.PoolImage(num_tokens));
  ListsOfRows lists;
  lists.rows.assign(of.lists.rows.begin() + first, of.lists.rows.begin() + end);
  AttendSource source = {
      .kind = AttendSource::Kind::kPicks,
      .picks = lists.Upload(device, 0, end - first, of.q.dim(1))};
  AttendArgs args;
  args.q = device.Upload(RowsOf(of.q, first, end));
  args.sources = {&source, 1};
  args.scale = of.scale;
  args.out = device.Output(of.q.dtype,
                           {end - first, of.q.dim(1), of.paged.shape().v_dim});
  args.lse = device.Output(Dtype::kFloat32, {end - first, of.q.dim(1)});
  device.backend().Attend(device.queue(),
                          of.paged.Step(device, requests, of.window), args,
                          of.paged.Cache(device, pool));
  return {device.Download(args.out), device.Download(args.lse)};
}

AttendResult RunAttend(TestDevice& device, const ListsCase& of) {
  return RunAttend(device, of, of.paged.requests(), 0, of.paged.num_rows());
}

// What q head `head` of a row reads, of what the row may see.
std::vector<int64_t> TokensRead(const ListsCase& of, int64_t row,
                                int64_t position, int head) {
  const auto& lists = of.lists.rows[static_cast<size_t>(row)].lists;
  const int64_t first =
      of.window > 0 ? std::max<int64_t>(0, position - of.window + 1) : 0;
  std::vector<int64_t> tokens;
  if (lists.empty()) {
    for (int64_t t = first; t <= position; ++t) tokens.push_back(t);
    return tokens;
  }
  const int64_t list = head * std::ssize(lists) / of.q.dim(1);
  for (const Pick& pick : lists[static_cast<size_t>(list)]) {
    for (int t = 0; t < kPageTokens; ++t) {
      const int64_t token = int64_t{pick.page} * kPageTokens + t;
      if ((pick.tokens >> t & 1) != 0 && token >= first && token <= position) {
        tokens.push_back(token);
      }
    }
  }
  return tokens;
}

void ExpectAttention(const ListsCase& of, const AttendResult& got) {
  const KvShape& shape = of.paged.shape();
  AttentionCloseness close(shape.dtype, got.out, got.lse);
  int64_t row = 0;
  for (size_t r = 0; r < of.paged.requests().size(); ++r) {
    const RequestRows& rows = of.paged.requests()[r];
    for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
      for (int head = 0; head < shape.num_q_heads(); ++head) {
        close.Expect(
            row, head,
            Attend(of.paged, r, head / shape.group_heads,
                   of.q.numbers(row, head), double{of.scale},
                   TokensRead(of, row, rows.first_position + t, head)));
      }
    }
  }
}

class AttendListsConformanceTest : public SeededTest {};

TEST_P(AttendListsConformanceTest, IsSoftmaxAttentionOfPicks) {
  ForSeeds(40, [this](RandomSource& random, int num_threads) {
    const ListsCase of = RandomListsCase(random);
    TestDevice device = Device(num_threads);
    ExpectAttention(of, RunAttend(device, of));
  });
}

// Nor on what else is read, and so on who reads how much of a list.
TEST_P(AttendListsConformanceTest, BitsDoNotDependOnThreadsAndBatch) {
  ForSeeds(20, [this](RandomSource& random, int) {
    const ListsCase of = RandomListsCase(random);
    TestDevice one = Device(1);
    const AttendResult expected = RunAttend(one, of);
    TestDevice many = Device(5);
    ExpectSame(RunAttend(many, of), expected);
    int64_t row = 0;
    for (size_t r = 0; r < of.paged.requests().size(); ++r) {
      const RequestRows& rows = of.paged.requests()[r];
      for (int32_t t = 0; t < rows.num_tokens; ++t, ++row) {
        std::vector<RequestRows> alone(of.paged.requests().size());
        alone[r] = {rows.first_position + t, 1, 0};
        ExpectSame(RunAttend(many, of, alone, row, row + 1),
                   {RowsOf(expected.out, row, row + 1),
                    RowsOf(expected.lse, row, row + 1)});
      }
    }
  });
}

// More than a group of a CPU's units of scattered picks, of which a backend may
// hand out units or groups, as threads and rows go.
TEST_P(AttendListsConformanceTest, BitsDoNotDependOnTheWorkAtHand) {
  RandomSource random(1);
  KvShape shape;
  shape.dtype = Dtype::kBFloat16;
  shape.group_heads = 2;
  shape.v_dim = 128;
  for (const int32_t num_rows : {12, 40}) {
    const auto position = static_cast<int32_t>(random.Between(25000, 26000));
    ListsCase of(shape, {{position, num_rows, 0}}, random);
    for (int32_t t = 0; t < num_rows; ++t) {
      auto& lists = of.lists.rows[static_cast<size_t>(t)].lists;
      lists = {RandomScatteredList(position + t, random)};
      ASSERT_GT(lists[0].size(), kGroupUnits * 16);
    }
    TestDevice one = Device(1);
    const AttendResult expected = RunAttend(one, of);
    if (num_rows == 12) ExpectAttention(of, expected);
    for (const int num_threads : {2, 5}) {
      TestDevice device = Device(num_threads);
      ExpectSame(RunAttend(device, of), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttendListsConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
