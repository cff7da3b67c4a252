// ArrivalProcess: the due times of a load's requests, which are fixed before
// the load runs.
#ifndef WINNOW_LOAD_ARRIVALS_H_
#define WINNOW_LOAD_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace winnow {

// Gaps between requests are independent, of mean 1 / requests_per_second. They
// follow the gamma distribution with shape `burstiness`: 1 is a Poisson
// process, below 1 requests come in bursts, above 1 more evenly.
struct ArrivalProcess {
  // Above 0; infinite: all at once.
  double requests_per_second = std::numeric_limits<double>::infinity();
  double burstiness = 1;  // above 0
};

// The due times of `count` requests in seconds, ascending; the first is 0.
// Equal arguments give equal times on every machine with the same logarithm.
// REQUIRES: the process is in its ranges.
std::vector<double> ArrivalTimes(const ArrivalProcess& process, size_t count,
                                 uint64_t seed);

}  // namespace winnow

#endif  // WINNOW_LOAD_ARRIVALS_H_
