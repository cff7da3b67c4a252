// The conformance suite, part five: Fetch against a cache of maps and sorts,
// and Attend of pages that are not whole, whose bits must be those of whole
// ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/conformance/attend_result.h"
#include "backend/conformance/fetch_oracle.h"
#include "backend/conformance/random_lists.h"
#include "backend/conformance/seeded_test.h"
#include "backend/conformance/slot_case.h"
#include "backend/contract/replacement.h"

namespace winnow {
namespace {

struct Positions {
  int64_t first = 0, last = 0;  // both included
};
Positions SeenFrom(int64_t position, int window) {
  return {window > 0 ? std::max<int64_t>(0, position - window + 1) : 0,
          position};
}

// Rows of one request, which stand at `rows` of the step, the first of them at
// `position`.
struct RowsOfRequest {
  const ListsOfRows& lists;
  Positions rows;
  int64_t position = 0;
  int window = 0;
};

// What the contract says is asked for, in its order.
std::vector<FetchOracle::Wanted> WantedBy(const SlotCase& slots, size_t request,
                                          int kv_head,
                                          const RowsOfRequest& of) {
  const auto& [lists, rows, position, window] = of;
  const KvShape& shape = slots.paged().shape();
  const int pieces = slots.pieces_a_page();
  std::vector<FetchOracle::Wanted> wanted;
  const auto want = [&](int64_t page, uint32_t tokens, Positions seen) {
    for (int piece = 0; piece < pieces; ++piece) {
      bool any = false;
      for (int t = piece * (32 / pieces); t < (piece + 1) * (32 / pieces);
           ++t) {
        const int64_t token = page * 32 + t;
        any = any || ((tokens >> t & 1) != 0 && token >= seen.first &&
                      token <= seen.last);
      }
      if (!any) continue;
      wanted.push_back({static_cast<uint32_t>(page * pieces + piece),
                        slots.IsWhole(request, page),
                        slots.Lingers(request, page)});
    }
  };
  std::vector<Positions> all;
  for (int64_t row = rows.first; row <= rows.last; ++row) {
    const Positions seen = SeenFrom(position + row - rows.first, window);
    const auto& of_row = lists.rows[static_cast<size_t>(row)].lists;
    if (of_row.empty()) all.push_back(seen);
    std::set<size_t> served;
    for (int g = 0; g < shape.group_heads && !of_row.empty(); ++g) {
      const auto head = static_cast<size_t>(kv_head * shape.group_heads + g);
      served.insert(head * of_row.size() /
                    static_cast<size_t>(shape.num_q_heads()));
    }
    for (const size_t list : served) {
      for (const Pick& pick : of_row[list]) want(pick.page, pick.tokens, seen);
    }
  }
  if (all.empty()) return wanted;
  for (int64_t page = 0; page * 32 <= all.back().last; ++page) {
    want(page, ~0u, {all.front().first, all.back().last});
  }
  return wanted;
}

void ExpectSlots(const SlotCase& slots, size_t request, int head,
                 const FetchOracle& oracle) {
  for (size_t i = 0; i < oracle.slots().size(); ++i) {
    const FetchOracle::Slot& expected = oracle.slots()[i];
    const int slot = static_cast<int>(i);
    SCOPED_TRACE(testing::Message() << "request " << request << " head " << head
                                    << " slot " << slot);
    ASSERT_EQ(slots.Tag(request, head, slot),
              expected.piece.value_or(kNoPiece));
    const int age = expected.piece ? expected.age : 64;
    ASSERT_EQ(slots.Age(request, head, slot),
              age | (expected.hinted ? 0x80 : 0));
    if (!expected.piece) continue;
    ASSERT_EQ(slots.Entry(request, head, *expected.piece), slot);
    ASSERT_TRUE(slots.BytesOfSlot(request, head, slot) ==
                slots.BytesOfPiece(request, head, *expected.piece));
  }
}

// Requests whose pages before the first row are closed, but for those that
// prefill rows read.
struct Session {
  PagedCase paged;
  SlotCase slots;

  Session(const KvShape& shape, const std::vector<RequestRows>& requests,
          RandomSource& random)
      : paged(shape, requests, random),
        slots(paged, random.Among({8, 16, 32}), ClosedPages(requests), random) {
  }

  static std::vector<int64_t> ClosedPages(
      const std::vector<RequestRows>& requests) {
    std::vector<int64_t> closed;
    for (const RequestRows& rows : requests) {
      closed.push_back(
          rows.num_prefill_rows > 0 ? 0 : rows.first_position / kPageTokens);
    }
    return closed;
  }
};

// Decode rows, a few a step, of requests that go on for some steps.
std::vector<RequestRows> RandomDecodes(RandomSource& random, int max_position,
                                       int num_tokens) {
  std::vector<RequestRows> requests(static_cast<size_t>(random.Between(1, 4)));
  for (RequestRows& rows : requests) {
    rows.first_position = static_cast<int32_t>(
        random.Between(0, random.Among({40, 400, max_position})));
    rows.num_tokens = num_tokens;
    if (random.Chance(0.1)) rows.num_prefill_rows = num_tokens;
  }
  return requests;
}

// Few bytes a token: what is tried is where they go.
KvShape SmallShape(RandomSource& random) {
  KvShape shape = RandomKvShape(random);
  shape.k_dim = random.Among({8, 16});
  shape.v_dim = random.Among({8, 16, 24});
  return shape;
}

// Steps of rows over requests whose pages, frames and picks change, beside an
// oracle a request and KV head.
class CacheSession {
 public:
  static constexpr int kSteps = 12;

  CacheSession(TestDevice device, RandomSource& random)
      : random_(random),
        device_(std::move(device)),
        shape_(SmallShape(random)),
        rows_a_step_(random.Among({1, 1, 1, 3})),
        requests_(RandomDecodes(random, 2500, kSteps * rows_a_step_)),
        session_(shape_, requests_, random),
        oracles_(
            requests_.size(),
            std::vector<FetchOracle>(static_cast<size_t>(shape_.num_kv_heads))),
        whole_chance_(random.Among({0.0, 0.1, 0.6})),
        max_frames_(random.Among({3, 20, 90})),
        window_(random.Chance(0.2) ? 200 : 0),
        share_(random.Among({0.05, 0.3})) {}

  void Step(int step) {
    SlotCase& slots = session_.slots;
    if (step == 0 || random_.Chance(0.3)) {
      slots.Draw(whole_chance_, max_frames_, random_);
    }
    DrawRows(step);
    lists_ = RandomLists(shape_, rows_, share_, random_);
    hints_ = RandomLists(shape_, rows_, share_ / 3, random_);
    has_hints_ = random_.Chance(0.6);
    const SlotCase::OnDevice on = slots.Upload(device_, random_.Chance(0.5));
    FetchArgs args;
    args.slots = &on.slots;
    args.least_hint_age = least_hint_age_ =
        random_.Among({0, 1, 2, 3, int{kEmptyAge}, kNoHintFetch});
    args.source.kind = AttendSource::Kind::kPicks;
    args.source.picks = Upload(lists_);
    if (has_hints_) args.hints = Upload(hints_);
    args.counts = device_.Upload(
        TestArray(Dtype::kUInt32, {std::ssize(rows_), kNumFetchCounts}), 3);
    const std::vector<std::byte> around = slots.PoolWithoutSlots();
    device_.backend().Fetch(device_.queue(),
                            session_.paged.Step(device_, rows_, window_), args,
                            on.cache);
    slots.Download(device_, on);
    EXPECT_TRUE(slots.PoolWithoutSlots() == around);
    ExpectStep(device_.Download(args.counts));
  }

 private:
  void DrawRows(int step) {
    rows_ = requests_;
    int64_t num_rows = 0;
    for (RequestRows& request : rows_) {
      request.first_position += step * rows_a_step_;
      request.num_tokens = random_.Chance(0.1) ? 0 : rows_a_step_;
      request.num_prefill_rows =
          std::min(request.num_prefill_rows, request.num_tokens);
      num_rows += request.num_tokens;
    }
    // Of the step, those that are chosen for at a time.
    first_row_ = random_.Between(0, num_rows / 2);
    end_row_ = random_.Between(first_row_, num_rows);
  }
  PickLists Upload(const ListsOfRows& lists) {
    return lists.Upload(device_, first_row_, end_row_, shape_.num_q_heads());
  }

  void ExpectStep(const TestArray& counts) {
    int64_t row = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Positions rows = {
          std::max(row, first_row_),
          std::min(row + rows_[r].num_tokens, end_row_) - 1};
      const int64_t position = rows_[r].first_position + rows.first - row;
      row += rows_[r].num_tokens;
      FetchCounts expected = {};
      for (int head = 0; head < shape_.num_kv_heads; ++head) {
        FetchOracle& oracle = oracles_[r][static_cast<size_t>(head)];
        oracle.Resize(session_.slots.NumSlots(r));
        if (rows.first <= rows.last && !session_.slots.IsWhole(r)) {
          oracle.Fetch(StepOf(r, head, rows, position), expected);
        }
        ExpectSlots(session_.slots, r, head, oracle);
      }
      for (int i = 0; i < kNumFetchCounts; ++i) {
        ASSERT_EQ(counts.at(static_cast<int64_t>(r), i),
                  static_cast<double>(expected[static_cast<size_t>(i)]))
            << "count " << i << " of request " << r;
      }
    }
  }
  FetchOracle::Step StepOf(size_t request, int head, Positions rows,
                           int64_t position) const {
    FetchOracle::Step step;
    step.picks = WantedBy(session_.slots, request, head,
                          {lists_, rows, position, window_});
    if (has_hints_) {
      step.hints = WantedBy(session_.slots, request, head,
                            {hints_, rows, position, window_});
    }
    step.first_position = position;
    step.end_position = position + rows.last - rows.first + 1;
    step.least_hint_age = least_hint_age_;
    return step;
  }

  RandomSource& random_;
  TestDevice device_;
  const KvShape shape_;
  const int rows_a_step_;
  const std::vector<RequestRows> requests_;
  Session session_;
  std::vector<std::vector<FetchOracle>> oracles_;  // by request and KV head
  const double whole_chance_;
  const int max_frames_;
  const int window_;
  const double share_;
  // Of the step under way.
  std::vector<RequestRows> rows_;
  int64_t first_row_ = 0, end_row_ = 0;
  ListsOfRows lists_, hints_;
  bool has_hints_ = false;
  int least_hint_age_ = 0;
};

class FetchConformanceTest : public SeededTest {};

TEST_P(FetchConformanceTest, IsACacheByAge) {
  ForSeeds(24, [this](RandomSource& random, int num_threads) {
    CacheSession session(Device(num_threads), random);
    for (int step = 0; step < CacheSession::kSteps && !HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      session.Step(step);
    }
  });
}

// Reads with `slots` where it is given.
AttendResult RunAttend(TestDevice& device, const SlotCase::OnDevice& on,
                       const LayerStep& step, const AttendSource& source,
                       const TestArray& q, const SlotTable* slots) {
  AttendArgs args;
  args.q = device.Upload(q, 2);
  args.sources = {&source, 1};
  args.scale = 2.0f / std::sqrt(static_cast<float>(q.dim(2)));
  args.out =
      device.Output(q.dtype, {q.dim(0), q.dim(1), on.cache.format.v_dim}, 3);
  args.lse = device.Output(Dtype::kFloat32, {q.dim(0), q.dim(1)}, 1);
  args.slots = slots;
  device.backend().Attend(device.queue(), step, args, on.cache);
  return {device.Download(args.out), device.Download(args.lse)};
}

// The law of section 5: whatever is near, and however it came to be, bits are
// those of pages that are all whole. Prefill rows and decode rows, lists and
// every page, windows, slots full, empty, none, and brought by hints.
TEST_P(FetchConformanceTest, BitsDoNotDependOnWhatIsNear) {
  ForSeeds(24, [this](RandomSource& random, int num_threads) {
    // Pages of requests with prefill rows are whole: the others are tried most.
    std::vector<RequestRows> requests =
        random.Chance(0.3)
            ? RandomRequests(random, 1500)
            : RandomDecodes(random, 1500, random.Among({1, 2, 5}));
    KvShape shape = RandomKvShape(random);
    if (random.Chance(0.3)) {  // what tensor cores take
      shape.dtype = Dtype::kBFloat16;
      shape.k_dim = shape.v_dim = random.Among({64, 96, 128});
    }
    Session session(shape, requests, random);
    SlotCase& slots = session.slots;
    TestDevice device = Device(num_threads);
    const int window =
        random.Chance(0.3) ? random.Among({1, 40, 129, 1000}) : 0;
    const LayerStep step = session.paged.Step(device, requests, window);
    const TestArray q = RandomArray(
        shape.dtype, {step.num_rows, shape.num_q_heads(), shape.k_dim}, random);
    AttendSource source;
    if (random.Chance(0.8)) {
      source.kind = AttendSource::Kind::kPicks;
      source.picks = RandomLists(shape, requests, 0.2, random)
                         .Upload(device, 0, step.num_rows, shape.num_q_heads());
    }
    const PickLists hints =
        RandomLists(shape, requests, 0.2, random)
            .Upload(device, 0, step.num_rows, shape.num_q_heads());
    const AttendResult expected = RunAttend(device, slots.Upload(device, false),
                                            step, source, q, nullptr);
    for (const int max_frames : {0, 5, 80}) {
      slots.Draw(random.Among({0.0, 0.5}), max_frames, random);
      for (int round = 0; round < 2; ++round) {
        const SlotCase::OnDevice on = slots.Upload(device, false);
        ExpectSame(RunAttend(device, on, step, source, q, &on.slots), expected);
        FetchArgs args;
        args.source = source;
        args.slots = &on.slots;
        if (source.kind == AttendSource::Kind::kPicks && random.Chance(0.5)) {
          args.hints = hints;
        }
        device.backend().Fetch(device.queue(), step, args, on.cache);
        ExpectSame(RunAttend(device, on, step, source, q, &on.slots), expected);
        slots.Download(device, on);
      }
    }
  });
}

// Many segments, as far as a context of 67K tokens has them.
TEST_P(FetchConformanceTest, FindsPagesOfLaterSegments) {
  ForSeeds(2, [this](RandomSource& random, int num_threads) {
    KvShape shape;
    shape.k_dim = shape.v_dim = 16;
    const std::vector<RequestRows> requests = {{2100 * kPageTokens + 7, 1, 0}};
    Session session(shape, requests, random);
    SlotCase& slots = session.slots;
    TestDevice device = Device(num_threads);
    const LayerStep step = session.paged.Step(device, requests, 0);
    const TestArray q = RandomArray(shape.dtype, {1, 1, shape.k_dim}, random);
    ListsOfRows lists;
    lists.rows.push_back(
        {{RandomList(requests[0].first_position, 0.02, random)}});
    AttendSource source = {.kind = AttendSource::Kind::kPicks,
                           .picks = lists.Upload(device, 0, 1, 1)};
    const AttendResult expected = RunAttend(device, slots.Upload(device, false),
                                            step, source, q, nullptr);
    slots.Draw(0.3, 90, random);
    slots.Grow(0, 90, random);
    const SlotCase::OnDevice on = slots.Upload(device, false);
    FetchArgs args;
    args.source = source;
    args.slots = &on.slots;
    const auto fetch = [&] {
      args.counts =
          device.Upload(TestArray(Dtype::kUInt32, {1, kNumFetchCounts}));
      device.backend().Fetch(device.queue(), step, args, on.cache);
      return device.Download(args.counts);
    };
    const TestArray counts = fetch();
    ExpectSame(RunAttend(device, on, step, source, q, &on.slots), expected);
    EXPECT_GT(counts.at(0, kFetchedCount), 20);
    // What has a slot now is found there.
    EXPECT_EQ(fetch().at(0, kMissesCount), counts.at(0, kUnplacedCount));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, FetchConformanceTest,
                         testing::ValuesIn(BackendsUnderTest()), NameOfBackend);

}  // namespace
}  // namespace winnow
