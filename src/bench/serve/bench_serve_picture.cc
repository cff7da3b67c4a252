#include "bench/serve/bench_serve_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace winnow {
namespace {

// As lab/train/draw_curves.py draws, with the same colours (Okabe and Ito
// 2008).
constexpr double kWidth = 860, kLeft = 60, kRight = 210, kTop = 48;
constexpr double kPanelHeight = 200, kPanelStep = 270;
constexpr double kHeight = kTop + 3 * kPanelStep - 20;
constexpr std::array<const char*, 4> kColours = {"#000000", "#0072b2",
                                                 "#d55e00", "#009e73"};
constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 2", "9 3 2 3"};
constexpr int kMostPoints = 150;

struct Point {
  double x = 0;
  double y = 0;
};

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

std::string Words(double x, double y, const std::string& words,
                  const char* anchor = "start") {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
      anchor, Escaped(words));
}

std::string LineThrough(const std::vector<Point>& points, const char* colour,
                        const char* dashes = "") {
  std::string line = fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"{}\" points=\"",
      colour, dashes);
  for (const Point& point : points) {
    line += fmt::format("{:.1f},{:.1f} ", point.x, point.y);
  }
  line.back() = '"';
  return line + "/>\n";
}

// Where a panel stands, and the values at its edges.
struct Panel {
  double top = 0;
  double most_y = 1;
  double begin = 0, end = 1;  // of x; their decimal logarithms where `decades`
  bool decades = false;

  Point Place(double x, double y) const {
    const double at = decades ? std::log10(x) : x;
    const double share = std::clamp((at - begin) / (end - begin), 0.0, 1.0);
    return {kLeft + (kWidth - kLeft - kRight) * share,
            top + kPanelHeight * (1 - std::clamp(y / most_y, 0.0, 1.0))};
  }
  double bottom() const { return top + kPanelHeight; }
};

std::string Frame(const Panel& panel, const std::string& title) {
  std::string drawn = Words(kLeft, panel.top - 10, title);
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = panel.top + kPanelHeight * (1 - share);
    drawn += LineThrough({{kLeft, y}, {kWidth - kRight, y}}, "#dddddd");
    drawn += Words(kLeft - 6, y + 4, fmt::format("{:g}", panel.most_y * share),
                   "end");
  }
  return drawn;
}

std::string Legend(const Panel& panel, size_t index, const std::string& words) {
  const double x = kWidth - kRight + 14;
  const double y = panel.top + 12 + 34 * static_cast<double>(index);
  const size_t comma = words.find(';');
  return LineThrough({{x, y}, {x + 24, y}}, kColours[index], kDashes[index]) +
         Words(x + 30, y + 4, words.substr(0, comma)) +
         Words(x + 30, y + 18, words.substr(comma + 1));
}

std::string DrawLatencies(const LoadFigures& figures) {
  const std::array<std::pair<const char*, const Samples*>, 4> curves = {
      {{"first token", &figures.ttft_ms},
       {"each later token", &figures.tpot_ms},
       {"between tokens", &figures.itl_ms},
       {"whole answer", &figures.e2el_ms}}};
  constexpr double kLeastMs = 0.01;
  double least = 1e9, most = kLeastMs;
  for (const auto& [name, samples] : curves) {
    if (samples->empty()) continue;
    // Tokens that came together have no time between them.
    least = std::min(least, std::max(kLeastMs, samples->Percentile(10)));
    most = std::max(most, samples->Percentile(100));
  }
  Panel panel{.top = kTop, .decades = true};
  panel.begin = std::floor(std::log10(std::min(least, most)));
  panel.end = std::max(panel.begin + 1, std::ceil(std::log10(most)));
  std::string drawn = Frame(panel, "share below, by milliseconds");
  for (double decade = panel.begin; decade <= panel.end; ++decade) {
    const double x = panel.Place(std::pow(10, decade), 0).x;
    drawn += LineThrough({{x, panel.top}, {x, panel.bottom()}}, "#dddddd");
    drawn += Words(x, panel.bottom() + 16,
                   fmt::format("{:g} ms", std::pow(10, decade)), "middle");
  }
  for (size_t i = 0; i < curves.size(); ++i) {
    const Samples& samples = *curves[i].second;
    if (samples.empty()) continue;
    std::vector<Point> points;
    for (int step = 0; step <= kMostPoints; ++step) {
      const double share = static_cast<double>(step) / kMostPoints;
      const double ms = std::max(kLeastMs, samples.Percentile(100 * share));
      points.push_back(panel.Place(ms, share));
    }
    drawn += LineThrough(points, kColours[i], kDashes[i]);
    drawn +=
        Legend(panel, i,
               fmt::format("{};{:.3g} ms, p99 {:.3g} ms", curves[i].first,
                           samples.Percentile(50), samples.Percentile(99)));
  }
  return drawn;
}

// The least of 1, 2, 4, 6 and 8 times a power of ten that is not below: its
// quarters are short numbers.
double EvenAbove(double value) {
  double power = 1;
  while (power * 10 < value) power *= 10;
  for (const double digit : {1.0, 2.0, 4.0, 6.0, 8.0}) {
    if (digit * power >= value) return digit * power;
  }
  return 10 * power;
}

// `values[i]` from i to i + 1 of so many equal parts of the run.
std::string DrawOverTime(const std::string& title, double top, double seconds,
                         const std::vector<double>& values,
                         const char* colour) {
  Panel panel{.top = top, .end = seconds};
  panel.most_y = EvenAbove(*std::ranges::max_element(values));
  std::string drawn = Frame(panel, title);
  const double step = seconds / static_cast<double>(values.size());
  std::vector<Point> points;
  for (size_t i = 0; i < values.size(); ++i) {
    const double begin = step * static_cast<double>(i);
    points.push_back(panel.Place(begin, values[i]));
    points.push_back(panel.Place(begin + step, values[i]));
  }
  drawn += LineThrough(points, colour);
  for (const double at : {0.0, seconds / 2, seconds}) {
    drawn += Words(panel.Place(at, 0).x, panel.bottom() + 16,
                   fmt::format("{:.3g} s", at), "middle");
  }
  return drawn;
}

struct Timeline {
  std::vector<double> tokens_per_second, under_way;
};

// A request's tokens count evenly over its events: what one holds is not told.
Timeline TimelineOf(const LoadResult& result, double seconds) {
  constexpr size_t kParts = 100;
  const double step = seconds / double{kParts};
  Timeline line{.tokens_per_second = std::vector<double>(kParts, 0.0),
                .under_way = std::vector<double>(kParts, 0.0)};
  const auto part = [&](double at) {
    return std::min(kParts - 1, static_cast<size_t>(std::max(0.0, at) / step));
  };
  for (const LoadOutcome& outcome : result.outcomes) {
    const double end = outcome.sent_s + outcome.latency_s;
    for (size_t i = 0; i < kParts; ++i) {
      const double from = step * static_cast<double>(i);
      const double shared =
          std::min(end, from + step) - std::max(outcome.sent_s, from);
      line.under_way[i] += std::max(0.0, shared) / step;
    }
    const auto tokens = static_cast<double>(outcome.completion_tokens);
    if (!outcome.first_token_s) {
      if (outcome.answered())
        line.tokens_per_second[part(end)] += tokens / step;
      continue;
    }
    const double events = static_cast<double>(outcome.gaps_s.size()) + 1;
    double at = outcome.sent_s + *outcome.first_token_s;
    line.tokens_per_second[part(at)] += tokens / events / step;
    for (const double gap : outcome.gaps_s) {
      at += gap;
      line.tokens_per_second[part(at)] += tokens / events / step;
    }
  }
  return line;
}

}  // namespace

std::string ServePicture(const std::string& title, const LoadResult& result,
                         const LoadFigures& figures) {
  const double seconds = std::max(1e-3, result.seconds);
  const Timeline line = TimelineOf(result, seconds);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" "
             "height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"{}\" height=\"{}\" fill=\"white\"/>\n",
             kWidth, kHeight, kWidth, kHeight) +
         Words(kLeft, 18, title) + DrawLatencies(figures) +
         DrawOverTime("generated tokens a second", kTop + kPanelStep, seconds,
                      line.tokens_per_second, kColours[1]) +
         DrawOverTime("requests under way", kTop + 2 * kPanelStep, seconds,
                      line.under_way, kColours[2]) +
         "</svg>\n";
}

}  // namespace winnow
