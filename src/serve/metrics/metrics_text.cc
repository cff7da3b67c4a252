#include "serve/metrics/metrics_text.h"

#include <algorithm>

namespace winnow {
namespace {

// As a label's value may have it.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Heading(std::string_view name, std::string_view help,
                    std::string_view type) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

void Histogram::Observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += value;
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const uint64_t each : counts_) count += each;
  return count;
}

std::string Histogram::Text(std::string_view name, std::string_view help,
                            std::string_view labels) const {
  std::string text = Heading(name, help, "histogram");
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    count += counts_[i];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                        bounds_[i], count);
  }
  count += counts_.back();
  text += fmt::format("{}_bucket{{{},le=\"+Inf\"}} {}\n", name, labels, count);
  text += fmt::format("{}_sum{{{}}} {}\n", name, labels, sum_);
  text += fmt::format("{}_count{{{}}} {}\n", name, labels, count);
  return text;
}

MetricsText::MetricsText(std::string_view model_name)
    : model_labels_(fmt::format("model_name=\"{}\"", Escaped(model_name))),
      engine_labels_(model_labels_ + ",engine=\"0\"") {}

std::string_view MetricsText::LabelsOf(std::string_view name) const {
  if (name.starts_with("vllm:")) return engine_labels_;
  return name.starts_with("winnow:") ? std::string_view(model_labels_) : "";
}

void MetricsText::Begin(std::string_view name, std::string_view help,
                        std::string_view type) {
  family_ = name;
  family_labels_ = LabelsOf(name);
  text_ += Heading(name, help, type);
}

void MetricsText::AddGauge(std::string_view name, std::string_view help,
                           double value) {
  Begin(name, help, "gauge");
  AddSample("", value);
}

void MetricsText::AddCounter(std::string_view name, std::string_view help,
                             double value) {
  Begin(name, help, "counter");
  AddSample("", value);
}

void MetricsText::Add(std::string_view name, std::string_view help,
                      const Histogram& histogram) {
  text_ += histogram.Text(name, help, LabelsOf(name));
}

}  // namespace winnow
