// When the requests of a load are due: decided before it runs, whatever the
// server does then.
#ifndef WINNOW_LOAD_ARRIVALS_H_
#define WINNOW_LOAD_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace winnow {

// Gaps between requests are independent, of mean 1 / requests_per_second, and
// follow the gamma distribution whose shape is `burstiness`: 1 is a Poisson
// process, below 1 requests come in bursts, above 1 more evenly.
struct ArrivalProcess {
  // Above 0; infinite: all at once.
  double requests_per_second = std::numeric_limits<double>::infinity();
  double burstiness = 1;  // above 0
};

// Seconds at which `count` requests are due, ascending; the first at 0. The
// same for the same arguments on every machine with the same logarithm.
// REQUIRES: the process is in its ranges.
std::vector<double> ArrivalTimes(const ArrivalProcess& process, size_t count,
                                 uint64_t seed);

}  // namespace winnow

#endif  // WINNOW_LOAD_ARRIVALS_H_
