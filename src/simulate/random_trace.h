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
  bool in_parts = true;  // parts of pages, and steps with several rows
};

// Draws few layers and heads. Levels lie on both sides of the budget, or there
// are none.
TraceHeader RandomTraceHeader(std::mt19937_64& random);
// Draws picks that stay for a while, and now and then rows that read all.
TraceRequest RandomTraceRequest(const TraceHeader& header,
                                const RandomTraceOptions& options,
                                std::mt19937_64& random);

}  // namespace winnow

#endif  // WINNOW_SIMULATE_RANDOM_TRACE_H_
