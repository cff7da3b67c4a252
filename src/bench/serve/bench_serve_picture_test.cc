#include "bench/serve/bench_serve_picture.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>

namespace winnow {
namespace {

// What stands in the attribute points of each line of the picture.
std::vector<std::vector<std::pair<double, double>>> LinesOf(
    const std::string& picture) {
  std::vector<std::vector<std::pair<double, double>>> lines;
  const std::regex of_points("points=\"([^\"]*)\""), of_point("(\\S+),(\\S+)");
  for (std::sregex_iterator i(picture.begin(), picture.end(), of_points), end;
       i != end; ++i) {
    const std::string points = (*i)[1];
    lines.emplace_back();
    for (std::sregex_iterator j(points.begin(), points.end(), of_point);
         j != end; ++j) {
      lines.back().emplace_back(std::stod((*j)[1]), std::stod((*j)[2]));
    }
  }
  return lines;
}

LoadResult RandomResult(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::exponential_distribution<double> draw(3);
  LoadResult result;
  for (size_t i = 0; i < count; ++i) {
    LoadOutcome outcome;
    outcome.sent_s = draw(random) * 4;
    if (random() % 3 != 0) {
      outcome.first_token_s = draw(random);
      outcome.latency_s = *outcome.first_token_s;
      for (size_t j = 0; j < random() % 9; ++j) {
        outcome.gaps_s.push_back(random() % 4 == 0 ? 0 : draw(random));
        outcome.latency_s += outcome.gaps_s.back();
      }
      outcome.completion_tokens =
          static_cast<int64_t>(outcome.gaps_s.size()) + 1;
    } else {
      outcome.latency_s = draw(random);
      outcome.fault = random() % 2 == 0 ? Fault::kNone : Fault::kTimedOut;
    }
    result.seconds =
        std::max(result.seconds, outcome.sent_s + outcome.latency_s);
    result.outcomes.push_back(outcome);
  }
  return result;
}

TEST(BenchServePictureTest, AllOfItIsOnThePage) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const LoadResult result = RandomResult(seed, seed % 12);
    const std::string picture =
        ServePicture("m", result, MakeLoadFigures(result, {}));
    EXPECT_TRUE(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    EXPECT_EQ(picture.find("nan"), std::string::npos) << picture;
    EXPECT_EQ(picture.find("inf"), std::string::npos) << picture;
    for (const auto& line : LinesOf(picture)) {
      for (const auto& [x, y] : line) {
        EXPECT_TRUE(x >= 0 && x <= 860 && y >= 0 && y <= 840) << x << "," << y;
      }
    }
  }
}

// What lies below the line of tokens a second is the tokens there were.
TEST(BenchServePictureTest, TheAreaIsTheTokens) {
  LoadResult result = RandomResult(3, 40);
  const LoadFigures figures = MakeLoadFigures(result, {});
  const std::string picture = ServePicture("m", result, figures);
  const size_t begin = picture.find("generated tokens a second");
  const size_t end = picture.find("requests under way");
  ASSERT_LT(begin, end);
  std::string part = picture.substr(begin, end - begin);
  const std::regex of_most("text-anchor=\"end\">([0-9.e+]+)</text>");
  double most = 0;
  for (std::sregex_iterator i(part.begin(), part.end(), of_most), last;
       i != last; ++i) {
    most = std::max(most, std::stod((*i)[1]));
  }
  const auto lines = LinesOf(part);
  const auto& steps = lines.back();
  const double bottom = 48 + 270 + 200;
  double area = 0;
  for (size_t i = 0; i + 1 < steps.size(); i += 2) {
    area += (steps[i + 1].first - steps[i].first) * (bottom - steps[i].second);
  }
  const double tokens = area / (860 - 60 - 210) * result.seconds / 200 * most;
  EXPECT_NEAR(tokens, static_cast<double>(figures.completion_tokens),
              0.02 * static_cast<double>(figures.completion_tokens));
}

TEST(BenchServePictureTest, ATitleIsText) {
  const std::string picture = ServePicture("<a & \"b\">\n", {}, {});
  EXPECT_NE(picture.find(">&lt;a &amp; \"b\"&gt; </text>"), std::string::npos);
}

}  // namespace
}  // namespace winnow
