#include "sparse/selector.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/ids.h"
#include "sparse/kinds.h"

namespace winnow {
namespace {

constexpr const SelectorKind* kSelectors[] = {
    &kArkValeSelector,       &kClusterKvSelector, &kDenseSelector,
    &kInfLlmV2Selector,      &kMeanSelector,      &kMobaSelector,
    &kOracleSelector,        &kQuestSelector,     &kRetroInferSelector,
    &kSeerAttentionSelector, &kShadowKvSelector,  &kSnapKvSelector,
    &kTidalSelector,         &kWindowSelector};

constexpr std::string_view kDenseLayers = "dense_layers";
constexpr std::string_view kSelectLayers = "select_layers";

std::string List(const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) {
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

Result<const SelectorKind*> FindKind(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SelectorKind* kind : kSelectors) {
    if (kind->name == name) return kind;
    names.push_back(kind->name);
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "--select: \"{}\" is unknown, did you mean \"{}\"? There "
                   "are auto, {}",
                   name, NearestName(name, names), List(names));
}

Status CheckParameters(const SelectorKind& kind, const SelectSpec& spec) {
  std::vector<std::string_view> names;
  for (const SelectorParameter& known : kind.parameters) {
    names.push_back(known.name);
  }
  for (const auto& [key, value] : spec.parameters) {
    if (std::ranges::find(names, key) != names.end()) continue;
    if (names.empty()) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "--select {}: there are no parameters, \"{}\" is given",
                       kind.name, key);
    }
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select {}: \"{}\" is unknown, did you mean \"{}\"? "
                     "There are {}",
                     kind.name, key, NearestName(key, names), List(names));
  }
  return Ok{};
}

// What holds of any program's budget.
Status CheckBudget(const SelectSpec& spec, const SelectProgram& program,
                   const SelectorShape& shape) {
  const std::string& name = spec.name;
  const bool chooses = program.rows.kind != SummaryRows::Kind::kNone;
  if (!chooses || program.budget.unit == Amount::Unit::kShare) return Ok{};
  const auto budget = static_cast<int64_t>(program.budget.value);
  // A default may be above a short context: then everything is read.
  const bool is_given = std::ranges::any_of(
      spec.parameters,
      [](const auto& parameter) { return parameter.first == "budget"; });
  if (is_given && budget > shape.max_context_tokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select {}: the budget must be at most the context of "
                     "{} tokens, is {}",
                     name, shape.max_context_tokens, budget);
  }
  const int64_t block = program.block_tokens;
  const auto blocks = [&](int64_t tokens) {
    return (tokens + block - 1) / block;
  };
  int64_t least = 1;
  if (program.forced.inside_budget) {
    least += blocks(program.forced.sink_tokens) +
             blocks(program.forced.recent_tokens);
  }
  if (budget < least * block) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "--select {}: the budget must be at least {} tokens ({} "
                     "x {}{}), is {}",
                     name, least * block, least, block,
                     program.forced.inside_budget
                         ? ", what is read whatever its score included"
                         : "",
                     budget);
  }
  return Ok{};
}

bool HasParameter(const SelectorKind& kind, std::string_view name) {
  return std::ranges::find(kind.parameters, name, &SelectorParameter::name) !=
         kind.parameters.end();
}

// Which layers choose for those after them; what stands before is dense.
// REQUIRES: selector.dense says which layers cannot choose.
Status ReadSelectLayers(const SelectorValues& values, Selector& selector) {
  const int num_layers = static_cast<int>(selector.dense.size());
  const std::string_view text = values.GetText(kSelectLayers);
  if (text == "auto") {
    selector.keeps.assign(selector.dense.size(), false);
    for (const int layer : {2, 9}) {
      // A layer with a window cannot: the next one does.
      for (auto i = static_cast<size_t>(layer); i < selector.dense.size();
           ++i) {
        if (selector.dense[i]) continue;
        selector.keeps[i] = true;
        break;
      }
    }
  } else {
    ASSIGN_OR_RETURN(selector.keeps,
                     values.GetLayers(kSelectLayers, num_layers));
  }
  const auto first = std::ranges::find(selector.keeps, true);
  for (size_t i = 0; i < selector.keeps.size(); ++i) {
    if (selector.keeps[i] && selector.dense[i]) {
      return MakeError(ErrorCode::kInvalidArgument,
                       "{} must be layers without a window, layer {} has one",
                       values.Field(kSelectLayers), i);
    }
  }
  if (first == selector.keeps.end()) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must name a layer of the model's {}, is \"{}\"",
                     values.Field(kSelectLayers), num_layers, text);
  }
  std::fill(selector.dense.begin(),
            selector.dense.begin() + (first - selector.keeps.begin()), true);
  return Ok{};
}

}  // namespace

int Selector::ReuseLayer(int layer) const {
  if (!reuses() || dense[static_cast<size_t>(layer)] || KeepsLists(layer)) {
    return -1;
  }
  while (--layer >= 0 && !KeepsLists(layer)) {
  }
  return layer;
}

bool Selector::is_dense() const {
  return std::ranges::all_of(dense, [](bool layer) { return layer; });
}

std::string SelectorValues::Field(std::string_view name) const {
  return fmt::format("--select {}: {}", spec_.name, name);
}

std::string_view SelectorValues::GetText(std::string_view name) const {
  for (const auto& [key, value] : spec_.parameters) {
    if (key == name) return value;
  }
  const auto known =
      std::ranges::find(parameters_, name, &SelectorParameter::name);
  CHECK(known != parameters_.end(), "{} has no parameter {}", spec_.name, name);
  return known->value;
}

Result<Amount> SelectorValues::GetAmount(std::string_view name) const {
  return ParseAmount(Field(name), GetText(name));
}

Result<int> SelectorValues::GetTokens(std::string_view name) const {
  return ParseTokens(Field(name), GetText(name));
}

Result<double> SelectorValues::GetNumber(std::string_view name) const {
  const std::string_view text = GetText(name);
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() &&
      std::isfinite(number)) {
    return number;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be a number, is \"{}\"", Field(name), text);
}

Result<std::vector<bool>> SelectorValues::GetLayers(std::string_view name,
                                                    int num_layers) const {
  return ParseLayers(Field(name), GetText(name), num_layers);
}

Result<int> SelectorValues::GetBlock(std::string_view name) const {
  constexpr int kMaxBlock = 1 << 16;
  ASSIGN_OR_RETURN(const int tokens, GetTokens(name));
  if (tokens <= kMaxBlock && std::has_single_bit(unsigned(tokens))) {
    return tokens;
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be a power of two up to {}, is {}", Field(name),
                   kMaxBlock, tokens);
}

Result<int> SelectorValues::GetChoice(
    std::string_view name, std::span<const std::string_view> choices) const {
  const std::string_view text = GetText(name);
  const auto found = std::ranges::find(choices, text);
  if (found != choices.end()) {
    return static_cast<int>(found - choices.begin());
  }
  return MakeError(ErrorCode::kInvalidArgument,
                   "{} must be one of {}, is \"{}\"", Field(name),
                   List({choices.begin(), choices.end()}), text);
}

Result<Dtype> GetSummaryDtype(const SelectorValues& values,
                              const SelectorShape& shape) {
  constexpr std::string_view kForms[] = {"auto", "fp8"};
  ASSIGN_OR_RETURN(const int form, values.GetChoice("summaries", kForms));
  return form == 0 ? shape.kv_dtype : Dtype::kFloat8E4M3;
}

Status ReadAmounts(const SelectorValues& values, SelectProgram& program) {
  ASSIGN_OR_RETURN(program.forced.sink_tokens, values.GetTokens("sink"));
  ASSIGN_OR_RETURN(program.forced.recent_tokens, values.GetTokens("recent"));
  ASSIGN_OR_RETURN(program.budget, values.GetAmount("budget"));
  return Ok{};
}

Status ReadClusters(const SelectorValues& values, const SelectorShape& shape,
                    SelectProgram& program) {
  constexpr int kMaxCluster = 32;  // a page
  constexpr int kMaxIterations = 100;
  ASSIGN_OR_RETURN(const int segment, values.GetBlock("segment"));
  if (segment < kPageTokens) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be at least {}, is {}", values.Field("segment"),
                     kPageTokens, segment);
  }
  ASSIGN_OR_RETURN(program.block_tokens, values.GetBlock("cluster"));
  if (program.block_tokens > kMaxCluster) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{} must be at most {}, is {}", values.Field("cluster"),
                     kMaxCluster, program.block_tokens);
  }
  ASSIGN_OR_RETURN(program.index.iterations, values.GetTokens("iterations"));
  if (program.index.iterations < 1 ||
      program.index.iterations > kMaxIterations) {
    return MakeError(
        ErrorCode::kInvalidArgument, "{} must be from 1 to {}, is {}",
        values.Field("iterations"), kMaxIterations, program.index.iterations);
  }
  program.rows = {SummaryRows::Kind::kClusters, segment, program.block_tokens,
                  shape.kv_dtype};
  return Ok{};
}

std::span<const SelectorKind* const> AllSelectors() { return kSelectors; }

Status CheckSelectorSpelling(std::string_view text) {
  ASSIGN_OR_RETURN(const SelectSpec spec, ParseSelectSpec(text));
  ASSIGN_OR_RETURN(const SelectorKind* kind, FindKind(spec.name));
  return CheckParameters(*kind, spec);
}

Result<Selector> MakeSelector(std::string_view text,
                              const SelectorShape& shape) {
  ASSIGN_OR_RETURN(const SelectSpec spec, ParseSelectSpec(text));
  ASSIGN_OR_RETURN(const SelectorKind* kind, FindKind(spec.name));
  RETURN_IF_ERROR(CheckParameters(*kind, spec));
  const SelectorValues values(kind->parameters, spec);
  Selector selector;
  selector.name = text;
  if (HasParameter(*kind, kDenseLayers)) {
    ASSIGN_OR_RETURN(selector.dense,
                     values.GetLayers(kDenseLayers, shape.num_layers));
  } else {
    selector.dense.assign(static_cast<size_t>(shape.num_layers),
                          kind == &kDenseSelector);
  }
  for (size_t i = 0; i < shape.windows.size(); ++i) {
    if (shape.windows[i] > 0) selector.dense[i] = true;
  }
  if (HasParameter(*kind, kSelectLayers)) {
    RETURN_IF_ERROR(ReadSelectLayers(values, selector));
  }
  ASSIGN_OR_RETURN(selector.program, kind->make(values, shape));
  CheckProgram(selector.program);
  RETURN_IF_ERROR(CheckBudget(spec, selector.program, shape));
  return selector;
}

}  // namespace winnow
