#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/size_text.h"
#include "cli/command/flag_value.h"
#include "cli/simulate/simulate.h"
#include "cli/simulate/trace.h"
#include "model/config/shapes.h"
#include "simulate/trace.h"

namespace winnow {
namespace {

constexpr int kMaxBatch = 1 << 20;
constexpr double kMaxTimes = 1000;
constexpr int64_t kMaxPlanContext = 1 << 20;
constexpr int kDefaultHintLevel = 2 * kBudgetLevel;

// A flag that would change nothing.
Error NoEffect(std::string_view flag, std::string_view needs,
               std::string_view is) {
  return MakeError(ErrorCode::kInvalidArgument, "{} needs {}, is {}", flag,
                   needs, is);
}

// Whether a list's values, of which the last was written as `piece`, name each
// once: two cells would be one.
template <typename T>
Status CheckLastIsFresh(std::string_view flag, const std::vector<T>& values,
                        const std::string& piece, const std::string& list) {
  const auto last = values.end() - 1;
  if (std::find(values.begin(), last, *last) == last) return Ok{};
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must name each value once, has \"{}\" again in \"{}\"",
                   flag, piece, list);
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

Result<DeviceModel> DeviceOf(const SimulateFlags& flags) {
  ASSIGN_OR_RETURN(DeviceModel device, DeviceModelOf(flags.device_model));
  const GivenRates& given = flags.rates;
  device.memory_gb_s = given.memory_gb_s.value_or(device.memory_gb_s);
  device.tflop_s = given.tflop_s.value_or(device.tflop_s);
  device.link_gb_s = given.link_gb_s.value_or(device.link_gb_s);
  device.disk_gb_s = given.disk_gb_s.value_or(device.disk_gb_s);
  device.layer_us = given.layer_us.value_or(device.layer_us);
  device.memory_gib = given.memory_gib.value_or(device.memory_gib);
  device.host_gib = given.host_gib.value_or(device.host_gib);
  device.all_reduce_gb_s =
      given.all_reduce_gb_s.value_or(device.all_reduce_gb_s);
  device.all_reduce_us = given.all_reduce_us.value_or(device.all_reduce_us);
  if (given.num_gpus > 0) device.num_gpus = given.num_gpus;
  const bool sums = given.all_reduce_gb_s || given.all_reduce_us;
  if (sums && device.num_gpus == 1) {
    return NoEffect(
        given.all_reduce_gb_s ? "--all-reduce-bandwidth" : "--all-reduce-us",
        "several GPUs (--gpus, or such a --device-model)", "one");
  }
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
Status ParseNumbers(std::string_view flag, const std::string& text,
                    std::string_view wanted, IsRight&& is_right,
                    std::vector<T>* values) {
  for (const std::string& piece : SplitList(text)) {
    int value = 0;
    const std::string complaint = WholeNumber(0, INT32_MAX, &value)(piece);
    if (!complaint.empty() || !is_right(value)) {
      return MakeError(ErrorCode::kInvalidArgument, "{} {}, is \"{}\"", flag,
                       wanted, piece);
    }
    values->push_back(value);
    RETURN_IF_ERROR(CheckLastIsFresh(flag, *values, piece, text));
  }
  return Ok{};
}

Result<std::vector<int64_t>> ParseContexts(const std::string& text) {
  std::vector<int64_t> contexts;
  if (text.empty()) return contexts;
  for (const std::string& piece : SplitList(text)) {
    const Result<int64_t> tokens = ParseTokens(piece);
    if (!tokens.ok() || *tokens < 1 || *tokens > kMaxPlanContext) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--context must be tokens from 1 to 1M (\"128K\"), is "
                       "\"{}\"",
                       piece);
    }
    contexts.push_back(*tokens);
    RETURN_IF_ERROR(CheckLastIsFresh("--context", contexts, piece, text));
  }
  return contexts;
}

Status ParseLists(const SimulateFlags& flags, SimulatePlan& plan) {
  std::vector<std::pair<int64_t, double>> budgets;
  for (const std::string& piece : SplitList(flags.cache_budgets)) {
    ASSIGN_OR_RETURN(const CacheBudget budget, ParseCacheBudget(piece));
    plan.budget_names.push_back(piece);
    plan.budgets.push_back(budget);
    budgets.emplace_back(budget.tokens, budget.times);
    RETURN_IF_ERROR(CheckLastIsFresh("--cache-budget", budgets, piece,
                                     flags.cache_budgets));
  }
  for (const std::string& piece : SplitList(flags.policies)) {
    ASSIGN_OR_RETURN(const SlotRule rule, ParseRule(piece));
    plan.rules.push_back(rule);
    RETURN_IF_ERROR(
        CheckLastIsFresh("--policy", plan.rules, piece, flags.policies));
  }
  RETURN_IF_ERROR(ParseNumbers(
      "--slot-tokens", flags.slot_tokens, "must be 8, 16 or 32",
      [](int value) { return value == 8 || value == 16 || value == 32; },
      &plan.slot_tokens));
  RETURN_IF_ERROR(ParseNumbers(
      "--batch", flags.batches, "must be from 1 to 1048576",
      [](int value) { return value >= 1 && value <= kMaxBatch; },
      &plan.batches));
  ASSIGN_OR_RETURN(plan.contexts, ParseContexts(flags.contexts));
  return Ok{};
}

Status ParseHints(const SimulateFlags& flags, SimulatePlan& plan) {
  if (!flags.hint_level.empty()) {
    const Result<std::vector<int>> level = ParseLevels(flags.hint_level);
    if (!level.ok() || level->size() > 2 || level->front() < kBudgetLevel) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--hint-level must be a multiple of the budget of at "
                       "least 1x (\"1.5x\"), is \"{}\"",
                       flags.hint_level);
    }
    plan.hint_level = level->back();
  }
  constexpr std::array<std::string_view, 3> kSources = {"ranks", "step",
                                                        "layer"};
  if (!flags.hint_source.empty()) {
    const auto source = std::ranges::find(kSources, flags.hint_source);
    if (source == kSources.end()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--hint-source must be ranks, step or layer, is \"{}\"",
                       flags.hint_source);
    }
    plan.hint_source = static_cast<HintSource>(source - kSources.begin());
  }
  plan.least_hint_age = flags.least_hint_age.value_or(plan.least_hint_age);
  return Ok{};
}

// The rules that a flag says something to.
constexpr std::array<SlotRule, 3> kHintRules = {
    SlotRule::kKeep, SlotRule::kHold, SlotRule::kHint};
constexpr std::array<SlotRule, 4> kResizeRules = {
    SlotRule::kAge, SlotRule::kKeep, SlotRule::kHold, SlotRule::kHint};
constexpr std::array<SlotRule, 3> kDecayRules = {
    SlotRule::kMeanLevel, SlotRule::kMeanScore, SlotRule::kDecayedUse};

// Whether a flag that was given changes something in one cell at least.
Status CheckIsUsed(std::string_view flag, bool is_given,
                   std::span<const SlotRule> of, const SimulateFlags& flags,
                   const SimulatePlan& plan) {
  const auto uses = [&of](SlotRule rule) {
    return std::ranges::find(of, rule) != of.end();
  };
  if (!is_given || std::ranges::any_of(plan.rules, uses)) return Ok{};
  std::string names;
  for (const SlotRule rule : of) {
    names += names.empty() ? "" : rule == of.back() ? " or " : ", ";
    names += kSlotRuleNames[static_cast<size_t>(rule)];
  }
  return NoEffect(flag, "a --policy that it is for (" + names + ")",
                  "\"" + flags.policies + "\"");
}

Status CheckAllAreUsed(const SimulateFlags& flags, const SimulatePlan& plan) {
  // Slots of any rule may be filled with next ranks at first.
  const bool fills = plan.first_slots == FirstSlots::kRanks;
  const bool by_level = plan.hint_level.has_value();
  if (by_level && plan.hint_source != HintSource::kNextRanks) {
    return NoEffect("--hint-level", "--hint-source ranks",
                    "\"" + flags.hint_source + "\"");
  }
  RETURN_IF_ERROR(
      CheckIsUsed("--hint-level", by_level && !fills, kHintRules, flags, plan));
  RETURN_IF_ERROR(CheckIsUsed("--hint-source",
                              !flags.hint_source.empty() && !fills, kHintRules,
                              flags, plan));
  constexpr std::array<SlotRule, 1> kHint = {SlotRule::kHint};
  RETURN_IF_ERROR(CheckIsUsed("--least-hint-age",
                              flags.least_hint_age.has_value(), kHint, flags,
                              plan));
  RETURN_IF_ERROR(CheckIsUsed("--decay", flags.decay.has_value(), kDecayRules,
                              flags, plan));
  RETURN_IF_ERROR(CheckIsUsed("--resize-rows", flags.resize_rows > 0,
                              kResizeRules, flags, plan));
  if (flags.ghosts && flags.resize_rows == 0) {
    return NoEffect("--ghosts", "--resize-rows of at least 1",
                    std::to_string(flags.resize_rows));
  }
  return Ok{};
}

}  // namespace

Result<SimulatePlan> ParseSimulatePlan(const SimulateFlags& flags) {
  SimulatePlan plan;
  RETURN_IF_ERROR(ParseLists(flags, plan));
  plan.decay = flags.decay.value_or(plan.decay);
  if (plan.decay > 1) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--decay must be at most 1, is {}", plan.decay);
  }
  RETURN_IF_ERROR(ParseHints(flags, plan));
  if (!flags.first_slots.empty()) {
    ASSIGN_OR_RETURN(plan.first_slots, ParseFirstSlots(flags, plan));
  }
  RETURN_IF_ERROR(CheckAllAreUsed(flags, plan));
  if (flags.max_rows < INT32_MAX && flags.max_rows <= flags.warm_rows) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--max-rows must be above --warm-rows ({}), is {}",
                     flags.warm_rows, flags.max_rows);
  }
  ASSIGN_OR_RETURN(plan.device, DeviceOf(flags));
  ASSIGN_OR_RETURN(plan.model, ModelSizeOf(flags.shape));
  return plan;
}

Result<int> HintLevelOf(const SimulatePlan& plan, const SimulateFlags& flags,
                        const TraceHeader& header) {
  const int greatest = header.levels.back();
  if (plan.hint_level && *plan.hint_level > greatest) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--hint-level must be at most {}x, the greatest level of "
                     "{}, is {}",
                     static_cast<double>(greatest) / kBudgetLevel, flags.trace,
                     flags.hint_level);
  }
  // The highest that is not above the one asked for.
  const auto above = std::ranges::upper_bound(
      header.levels, plan.hint_level.value_or(kDefaultHintLevel));
  return static_cast<int>(above - header.levels.begin()) - 1;
}

}  // namespace winnow
