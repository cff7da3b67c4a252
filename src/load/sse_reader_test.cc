#include "load/sse_reader.h"

#include <gtest/gtest.h>

#include <random>

namespace winnow {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

struct Case {
  std::string stream;
  Events events;  // name, data
};

// Each with what the standard says of it.
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"data: {\"a\": 1}\n\ndata: [DONE]\n\n",
       {{"", "{\"a\": 1}"}, {"", "[DONE]"}}},
      {"data: one\r\n\r\ndata: two\r\n\r\n", {{"", "one"}, {"", "two"}}},
      {"data: one\r\rdata: two\r\r", {{"", "one"}, {"", "two"}}},
      {"data: one\r\ndata: two\r\n\r\n", {{"", "one\ntwo"}}},
      {"event: a\rdata: one\rdata: two\r\r", {{"a", "one\ntwo"}}},
      // LF and CR are two line ends.
      {"data: one\n\rdata: two\n\r", {{"", "one"}, {"", "two"}}},
      {": ping\n\ndata: x\n: in it\n\n", {{"", "x"}}},
      {"event: delta\ndata: x\n\ndata: y\n\n", {{"delta", "x"}, {"", "y"}}},
      {"data: first\ndata: second\ndata\n\n", {{"", "first\nsecond\n"}}},
      {"data:no space\n\ndata:  two spaces\n\n",
       {{"", "no space"}, {"", " two spaces"}}},
      {"id: 7\nretry: 10\nother: z\ndata: x\n\n", {{"", "x"}}},
      {"event: nothing\n\ndata: x\n\n", {{"", "x"}}},
      {"\xEF\xBB\xBF"
       "data: behind a mark\n\n",
       {{"", "behind a mark"}}},
      {"data: a:b: c\n\n", {{"", "a:b: c"}}},
      {"data: \xC3\xA9\xE2\x82\xAC\n\n", {{"", "\xC3\xA9\xE2\x82\xAC"}}},
      {"data: cut off\n", {}},
      {"data: cut", {}},
      {"\n\n\n", {}},
      {"", {}}};
  return cases;
}

Events Read(const std::vector<std::string_view>& pieces) {
  SseReader reader;
  std::vector<SseReader::Event> found;
  for (const std::string_view piece : pieces) reader.Feed(piece, &found);
  Events events;
  for (const SseReader::Event& event : found) {
    events.emplace_back(event.name, event.data);
  }
  return events;
}

TEST(SseReaderTest, EventsOfEachForm) {
  for (const Case& each : Cases()) {
    EXPECT_EQ(Read({each.stream}), each.events) << each.stream;
  }
}

TEST(SseReaderTest, ByteByByte) {
  for (const Case& each : Cases()) {
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < each.stream.size(); ++i) {
      bytes.push_back(std::string_view(each.stream).substr(i, 1));
    }
    EXPECT_EQ(Read(bytes), each.events) << each.stream;
  }
}

TEST(SseReaderTest, EveryCutInThree) {
  for (const Case& each : Cases()) {
    const std::string_view stream = each.stream;
    for (size_t one = 0; one <= stream.size(); ++one) {
      for (size_t two = one; two <= stream.size(); ++two) {
        EXPECT_EQ(Read({stream.substr(0, one), stream.substr(one, two - one),
                        stream.substr(two)}),
                  each.events)
            << "cut at " << one << " and " << two << " of " << stream;
      }
    }
  }
}

TEST(SseReaderTest, RandomBytesAreCutAnywhere) {
  std::mt19937 random(11);
  constexpr std::string_view kAlphabet = "\r\n: datevn";
  for (int round = 0; round < 2000; ++round) {
    std::string stream;
    for (size_t i = 0; i < 60; ++i) {
      stream += random() % 4 == 0
                    ? std::string("data:")
                    : std::string(1, kAlphabet[random() % kAlphabet.size()]);
    }
    const size_t cut = random() % stream.size();
    EXPECT_EQ(
        Read({stream.substr(0, 0), std::string_view(stream).substr(0, cut),
              std::string_view(stream).substr(cut)}),
        Read({stream}))
        << stream << " cut at " << cut;
  }
}

TEST(SseReaderTest, KeepsWhatIsNotWholeAlone) {
  SseReader reader;
  std::vector<SseReader::Event> events;
  reader.Feed("data: 12345\n", &events);
  EXPECT_GE(reader.pending_bytes(), 5u);
  reader.Feed("\n", &events);
  EXPECT_EQ(reader.pending_bytes(), 0u);
}

}  // namespace
}  // namespace winnow
