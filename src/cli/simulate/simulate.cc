#include "cli/simulate/simulate.h"

#include "cli/command/command.h"
#include "cli/command/flag_value.h"

namespace winnow {
namespace {

constexpr int kMaxGpus = 1024;
// Of rates and sizes: what is beyond is no card's, and a table of it no table.
constexpr double kLeastRate = 1e-3, kMost = 1e9;

void AddCells(Command& command, SimulateFlags* flags) {
  const auto add = [&command](const char* name, const char* value_name,
                              const char* help, TakeValue take) {
    command.AddFlag({.name = name, .value_name = value_name, .help = help},
                    std::move(take));
  };
  add("--cache-budget", "LIST",
      "Slots of a (layer, head): tokens, or multiples of what a list selects "
      "(default 2x,3x,5x)",
      Text(&flags->cache_budgets));
  add("--policy", "LIST",
      "What makes room: age (as Fetch does), keep, hold and hint (with hints), "
      "lru, lfu, level, mean-level, score, mean-score, decayed-use, belady "
      "(knows what comes; "
      "default age,lru,lfu,belady)",
      Text(&flags->policies));
  add("--slot-tokens", "LIST", "8, 16, 32 (default 32)",
      Text(&flags->slot_tokens));
  add("--hint-level", "LEVEL",
      "With ranks as hints: those up to this level of the trace are "
      "(default 2x)",
      Word(&flags->hint_level));
  add("--hint-source", "ranks|step|layer",
      "With keep, hold and hint: hints are the next ranks, or what the step or "
      "the layer before picked (default ranks)",
      Word(&flags->hint_source));
  add("--least-hint-age", "N",
      "With hint: the age of slots that hints may take (default 1)",
      WholeNumber(0, kNumSlotAges, &flags->least_hint_age));
  add("--decay", "F",
      "With mean-level, mean-score and decayed-use: what a step leaves of the "
      "past "
      "(default 0.9)",
      PositiveNumber(&flags->decay));
  add("--warm-rows", "N",
      "Rows at the beginning of each request that are not counted (default 0)",
      WholeNumber(0, INT32_MAX, &flags->warm_rows));
  add("--max-rows", "N",
      "Rows of each request that are replayed at most (default: all)",
      WholeNumber(1, INT32_MAX, &flags->max_rows));
  add("--first-slots", "empty|newest|picks|ranks",
      "Slots come behind a request's first row, with nothing in them, the "
      "newest pages, what that row picked, or that and its hints (default: "
      "they are there for the first row, and empty)",
      Word(&flags->first_slots));
  add("--resize-rows", "N",
      "Rows after which frames move between layers, with age, keep, hold "
      "and hint (default 0: never)",
      WholeNumber(0, INT32_MAX, &flags->resize_rows));
  command.AddFlag(
      {.name = "--ghosts",
       .help = "With --resize-rows: what more frames would spare is "
               "counted by slots without bytes, not drawn on",
       .values = Flag::Values::kNone},
      Switch(&flags->ghosts));
}

void AddModel(Command& command, SimulateFlags* flags) {
  const auto add = [&command](const char* name, const char* value_name,
                              const char* help, TakeValue take) {
    command.AddFlag({.name = name, .value_name = value_name, .help = help},
                    std::move(take));
  };
  add("--shape", "SHAPE",
      "The published shape for which time is predicted (default llama-3.1-8b)",
      Text(&flags->shape));
  add("--batch", "LIST", "Requests that decode together (default 1,16,64,256)",
      Text(&flags->batches));
  add("--context", "LIST",
      "Tokens of context for which time is predicted, up to 1M: by the "
      "recorded "
      "lengths, from two on also behind the longest, which is marked (default: "
      "what was recorded)",
      Word(&flags->contexts));
  add("--device-model", "NAME",
      "h200, a100-40gb, rtx-4090 or h200x8, figures of each GPU (default h200)",
      Text(&flags->device_model));
  GivenRates* rates = &flags->rates;
  add("--gpus", "N", "GPUs that share weights and KV heads (tensor parallel)",
      WholeNumber(1, kMaxGpus, &rates->num_gpus));
  const auto add_rate = [&add](const char* name, const char* unit,
                               const char* help, std::optional<double>* rate) {
    add(name, unit, help, NumberIn(kLeastRate, kMost, rate));
  };
  // What is no rate may be nothing: a bound without it is a fair question.
  const auto add_time = [&add](const char* name, const char* help,
                               std::optional<double>* time) {
    add(name, "US", help, NumberIn(0, kMost, time));
  };
  add_rate("--all-reduce-bandwidth", "GB/S", "Between GPUs, each way",
           &rates->all_reduce_gb_s);
  add_time("--all-reduce-us", "What a sum over the GPUs takes besides bytes",
           &rates->all_reduce_us);
  add_rate("--memory-bandwidth", "GB/S", "Of the device", &rates->memory_gb_s);
  add_rate("--compute", "TFLOP/S", "Of products", &rates->tflop_s);
  add_rate("--link-bandwidth", "GB/S",
           "Host to device, of pieces of 2 KiB and more; smaller ones take "
           "their share of it",
           &rates->link_gb_s);
  add_rate("--disk-bandwidth", "GB/S", "Read", &rates->disk_gb_s);
  add_time("--layer-us", "Launches of a layer", &rates->layer_us);
  add_rate("--memory-gib", "GIB", "Of the device", &rates->memory_gib);
  add_rate("--host-gib", "GIB", "Of the host", &rates->host_gib);
}

}  // namespace

Command& AddSimulateCommand(Command& program, SimulateFlags* flags) {
  Command& command = program.AddCommand(
      "simulate",
      "Replay a trace through slots that do not hold all, and predict what "
      "steps take");
  command.AddFlag({.name = "TRACE",
                   .value_name = "FILE",
                   .help = "What winnow trace has written",
                   .required = true},
                  Text(&flags->trace));
  AddCells(command, flags);
  AddModel(command, flags);
  AddJsonFlag(command, "The table as JSON, to standard output or to FILE",
              &flags->engine);
  return command;
}

}  // namespace winnow
