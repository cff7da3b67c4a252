#include "simulate/step_pieces.h"

#include <gtest/gtest.h>

#include <limits>

namespace winnow {
namespace {

constexpr uint32_t kAll = ~uint32_t{0};

// One layer, two KV heads of two q heads each, levels 0.5x, 1x and 2x.
TraceHeader Header() {
  TraceHeader header;
  header.num_q_heads = 4;
  header.num_kv_heads = 2;
  header.head_dim = 64;
  header.kv_element_bytes = 2;
  header.chooses = {true};
  header.levels = {500, 1000, 2000};
  return header;
}

TraceRequest OneRow(int64_t position, TraceRowLists lists) {
  TraceRequest request;
  request.first_position = position;
  request.steps.push_back({.num_rows = 1, .layers = {{std::move(lists)}}});
  return request;
}

// Page 3 is the row's own.
TEST(StepPiecesTest, PicksAreWhatTheBudgetReadsHintsWhatComesNext) {
  const TraceList first = {.bands = {{{1, kAll}, {3, 0x3ff}}, {{0, kAll}}, {}}};
  const TraceList second = {
      .bands = {{}, {{3, 0x3ff}}, {{1, kAll}, {2, kAll}}}};
  const TraceRequest request = OneRow(3 * 32 + 9, {first, second});
  const auto pieces = PiecesOf(Header(), request, {.hint_level = 2});
  ASSERT_EQ(pieces.size(), 2u);
  const StepPieces& of_first = pieces[0][0];
  EXPECT_EQ(of_first.first_position, 105);
  EXPECT_EQ(of_first.end_position, 106);
  EXPECT_EQ(of_first.picks,
            (std::vector<WantedPiece>{{0, false}, {1, false}, {3, true}}));
  EXPECT_TRUE(of_first.hints.empty());
  EXPECT_EQ(of_first.ranked, (std::vector<RankedPiece>{{0, 1}, {1, 0}}));
  EXPECT_EQ(pieces[1][0].picks, (std::vector<WantedPiece>{{3, true}}));
  EXPECT_EQ(pieces[1][0].hints,
            (std::vector<WantedPiece>{{1, false}, {2, false}}));
  EXPECT_TRUE(
      PiecesOf(Header(), request, {.hint_level = 1})[1][0].hints.empty());
}

// Two layers, two steps: each list names a page of its own.
TEST(StepPiecesTest, HintsMayBeWhatWasPickedBefore) {
  TraceHeader header = Header();
  header.chooses = {true, true};
  TraceRequest request;
  request.first_position = 400;
  uint32_t page = 0;
  for (int step = 0; step < 2; ++step) {
    TraceStep& traced = request.steps.emplace_back();
    traced.num_rows = 1;
    for (int layer = 0; layer < 2; ++layer) {
      TraceRowLists lists(2);
      for (TraceList& list : lists) {
        list.bands = {{}, {{page++, kAll}}, {{11, kAll}}};
      }
      traced.layers.push_back({lists});
    }
  }
  const auto hints = [&](HintSource source, size_t cell, size_t step) {
    const auto pieces =
        PiecesOf(header, request, {.hint_level = 2, .hint_source = source});
    std::vector<uint32_t> pages;
    for (const WantedPiece& hint : pieces[cell][step].hints) {
      pages.push_back(hint.piece);
    }
    return pages;
  };
  // Cells are layer 0 head 0, layer 0 head 1, layer 1 head 0, layer 1 head 1.
  using Pages = std::vector<uint32_t>;
  EXPECT_EQ(hints(HintSource::kNextRanks, 3, 1), (Pages{11}));
  EXPECT_EQ(hints(HintSource::kPreviousStep, 3, 0), Pages{});
  EXPECT_EQ(hints(HintSource::kPreviousStep, 3, 1), (Pages{3}));
  EXPECT_EQ(hints(HintSource::kPreviousStep, 0, 1), (Pages{0}));
  EXPECT_EQ(hints(HintSource::kPreviousLayer, 1, 1), Pages{});
  EXPECT_EQ(hints(HintSource::kPreviousLayer, 3, 1), (Pages{5}));
  EXPECT_EQ(hints(HintSource::kPreviousLayer, 2, 0), (Pages{0}));
}

// Of two lists the greater share; page 2 is forced, and page 3 the row's own.
TEST(StepPiecesTest, ScoresAreSharesOfTheirListsRange) {
  TraceList first = {.bands = {{{1, kAll}, {3, 0x3ff}}, {{0, kAll}}, {}}};
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  first.scores = {BandScoresOf(std::vector<float>{9, kNone}),
                  BandScoresOf(std::vector<float>{5}),
                  {}};
  TraceList second = {.bands = {{{0, kAll}}, {{2, kAll}}, {{1, kAll}}}};
  second.scores = {BandScoresOf(std::vector<float>{104}),
                   {},
                   BandScoresOf(std::vector<float>{100})};
  TraceHeader header = Header();
  header.num_q_heads = 2;
  header.num_kv_heads = 1;
  const auto pieces = PiecesOf(header, OneRow(3 * 32 + 9, {first, second}), {});
  EXPECT_EQ(pieces[0][0].ranked,
            (std::vector<RankedPiece>{{0, 0, 1}, {1, 0, 1}, {2, 1, 0}}));
  const auto alone = PiecesOf(header, OneRow(3 * 32 + 9, {first}), {});
  EXPECT_EQ(alone[0][0].ranked,
            (std::vector<RankedPiece>{{0, 1, 0}, {1, 0, 1}}));
}

TEST(StepPiecesTest, APieceIsWantedWhereAnyOfItsTokensIs) {
  const TraceList list = {
      .bands = {{}, {{0, 0x00010080}, {1, 0x00000100}}, {}}};
  const TraceRequest request = OneRow(100, {list, list});
  const auto of = [&](int slot_tokens) {
    return PiecesOf(Header(), request,
                    {.slot_tokens = slot_tokens, .hint_level = 1})[0][0]
        .picks;
  };
  EXPECT_EQ(of(32), (std::vector<WantedPiece>{{0, false}, {1, false}}));
  EXPECT_EQ(of(16),
            (std::vector<WantedPiece>{{0, false}, {1, false}, {2, false}}));
  EXPECT_EQ(of(8),
            (std::vector<WantedPiece>{{0, false}, {2, false}, {5, false}}));
}

TEST(StepPiecesTest, AKvHeadWalksTheListsOfItsQHeads) {
  TraceRowLists lists(4);
  for (uint32_t i = 0; i < 4; ++i) {
    lists[i].bands = {{}, {{i, kAll}, {9, kAll}}, {}};
  }
  const auto pieces = PiecesOf(Header(), OneRow(400, lists), {.hint_level = 1});
  EXPECT_EQ(pieces[0][0].picks,
            (std::vector<WantedPiece>{
                {0, false}, {9, false}, {1, false}, {9, false}}));
  EXPECT_EQ(pieces[1][0].picks[0].piece, 2u);
  EXPECT_EQ(pieces[0][0].ranked,
            (std::vector<RankedPiece>{{0, 1}, {1, 1}, {9, 1}}));
}

TEST(StepPiecesTest, RowsThatReadAllComeLastAndOnce) {
  const TraceRowLists all = {{.reads_all = true, .bands = {}}};
  const TraceList some = {.bands = {{}, {{1, kAll}}, {}}};
  TraceRequest request;
  request.first_position = 63;
  request.steps.push_back(
      {.num_rows = 3, .layers = {{all, {some, some}, all}}});
  const StepPieces step = PiecesOf(Header(), request, {.hint_level = 1})[0][0];
  EXPECT_EQ(step.end_position, 66);
  EXPECT_EQ(step.picks, (std::vector<WantedPiece>{
                            {1, true}, {0, false}, {1, true}, {2, true}}));
  EXPECT_EQ(step.ranked, (std::vector<RankedPiece>{{0, 0, 1}}));
}

}  // namespace
}  // namespace winnow
