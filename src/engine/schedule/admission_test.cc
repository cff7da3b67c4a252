#include "engine/schedule/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace winnow {
namespace {

constexpr SchedulerLimits kAdmissionLimits = {.max_num_seqs = 4,
                                              .max_num_batched_tokens = 100,
                                              .num_layers = 1,
                                              .num_pages = 10};

SequenceSnapshot Plain(uint64_t id, int64_t life_pages) {
  return {.id = SequenceId(id), .num_tokens = 64, .life_pages = life_pages};
}

SequenceSnapshot PrefixOf(uint64_t id, int64_t life_pages, int64_t fork_pages) {
  return {.id = SequenceId(id),
          .num_tokens = 64,
          .life_pages = life_pages,
          .fork_pages = fork_pages};
}

SequenceSnapshot Read(SequenceSnapshot prefix) {
  prefix.admitted = true;
  prefix.num_computed = prefix.num_tokens;
  return prefix;
}

SequenceSnapshot ForkOf(uint64_t prefix, uint64_t id, int64_t life_pages) {
  return {.id = SequenceId(id),
          .num_tokens = 70,
          .num_computed = 64,
          .life_pages = life_pages,
          .prefix = SequenceId(prefix)};
}

std::vector<uint64_t> Admitted(
    std::vector<SequenceSnapshot> sequences,
    const SchedulerLimits& limits = kAdmissionLimits) {
  std::vector<uint64_t> ids;
  for (const SequenceId id : Admission({limits, sequences}).Admit(sequences)) {
    ids.push_back(id.value());
  }
  return ids;
}

using Ids = std::vector<uint64_t>;

TEST(AdmissionTest, APrefixIsPromisedItsLongestForkToo) {
  EXPECT_EQ(Admitted({PrefixOf(1, 7, 3)}), Ids{1});
  EXPECT_EQ(Admitted({PrefixOf(1, 7, 4)}), Ids{});
  EXPECT_EQ(Admitted({PrefixOf(1, 4, 3), Plain(2, 3)}), (Ids{1, 2}));
  EXPECT_EQ(Admitted({PrefixOf(1, 4, 3), Plain(2, 4)}), Ids{1});
}

SequenceSnapshot Layerwise(uint64_t id, int64_t life_pages,
                           int64_t host_pages) {
  return {.id = SequenceId(id),
          .num_tokens = 640,
          .layerwise = true,
          .life_pages = life_pages,
          .host_pages = host_pages};
}

// Pages that they share take no room in the pool, and each its own in tables.
TEST(AdmissionTest, PageTablesHaveRoomForAllWhoRun) {
  SchedulerLimits limits = kAdmissionLimits;
  limits.num_table_pages = 9;
  const auto plain = [](uint64_t id, int64_t table_pages) {
    SequenceSnapshot sequence = Plain(id, 1);
    sequence.table_pages = table_pages;
    return sequence;
  };
  EXPECT_EQ(Admitted({plain(1, 4), plain(2, 5)}, limits), (Ids{1, 2}));
  EXPECT_EQ(Admitted({plain(1, 4), plain(2, 6), plain(3, 1)}, limits), Ids{1});
  SequenceSnapshot running = plain(1, 9);
  running.admitted = true;
  EXPECT_EQ(Admitted({running, plain(2, 1)}, limits), Ids{});
  // A prefix that is only held is in no step.
  SequenceSnapshot held = Read(PrefixOf(1, 4, 1));
  held.table_pages = 9;
  EXPECT_EQ(Admitted({held, plain(2, 9)}, limits), Ids{2});
}

// Whoever may are preempted is promised what is expected in tables too; and the
// longest of these goes on beside all that never do.
TEST(AdmissionTest, PageTablesArePromisedByWhatIsExpected) {
  SchedulerLimits limits = kAdmissionLimits;
  limits.num_table_pages = 9;
  const auto expecting = [](SequenceSnapshot sequence, int64_t life,
                            std::optional<int64_t> expected) {
    sequence.table_pages = life;
    sequence.expected_table_pages = expected;
    return sequence;
  };
  const auto admitted = [&](const std::vector<SequenceSnapshot>& sequences) {
    return Admitted(sequences, limits);
  };
  EXPECT_EQ(
      admitted({expecting(Plain(1, 1), 9, 4), expecting(Plain(2, 1), 9, 4),
                expecting(Plain(3, 1), 9, 2), expecting(Plain(4, 1), 9, 1)}),
      (Ids{1, 2}));
  EXPECT_EQ(admitted({expecting(Plain(1, 1), 10, 4)}), Ids{});
  const SequenceSnapshot layerwise = expecting(Layerwise(1, 1, 0), 5, {});
  EXPECT_EQ(admitted({layerwise, expecting(Plain(2, 1), 4, 2)}), (Ids{1, 2}));
  EXPECT_EQ(admitted({layerwise, expecting(Plain(2, 1), 5, 2)}), Ids{1});
  EXPECT_EQ(admitted({expecting(Plain(2, 1), 5, 2), layerwise}), Ids{2});
  // While it is read a prefix has a table, and does not are preempted; its fork
  // does.
  const SequenceSnapshot prefix = expecting(PrefixOf(1, 1, 1), 5, {});
  EXPECT_EQ(admitted({prefix, expecting(Plain(2, 1), 5, 2)}), Ids{1});
  EXPECT_EQ(admitted({Read(prefix), expecting(ForkOf(1, 2, 1), 6, {}),
                      expecting(Plain(3, 1), 9, 3)}),
            (Ids{2, 3}));
}

// Of each selector there are so many segments of summaries; what others have of
// them already takes none.
TEST(AdmissionTest, SummariesHaveRoomForAllWhoAreAdmitted) {
  const auto admitted = [](const std::vector<SequenceSnapshot>& sequences) {
    std::vector<SequenceSnapshot> some = sequences;
    std::vector<uint64_t> ids;
    const ScheduleInput input = {.limits = kAdmissionLimits,
                                 .sequences = sequences,
                                 .num_segments = {5, 9}};
    for (const SequenceId id : Admission(input).Admit(some)) {
      ids.push_back(id.value());
    }
    return ids;
  };
  const auto plain = [](uint64_t id, int selector, int64_t num_segments) {
    SequenceSnapshot sequence = Plain(id, 1);
    sequence.selector = selector;
    sequence.num_segments = num_segments;
    return sequence;
  };
  EXPECT_EQ(admitted({plain(1, 0, 2), plain(2, 0, 3)}), (Ids{1, 2}));
  EXPECT_EQ(admitted({plain(1, 0, 2), plain(2, 0, 4), plain(3, 1, 1)}), Ids{1});
  EXPECT_EQ(admitted({plain(1, 0, 5), plain(2, 1, 9), plain(3, -1, 0)}),
            (Ids{1, 2, 3}));
  EXPECT_EQ(admitted({plain(1, 1, 5), plain(2, 1, 5)}), Ids{1});
  SequenceSnapshot shares = plain(2, 0, 4);
  shares.shared_segments = 1;
  EXPECT_EQ(admitted({plain(1, 0, 2), shares, plain(3, 1, 1)}), (Ids{1, 2, 3}));
  SequenceSnapshot running = plain(1, 0, 3);
  running.admitted = true;
  EXPECT_EQ(admitted({running, plain(2, 0, 3)}), Ids{});
  // What a prefix has that is only held is not there for others.
  SequenceSnapshot held = Read(PrefixOf(1, 1, 1));
  held.selector = 0;
  held.num_segments = 3;
  EXPECT_EQ(admitted({held, plain(2, 0, 3)}), Ids{});
}

// It is never preempted: beside it there is room for the longest life of all
// others, whatever is expected of them.
TEST(AdmissionTest, WhoIsLayerwiseIsPromisedItsLifeBesideOthers) {
  SequenceSnapshot plain = Plain(2, 7);
  plain.expected_pages = 2;
  EXPECT_EQ(Admitted({Layerwise(1, 4, 0), plain}), Ids{1});
  plain.life_pages = 6;
  EXPECT_EQ(Admitted({Layerwise(1, 4, 0), plain}), (Ids{1, 2}));
  EXPECT_EQ(Admitted({plain, Layerwise(1, 4, 0)}), (Ids{2, 1}));
  EXPECT_EQ(Admitted({plain, Layerwise(1, 5, 0)}), Ids{2});
  EXPECT_EQ(Admitted({Layerwise(1, 5, 0), Layerwise(2, 6, 0)}), Ids{1});
}

TEST(AdmissionTest, WhoIsLayerwiseWaitsForTheHostToo) {
  SchedulerLimits limits = kAdmissionLimits;
  limits.num_free_host_pages = 20;
  const auto admitted = [&](const std::vector<SequenceSnapshot>& sequences) {
    return Admitted(sequences, limits);
  };
  EXPECT_EQ(admitted({Layerwise(1, 2, 20), Plain(2, 1)}), (Ids{1, 2}));
  EXPECT_EQ(admitted({Layerwise(1, 2, 21), Plain(2, 1)}), Ids{});
  EXPECT_EQ(admitted({Layerwise(1, 2, 12), Layerwise(2, 2, 8)}), (Ids{1, 2}));
  EXPECT_EQ(admitted({Layerwise(1, 2, 12), Layerwise(2, 2, 9)}), Ids{1});
  // No page of the device would help it.
  std::vector<SequenceSnapshot> waiting = {Layerwise(1, 11, 21)};
  Admission admission({limits, waiting});
  EXPECT_TRUE(admission.Admit(waiting).empty());
  EXPECT_EQ(admission.num_lacking_pages(), 0);
}

TEST(AdmissionTest, ForksWaitUntilTheirPrefixIsReadAndKeepTheirRoom) {
  // 4 + 3 + 3 pages are spoken for as soon as both forks are there.
  EXPECT_EQ(Admitted({PrefixOf(1, 4, 3), ForkOf(1, 2, 3), ForkOf(1, 3, 3),
                      Plain(4, 1)}),
            Ids{1});
  EXPECT_EQ(Admitted({Read(PrefixOf(1, 4, 3)), ForkOf(1, 2, 3), ForkOf(1, 3, 3),
                      Plain(4, 1)}),
            (Ids{2, 3}));
}

TEST(AdmissionTest, AForkWaitsForPagesButTheFirstOneHasThem) {
  EXPECT_EQ(
      Admitted({Read(PrefixOf(1, 7, 3)), ForkOf(1, 2, 3), ForkOf(1, 3, 1)}),
      Ids{2});
  // Somebody older waits for what this prefix holds: waiting for him would be
  // for ever.
  EXPECT_EQ(Admitted({Read(PrefixOf(1, 7, 3)), Plain(2, 9), ForkOf(1, 3, 3)}),
            Ids{3});
  EXPECT_EQ(Admitted({Read(PrefixOf(1, 5, 3)), Plain(2, 9), ForkOf(1, 3, 3),
                      ForkOf(1, 4, 1)}),
            Ids{3});
}

TEST(AdmissionTest, PagesThatSeveralHoldArePromisedOnce) {
  SequenceSnapshot first = Plain(1, 6), second = Plain(2, 6);
  first.admitted = true;
  EXPECT_EQ(Admitted({first, second}), Ids{});
  second.shared_pages = 2;
  EXPECT_EQ(Admitted({first, second}), Ids{2});
  second.shared_pages = 1;
  EXPECT_EQ(Admitted({first, second}), Ids{});
  // Once it holds them, the pool says so.
  second.admitted = true;
  second.shared_pages = 0;
  std::vector<SequenceSnapshot> three = {first, second, Plain(3, 1)};
  ScheduleInput input = {kAdmissionLimits, three, /*repeated_pages=*/3};
  EXPECT_EQ(Admission(input).Admit(three).size(), 1u);
  input.repeated_pages = 2;
  three[2].admitted = false;
  EXPECT_EQ(Admission(input).Admit(three).size(), 0u);
}

TEST(AdmissionTest, WhoMayGiveWayIsPromisedWhatIsExpected) {
  const auto expecting = [](uint64_t id, int64_t life, int64_t expected) {
    SequenceSnapshot sequence = Plain(id, life);
    sequence.expected_pages = expected;
    return sequence;
  };
  EXPECT_EQ(Admitted({expecting(1, 10, 4), expecting(2, 10, 4),
                      expecting(3, 10, 2), expecting(4, 10, 1)}),
            (Ids{1, 2, 3}));
  // The longest life fits beside a prefix and its fork, or one of them waits.
  EXPECT_EQ(Admitted({PrefixOf(1, 4, 3), expecting(2, 3, 1)}), (Ids{1, 2}));
  EXPECT_EQ(Admitted({PrefixOf(1, 4, 3), expecting(2, 4, 1)}), Ids{1});
  EXPECT_EQ(Admitted({expecting(1, 4, 1), PrefixOf(2, 4, 3)}), Ids{1});
}

TEST(AdmissionTest, APrefixThatIsOnlyHeldTakesNoPlaceAmongTheRunning) {
  SchedulerLimits limits = kAdmissionLimits;
  limits.max_num_seqs = 1;
  EXPECT_EQ(Admitted({Read(PrefixOf(1, 4, 3)), ForkOf(1, 2, 3)}, limits),
            Ids{2});
  SequenceSnapshot reading = PrefixOf(1, 4, 3);
  reading.admitted = true;
  EXPECT_EQ(Admitted({reading, Plain(2, 1)}, limits), Ids{});
}

// A world in which plans are carried out: what sequences hold never exceeds
// the pool, and whatever the limits, every one of them ends.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    limits_ = {.max_num_seqs = UpTo(4),
               .max_num_batched_tokens = UpTo(90),
               .num_layers = 1,
               .num_pages = 14};
    for (int i = UpTo(5); i > 0; --i) AddFamily();
  }

  bool done() const { return sequences_.empty(); }

  void Step() {
    const Schedule schedule = PlanStep({limits_, sequences_});
    ASSERT_FALSE(schedule.plan.empty());
    ASSERT_LE(schedule.plan.items.size(),
              static_cast<size_t>(limits_.max_num_seqs));
    for (SequenceSnapshot& sequence : sequences_) {
      const auto& admitted = schedule.admitted;
      sequence.admitted |= std::find(admitted.begin(), admitted.end(),
                                     sequence.id) != admitted.end();
      for (const StepItem& item : schedule.plan.items) {
        if (item.sequence != sequence.id) continue;
        ASSERT_TRUE(sequence.admitted);
        sequence.num_computed += item.num_tokens;
      }
    }
    int64_t used_pages = 0;
    for (const SequenceSnapshot& sequence : sequences_) {
      if (sequence.admitted) used_pages += sequence.life_pages;
    }
    ASSERT_LE(used_pages, limits_.num_pages);
    EndWhatIsDone();
  }

 private:
  int UpTo(int n) {
    return static_cast<int>(random_() % static_cast<uint32_t>(n)) + 1;
  }

  // A request, or a prefix with forks; some forks come when others have ended.
  void AddFamily() {
    const uint64_t id = next_id_++;
    if (UpTo(3) == 1) {
      sequences_.push_back(Plain(id, UpTo(14)));
      return;
    }
    const int fork_pages = UpTo(6);
    sequences_.push_back(PrefixOf(id, UpTo(8), fork_pages));
    late_forks_[SequenceId(id)] = UpTo(3) - 1;
    for (int i = UpTo(4); i > 0; --i) {
      sequences_.push_back(ForkOf(id, next_id_++, UpTo(fork_pages)));
    }
  }

  void EndWhatIsDone() {
    std::erase_if(sequences_, [](const SequenceSnapshot& sequence) {
      return !sequence.is_prefix() &&
             sequence.num_computed == sequence.num_tokens;
    });
    const std::vector<SequenceSnapshot> left = sequences_;
    for (const SequenceSnapshot& prefix : left) {
      if (!prefix.is_prefix()) continue;
      const bool used = std::any_of(left.begin(), left.end(),
                                    [&](const SequenceSnapshot& other) {
                                      return other.prefix == prefix.id;
                                    });
      if (used) continue;
      if (late_forks_[prefix.id]-- > 0) {
        sequences_.push_back(
            ForkOf(prefix.id.value(), next_id_++, prefix.fork_pages));
        continue;
      }
      std::erase_if(sequences_, [&](const SequenceSnapshot& other) {
        return other.id == prefix.id;
      });
    }
  }

  std::mt19937 random_;
  SchedulerLimits limits_;
  std::vector<SequenceSnapshot> sequences_;
  std::map<SequenceId, int> late_forks_;
  uint64_t next_id_ = 1;
};

TEST(AdmissionTest, EverySequenceEndsWithinThePool) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int step = 0; !world.done(); ++step) {
      ASSERT_LT(step, 20000);
      world.Step();
      if (HasFatalFailure()) return;
    }
  }
}

int64_t SparePages(std::vector<SequenceSnapshot> sequences,
                   const SchedulerLimits& limits = kAdmissionLimits) {
  Admission admission({limits, sequences});
  admission.Admit(sequences);
  return admission.num_spare_pages();
}

TEST(AdmissionTest, WhatIsSpareIsNobodysAndNotForWhoWaitsFirst) {
  EXPECT_EQ(SparePages({}), 10);
  EXPECT_EQ(SparePages({Plain(1, 3), Plain(2, 4)}), 3);
  EXPECT_EQ(SparePages({Plain(1, 3), Plain(2, 4), Plain(3, 4)}), 0);
  // The third waits for its turn, not for pages; the fourth is not counted.
  SchedulerLimits limits = kAdmissionLimits;
  limits.max_num_seqs = 2;
  EXPECT_EQ(
      SparePages({Plain(1, 1), Plain(2, 4), Plain(3, 4), Plain(4, 1)}, limits),
      1);
  EXPECT_EQ(SparePages({Plain(1, 3), Plain(2, 4), Plain(3, 4)}, limits), 0);
  // A fork takes the room that its prefix keeps for it.
  EXPECT_EQ(SparePages({Read(PrefixOf(1, 4, 3)), ForkOf(1, 2, 3)}), 3);
}

}  // namespace
}  // namespace winnow
