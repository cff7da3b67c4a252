// MetricsText: Prometheus' text format (0.0.4), and the histograms in it.
#ifndef WINNOW_SERVE_METRICS_METRICS_TEXT_H_
#define WINNOW_SERVE_METRICS_METRICS_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace winnow {

// Counts of observations up to each bound, as in Prometheus.
class Histogram {
 public:
  // REQUIRES: bounds ascend and outlive this.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1, 0) {}

  void Observe(double value);
  // `labels` without their braces; "": none.
  std::string Text(std::string_view name, std::string_view help,
                   std::string_view labels) const;
  uint64_t count() const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // for each interval; the last is unbounded
  double sum_ = 0;
};

// Writes families one after another. A family's labels follow from its name:
// "vllm:" has the model and the engine (there is one, 0), "winnow:" the model.
// Other families have neither.
class MetricsText {
 public:
  explicit MetricsText(std::string_view model_name);

  void AddGauge(std::string_view name, std::string_view help, double value);
  void AddCounter(std::string_view name, std::string_view help, double value);
  void Add(std::string_view name, std::string_view help,
           const Histogram& histogram);

  // A family of several samples: Begin, then AddSample for each, with labels
  // such as `tier="host"`. REQUIRES of AddSample: a family was begun.
  void Begin(std::string_view name, std::string_view help,
             std::string_view type);
  template <typename Value>
  void AddSample(std::string_view labels, Value value) {
    const std::string_view comma =
        family_labels_.empty() || labels.empty() ? "" : ",";
    text_ += fmt::format("{}{{{}{}{}}} {}\n", family_, family_labels_, comma,
                         labels, value);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string_view LabelsOf(std::string_view name) const;

  const std::string model_labels_, engine_labels_;
  std::string family_, family_labels_;
  std::string text_;
};

}  // namespace winnow

#endif  // WINNOW_SERVE_METRICS_METRICS_TEXT_H_
