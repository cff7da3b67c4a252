// Which sequences may start now: the part of a schedule that promises pages.
#ifndef WINNOW_ENGINE_SCHEDULE_ADMISSION_H_
#define WINNOW_ENGINE_SCHEDULE_ADMISSION_H_

#include <map>
#include <vector>

#include "engine/schedule/scheduler.h"

namespace winnow {

// Keeps count of what is promised while PlanStep walks the sequences once, in
// their turn. The sum of all promises does not exceed the pool when one
// is given; those of sequences that may be preempted grow with them.
class Admission {
 public:
  // Counts what has been admitted before.
  explicit Admission(const ScheduleInput& input);

  // Marks the sequences that may start now and returns them, in their turn.
  // The first that does not fit keeps all behind it waiting, so that none
  // starves; but a fork that fits into the room kept for one of its kind takes
  // nothing from anybody, and waiting would keep its prefix's pages for ever.
  std::vector<SequenceId> Admit(std::vector<SequenceSnapshot>& sequences);
  // As Schedule has it.
  int64_t num_lacking_pages() const { return num_lacking_pages_; }
  int64_t num_spare_pages() const { return num_spare_pages_; }

 private:
  // What the forks of one prefix may have: room for the longest, or for all
  // that have been admitted.
  struct ForkRoom {
    bool is_read = false;
    int64_t kept_pages = 0;
    int64_t used_pages = 0;
  };

  // What there must be whoever is preempted: all of those who never do, and the
  // longest life of all others.
  struct Least {
    int64_t firm = 0;
    int64_t longest = 0;

    int64_t total() const { return firm + longest; }
  };
  struct LeastRoom {
    Least pages;  // forks apart, whose prefixes keep it for them
    Least table_pages;

    void Add(const SequenceSnapshot& sequence);
  };

  // Pages that the pool must have beyond all promises.
  int64_t PagesToPromise(const SequenceSnapshot& sequence) const;
  // Whether it may start at all beside those that cannot are preempted.
  bool MayRun(const SequenceSnapshot& sequence) const;
  int64_t LackingPages(const SequenceSnapshot& sequence) const;
  bool HasSegments(const SequenceSnapshot& sequence) const;
  void Count(const SequenceSnapshot& sequence);

  const SchedulerLimits limits_;
  const std::vector<int64_t> num_segments_;
  int64_t promised_pages_;
  LeastRoom least_;
  // Prefixes that are only held do not run.
  int num_running_ = 0;
  int64_t table_pages_ = 0;
  std::map<int, int64_t> promised_segments_;  // by selector
  int64_t promised_host_pages_ = 0;           // now
  int64_t num_lacking_pages_ = 0;
  int64_t num_spare_pages_ = 0;
  std::map<SequenceId, ForkRoom> fork_rooms_;  // of admitted prefixes
};

}  // namespace winnow

#endif  // WINNOW_ENGINE_SCHEDULE_ADMISSION_H_
