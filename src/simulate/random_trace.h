// Random traces, for tests.
#ifndef WINNOW_SIMULATE_RANDOM_TRACE_H_
#define WINNOW_SIMULATE_RANDOM_TRACE_H_

#include <random>

#include "simulate/trace.h"

namespace winnow {

struct RandomTraceOptions {
  int max_pages = 40;  // of context before the first row
  int max_steps = 30;
  double stays = 0.8;    // the chance that a page is picked again
  bool in_parts = true;  // of pages, and of steps with several rows
};

// Few layers and heads, levels on both sides of the budget or none.
TraceHeader RandomTraceHeader(std::mt19937_64& random);
// Picks that stay for a while, rows that read all now and then.
TraceRequest RandomTraceRequest(const TraceHeader& header,
                                const RandomTraceOptions& options,
                                std::mt19937_64& random);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_RANDOM_TRACE_H_
