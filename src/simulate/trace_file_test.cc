#include "simulate/trace_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "simulate/random_trace.h"
#include "simulate/trace_bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace winnow {
namespace {

class TraceFileTest : public testing::Test {
 protected:
  std::filesystem::path Path() const {
    return std::filesystem::path(testing::TempDir()) /
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  // Writes a trace, and gives its bytes.
  std::string Write(const TraceHeader& header,
                    const std::vector<TraceRequest>& requests) {
    TraceWriter writer(header);
    for (const TraceRequest& request : requests) writer.Add(request);
    EXPECT_TRUE(writer.Write(Path()).ok());
    const Result<std::string> bytes = ReadFile(Path(), 1 << 24);
    EXPECT_EQ(static_cast<int64_t>(bytes->size()), writer.num_bytes());
    std::filesystem::remove(Path());
    return *bytes;
  }
};

std::vector<TraceRequest> RandomRequests(const TraceHeader& header,
                                         std::mt19937_64& random) {
  std::vector<TraceRequest> requests(random() % 4);
  for (TraceRequest& request : requests) {
    request = RandomTraceRequest(header, {}, random);
  }
  return requests;
}

TEST_F(TraceFileTest, WhatIsWrittenIsRead) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const TraceHeader header = RandomTraceHeader(random);
    const std::vector<TraceRequest> requests = RandomRequests(header, random);
    Result<TraceReader> reader =
        TraceReader::Parse("t", Write(header, requests));
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    EXPECT_EQ(reader->header(), header);
    EXPECT_EQ(reader->num_requests(), std::ssize(requests));
    for (const TraceRequest& request : requests) {
      const auto read = reader->Next();
      ASSERT_TRUE(read.ok()) << read.error().message;
      ASSERT_TRUE(read->has_value());
      EXPECT_TRUE(**read == request);
    }
    EXPECT_FALSE(reader->Next()->has_value());
    EXPECT_FALSE(reader->Next()->has_value());
  }
}

TEST(BandScoresTest, AreWithinHalfAStepAndExactAtTheirEnds) {
  std::mt19937_64 random(7);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (int round = 0; round < 200; ++round) {
    std::vector<float> scores(1 + random() % 60);
    float least = -kNone, most = kNone;
    for (float& score : scores) {
      score = random() % 5 == 0
                  ? kNone
                  : std::uniform_real_distribution<float>(-3, 90)(random);
      if (score == kNone) continue;
      least = std::min(least, score);
      most = std::max(most, score);
    }
    const BandScores of = BandScoresOf(scores);
    for (size_t i = 0; i < scores.size(); ++i) {
      const float got = of.ScoreOf(i);
      if (scores[i] == kNone || scores[i] == least || scores[i] == most) {
        EXPECT_EQ(got, scores[i]);
      } else {
        EXPECT_NEAR(got, scores[i], (most - least) / 508 * 1.001f);
      }
    }
  }
  EXPECT_TRUE(BandScoresOf(std::vector<float>(3, kNone)).steps.empty());
  EXPECT_EQ(BandScoresOf(std::vector<float>(3, kNone)).ScoreOf(1), kNone);
  const BandScores widest =
      BandScoresOf(std::vector<float>{std::numeric_limits<float>::lowest(),
                                      0.0f, std::numeric_limits<float>::max()});
  EXPECT_NEAR(widest.ScoreOf(1), 0, 1e36f);
}

TEST_F(TraceFileTest, ATruncatedTraceIsOneErrorWhateverItsLength) {
  std::mt19937_64 random(3);
  const TraceHeader header = RandomTraceHeader(random);
  const std::string bytes =
      Write(header, {RandomTraceRequest(header, {.max_steps = 3}, random),
                     RandomTraceRequest(header, {.max_steps = 3}, random)});
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Result<TraceReader> reader =
        TraceReader::Parse("a.trace", bytes.substr(0, size));
    ASSERT_FALSE(reader.ok()) << "size " << size;
    EXPECT_EQ(reader.error().code, ErrorCode::kCorrupt);
    EXPECT_TRUE(reader.error().message.starts_with("a.trace: "));
    EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(TraceReader::Parse("t", bytes + '\0').ok());
  EXPECT_FALSE(TraceReader::Parse("t", bytes + bytes).ok());
}

TEST_F(TraceFileTest, AFlippedBitIsAnErrorWhereverItIs) {
  std::mt19937_64 random(4);
  const TraceHeader header = RandomTraceHeader(random);
  const std::string bytes =
      Write(header, {RandomTraceRequest(header, {.max_steps = 3}, random)});
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(TraceReader::Parse("t", flipped).ok()) << "bit " << bit;
  }
}

// As the format says it, by hand.
std::string Block(char kind, const std::string& bytes) {
  const auto word = [](uint64_t value) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &value, 8);
    return text;
  };
  const std::string head = kind + word(bytes.size());
  const uint64_t hash = XXH3_64bits_withSeed(
      bytes.data(), bytes.size(), XXH3_64bits(head.data(), head.size()));
  return head + word(hash) + bytes;
}

TEST_F(TraceFileTest, WhatIsNoTraceOfThisVersionIsNamed) {
  std::mt19937_64 random(5);
  const TraceHeader header = RandomTraceHeader(random);
  const std::string end = Block('e', std::string(8, '\0'));
  const auto with = [&](const std::string& bytes) {
    const Result<TraceReader> reader = TraceReader::Parse("t", bytes);
    return reader.ok() ? "" : reader.error().message;
  };
  const std::string first = Block('h', '\2' + EncodeHeader(header));
  EXPECT_EQ("wnwtrace" + first + end, Write(header, {}));
  EXPECT_EQ(with("wnwtrace" + first + end), "");
  EXPECT_EQ(with("wnwtrace" + Block('h', '\1' + EncodeHeader(header)) + end),
            "t: the trace's version must be 2, is 1");
  EXPECT_EQ(with("wnwtrace" + Block('h', '\3' + EncodeHeader(header)) + end),
            "t: the trace's version must be 2, is 3");
  EXPECT_EQ(with("wnwtracX" + first + end), "t: is not a trace");
  EXPECT_EQ(with("wnwtrace" + end), "t: the trace must begin with its header");
  EXPECT_EQ(with("wnwtrace" + first + first + end),
            "t: the trace has a block that does not belong there");
  EXPECT_EQ(with("wnwtrace" + first + Block('r', "x") + end),
            "t: the trace has a block that does not belong there");
  EXPECT_EQ(with("wnwtrace" + Block('h', "\2x") + end),
            "t: the trace's header is out of range");
  EXPECT_EQ(TraceReader::Open("/nowhere/t").error().code, ErrorCode::kNotFound);
}

// What a request may be made of, whatever the hash says.
TEST_F(TraceFileTest, MutatedBytesAreRefusedOrInRange) {
  int num_decoded = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    const TraceHeader header = RandomTraceHeader(random);
    std::string bytes = EncodeRequest(
        header,
        RandomTraceRequest(header, {.max_pages = 6, .max_steps = 3}, random));
    for (uint64_t i = 1 + random() % 3; i > 0; --i) {
      const size_t at = random() % bytes.size();
      if (random() % 4 == 0) {
        bytes.erase(at, 1);
      } else if (random() % 4 == 0) {
        bytes.insert(at, 1, static_cast<char>(random()));
      } else {
        bytes[at] = static_cast<char>(random());
      }
      if (bytes.empty()) break;
    }
    const std::optional<TraceRequest> request = DecodeRequest(header, bytes);
    if (!request) continue;
    ++num_decoded;
    EXPECT_TRUE(DecodeRequest(header, EncodeRequest(header, *request)) ==
                *request);
    int64_t position = request->first_position;
    for (const TraceStep& step : request->steps) {
      ASSERT_EQ(std::ssize(step.layers), header.num_choosing_layers());
      for (const auto& rows : step.layers) {
        ASSERT_EQ(std::ssize(rows), step.num_rows);
        for (int64_t row = 0; row < step.num_rows; ++row) {
          for (const TraceList& list : rows[static_cast<size_t>(row)]) {
            for (const auto& band : list.bands) {
              for (size_t i = 0; i < band.size(); ++i) {
                ASSERT_NE(band[i].tokens, 0u);
                ASSERT_LE(int64_t{band[i].page} * kPageTokens +
                              (31 - std::countl_zero(band[i].tokens)),
                          position + row);
                ASSERT_TRUE(i == 0 || band[i - 1].page < band[i].page);
              }
            }
            for (size_t level = 0; level < list.scores.size(); ++level) {
              const BandScores& scores = list.scores[level];
              ASSERT_TRUE(scores.steps.empty() ||
                          scores.steps.size() == list.bands[level].size());
              ASSERT_LE(scores.least, scores.most);
            }
          }
        }
      }
      position += step.num_rows;
    }
  }
  EXPECT_GT(num_decoded, 100);
}

TEST_F(TraceFileTest, MutatedHeadersAreRefusedOrInRange) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::string bytes = EncodeHeader(RandomTraceHeader(random));
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const std::optional<TraceHeader> header = DecodeHeader(bytes);
    if (!header) continue;
    EXPECT_TRUE(DecodeHeader(EncodeHeader(*header)) == *header);
    EXPECT_GT(header->num_kv_heads, 0);
    EXPECT_EQ(header->num_q_heads % header->num_kv_heads, 0);
    EXPECT_GE(header->budget_level(), 0);
  }
}

// 200 rows of four layers and two KV heads, 64 of 1,024 pages and as many next
// ranks: what 32K of context make.
TEST_F(TraceFileTest, AnAnswerOverALongTextIsSmall) {
  std::mt19937_64 random(6);
  TraceHeader header = RandomTraceHeader(random);
  header.num_q_heads = header.num_kv_heads = 2;
  header.chooses = {true, true, true, true};
  header.levels = {kBudgetLevel, 2 * kBudgetLevel};
  TraceRequest request;
  request.first_position = 32 << 10;
  for (int i = 0; i < 200; ++i) {
    TraceStep& step = request.steps.emplace_back();
    step.num_rows = 1;
    for (int layer = 0; layer < 4; ++layer) {
      TraceRowLists lists(2);
      for (TraceList& list : lists) {
        list.bands.resize(2);
        list.scores.resize(2);
        for (uint32_t page = 0; page < 1024; ++page) {
          const uint64_t draw = random() % 16;
          if (draw < 2) list.bands[draw].push_back({page, ~uint32_t{0}});
        }
        for (size_t level = 0; level < 2; ++level) {
          list.scores[level] =
              BandScoresOf(std::vector<float>(list.bands[level].size(), 1.0f));
        }
      }
      step.layers.push_back({lists});
    }
  }
  // 200 KiB of it are scores.
  EXPECT_LT(Write(header, {request}).size(), size_t{550} << 10);
}

}  // namespace
}  // namespace winnow
