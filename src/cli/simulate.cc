#include "cli/simulate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/size_text.h"
#include "cli/command.h"
#include "cli/flag_value.h"
#include "cli/trace.h"
#include "model/shapes.h"
#include "trace/trace.h"

namespace winnow {
namespace {

constexpr int kMaxBatch = 1 << 20;
constexpr double kMaxTimes = 1000;
constexpr int64_t kMaxContext = 1 << 20;
constexpr int kMaxGpus = 1024;

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

Result<CacheBudget> ParseCacheBudget(const std::string& text) {
  CacheBudget budget;
  if (text.ends_with('x')) {
    const std::string number = text.substr(0, text.size() - 1);
    if (PositiveNumber(&budget.times)(number).empty() &&
        budget.times <= kMaxTimes) {
      return budget;
    }
  } else if (const Result<int64_t> tokens = ParseTokens(text);
             tokens.ok() && *tokens > 0) {
    budget.tokens = *tokens;
    return budget;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--cache-budget must be tokens (\"4K\") or a multiple of "
                   "the selection's budget up to {}x (\"2x\"), is \"{}\"",
                   kMaxTimes, text);
}

Result<SlotRule> ParseRule(const std::string& text) {
  const auto found = std::ranges::find(kSlotRuleNames, text);
  if (found != kSlotRuleNames.end()) {
    return static_cast<SlotRule>(found - kSlotRuleNames.begin());
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--policy must be one of {}, is \"{}\"",
                   fmt::join(kSlotRuleNames, ", "), text);
}

// The weights that a step of a dense decoder of this shape reads: an embedding
// is read by rows, but where it is the last product too.
Result<ModelSize> ModelSizeOf(const std::string& shape) {
  Result<ModelConfig> config = ConfigOfShape(shape);
  if (!config.ok()) {
    return MakeError(config.error().code, "--{}", config.error().message);
  }
  const int64_t hidden = config->hidden_size;
  const int64_t q = int64_t{config->num_q_heads} * config->head_dim;
  const int64_t kv = int64_t{config->num_kv_heads} * config->head_dim;
  const int64_t layer =
      hidden * (2 * q + 2 * kv) + 3 * hidden * config->intermediate_size;
  return ModelSize{
      .num_weights = config->num_layers * layer + hidden * config->vocab_size,
      .num_layers = config->num_layers,
      .num_kv_heads = config->num_kv_heads,
      .head_dim = config->head_dim,
      .hidden_size = config->hidden_size,
      .num_q_heads = config->num_q_heads};
}

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
      "What makes room: age (as Bring does), keep, hold and hint (with hints), "
      "lru, lfu, level, mean-level, score, mean-score, decayed-use, belady "
      "(knows what comes; "
      "default age,lru,lfu,belady)",
      Text(&flags->policies));
  add("--slot-tokens", "LIST", "8, 16, 32 (default 32)",
      Text(&flags->slot_tokens));
  add("--hint-level", "LEVEL",
      "With ranks as hints: those up to this level of the trace are "
      "(default 2x)",
      Text(&flags->hint_level));
  add("--hint-source", "ranks|step|layer",
      "With keep, hold and hint: hints are the next ranks, or what the step or "
      "the layer before picked (default ranks)",
      Text(&flags->hint_source));
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
      Text(&flags->first_slots));
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
      Text(&flags->contexts));
  add("--device-model", "NAME",
      "h200, a100-40gb, rtx-4090 or h200x8, figures of each GPU (default h200)",
      Text(&flags->device_model));
  add("--gpus", "N", "GPUs that share weights and KV heads (tensor parallel)",
      WholeNumber(1, kMaxGpus, &flags->num_gpus));
  add("--all-reduce-bandwidth", "GB/S", "Between GPUs, each way",
      PositiveNumber(&flags->rates.all_reduce_gb_s));
  add("--all-reduce-us", "US", "What a sum over the GPUs takes besides bytes",
      PositiveNumber(&flags->rates.all_reduce_us));
  add("--memory-bandwidth", "GB/S", "Of the device",
      PositiveNumber(&flags->rates.memory_gb_s));
  add("--compute", "TFLOP/S", "Of products",
      PositiveNumber(&flags->rates.tflop_s));
  add("--link-bandwidth", "GB/S", "Host to device",
      PositiveNumber(&flags->rates.link_gb_s));
  add("--disk-bandwidth", "GB/S", "Read",
      PositiveNumber(&flags->rates.disk_gb_s));
  add("--layer-us", "US", "Launches of a layer",
      PositiveNumber(&flags->rates.layer_us));
  add("--memory-gib", "GIB", "Of the device",
      PositiveNumber(&flags->rates.memory_gib));
  add("--host-gib", "GIB", "Of the host",
      PositiveNumber(&flags->rates.host_gib));
}

Result<DeviceModel> DeviceOf(const SimulateFlags& flags) {
  ASSIGN_OR_RETURN(DeviceModel device, DeviceModelOf(flags.device_model));
  const auto replace = [](double given, double& rate) {
    if (given > 0) rate = given;
  };
  replace(flags.rates.memory_gb_s, device.memory_gb_s);
  replace(flags.rates.tflop_s, device.tflop_s);
  replace(flags.rates.link_gb_s, device.link_gb_s);
  replace(flags.rates.disk_gb_s, device.disk_gb_s);
  replace(flags.rates.layer_us, device.layer_us);
  replace(flags.rates.memory_gib, device.memory_gib);
  replace(flags.rates.host_gib, device.host_gib);
  replace(flags.rates.all_reduce_gb_s, device.all_reduce_gb_s);
  replace(flags.rates.all_reduce_us, device.all_reduce_us);
  if (flags.num_gpus > 0) device.num_gpus = flags.num_gpus;
  return device;
}

Result<FirstSlots> ParseFirstSlots(const SimulateFlags& flags,
                                   const SimulatePlan& plan) {
  const auto found = std::ranges::find(kFirstSlotsNames, flags.first_slots);
  if (found == kFirstSlotsNames.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--first-slots must be one of {}, is \"{}\"",
                     fmt::join(kFirstSlotsNames, ", "), flags.first_slots);
  }
  if (std::ranges::count(plan.rules, SlotRule::kBelady) > 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--first-slots needs a --policy without belady, which "
                     "knows what comes");
  }
  return static_cast<FirstSlots>(found - kFirstSlotsNames.begin());
}

// A list of whole numbers, each of which `is_right`.
template <typename T, typename IsRight>
Status ParseNumbers(const std::string& text, std::string_view wanted,
                    IsRight&& is_right, std::vector<T>* values) {
  for (const std::string& piece : SplitList(text)) {
    int value = 0;
    const std::string complaint = WholeNumber(0, INT32_MAX, &value)(piece);
    if (!complaint.empty() || !is_right(value)) {
      return MakeError(ErrorCode::kInvalidArgument, "{}, is \"{}\"", wanted,
                       piece);
    }
    values->push_back(value);
  }
  return Ok{};
}

Result<std::vector<int64_t>> ParseContexts(const std::string& text) {
  std::vector<int64_t> contexts;
  if (text.empty()) return contexts;
  for (const std::string& piece : SplitList(text)) {
    const Result<int64_t> tokens = ParseTokens(piece);
    if (!tokens.ok() || *tokens < 1 || *tokens > kMaxContext) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--context must be tokens from 1 to 1M (\"128K\"), is "
                       "\"{}\"",
                       piece);
    }
    contexts.push_back(*tokens);
  }
  return contexts;
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

Result<SimulatePlan> ParseSimulatePlan(const SimulateFlags& flags) {
  SimulatePlan plan;
  for (const std::string& piece : SplitList(flags.cache_budgets)) {
    ASSIGN_OR_RETURN(const CacheBudget budget, ParseCacheBudget(piece));
    plan.budget_names.push_back(piece);
    plan.budgets.push_back(budget);
  }
  for (const std::string& piece : SplitList(flags.policies)) {
    ASSIGN_OR_RETURN(const SlotRule rule, ParseRule(piece));
    plan.rules.push_back(rule);
  }
  RETURN_IF_ERROR(ParseNumbers(
      flags.slot_tokens, "--slot-tokens must be 8, 16 or 32",
      [](int value) { return value == 8 || value == 16 || value == 32; },
      &plan.slot_tokens));
  RETURN_IF_ERROR(ParseNumbers(
      flags.batches, "--batch must be from 1 to 1048576",
      [](int value) { return value >= 1 && value <= kMaxBatch; },
      &plan.batches));
  ASSIGN_OR_RETURN(plan.contexts, ParseContexts(flags.contexts));
  if (flags.decay > 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--decay must be at most 1, is {}", flags.decay);
  }
  const Result<std::vector<int>> level = ParseLevels(flags.hint_level);
  if (!level.ok() || level->size() > 2 || level->front() < kBudgetLevel) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--hint-level must be a multiple of the budget of at "
                     "least 1x (\"1.5x\"), is \"{}\"",
                     flags.hint_level);
  }
  plan.hint_level = level->back();
  constexpr std::array<std::string_view, 3> kSources = {"ranks", "step",
                                                        "layer"};
  const auto source = std::ranges::find(kSources, flags.hint_source);
  if (source == kSources.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--hint-source must be ranks, step or layer, is \"{}\"",
                     flags.hint_source);
  }
  plan.hint_source = static_cast<HintSource>(source - kSources.begin());
  if (!flags.first_slots.empty()) {
    ASSIGN_OR_RETURN(plan.first_slots, ParseFirstSlots(flags, plan));
  }
  ASSIGN_OR_RETURN(plan.device, DeviceOf(flags));
  ASSIGN_OR_RETURN(plan.model, ModelSizeOf(flags.shape));
  return plan;
}

}  // namespace winnow
