#include "serve/http/body_bytes.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

namespace winnow {
namespace {

constexpr size_t kRoomBytes = size_t{1} << 20;

// What a room has left, found by what one more may take.
size_t RoomLeft(const std::shared_ptr<ByteCapacity>& room) {
  size_t fits = 0;
  for (size_t step = room->max_bytes(); step > 0; step /= 2) {
    if (fits + step <= room->max_bytes() &&
        ByteCapacity::Share(room).Grow(fits + step)) {
      fits += step;
    }
  }
  return fits;
}

TEST(BodyBytesTest, AreThoseThatCameHoweverTheyCome) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    BodyBytes body;
    std::string all;
    const size_t most = 1 + random() % 20'000;
    while (all.size() < 300'000) {
      const std::string piece(random() % most,
                              static_cast<char>('a' + random() % 26));
      ASSERT_EQ(body.Append(piece), std::errc());
      all += piece;
      if (random() % 64 == 0) body = BodyBytes(std::move(body));
    }
    ASSERT_EQ(body.view(), all);
  }
}

// After every piece, however small: the room lacks what is held, and that is
// what has come, in whole pages of memory.
TEST(BodyBytesTest, WhatIsHeldIsCountedAndNoMoreThanCame) {
  const size_t page = BodyBytes::HeldBytesOf(1);
  std::mt19937 random(2);
  for (const size_t most : {size_t{3}, size_t{1000}, size_t{200'000}}) {
    const auto room = std::make_shared<ByteCapacity>(kRoomBytes);
    std::optional<BodyBytes> body(room);
    while (body->view().size() < kLongBodyBytes + 10 * page) {
      ASSERT_EQ(body->Append(std::string(1 + random() % most, 'x')),
                std::errc());
      const size_t size = body->view().size();
      ASSERT_GE(body->held_bytes(), size);
      ASSERT_LT(body->held_bytes(), size + page);
      const size_t counted = size > kLongBodyBytes ? body->held_bytes() : 0;
      ASSERT_EQ(RoomLeft(room), kRoomBytes - counted) << size;
    }
    BodyBytes other = *std::move(body);
    body.reset();
    EXPECT_LT(RoomLeft(room), kRoomBytes);
    other = BodyBytes();
    EXPECT_EQ(RoomLeft(room), kRoomBytes);
  }
}

TEST(BodyBytesTest, WithoutRoomItStaysAsItIs) {
  const auto room = std::make_shared<ByteCapacity>(kRoomBytes);
  BodyBytes first(room), second(room);
  ASSERT_EQ(first.Append(std::string(kRoomBytes - kLongBodyBytes, 'a')),
            std::errc());
  // What is short needs none.
  ASSERT_EQ(second.Append(std::string(kLongBodyBytes, 'b')), std::errc());
  EXPECT_EQ(second.Append("b"), std::errc::no_buffer_space);
  EXPECT_EQ(second.view(), std::string(kLongBodyBytes, 'b'));
  first = BodyBytes();
  EXPECT_EQ(second.Append("b"), std::errc());
  // One alone may have all of it.
  second = BodyBytes();
  BodyBytes third(room);
  for (size_t i = 0; i < kRoomBytes; i += 1 << 10) {
    ASSERT_EQ(third.Append(std::string(1 << 10, 'c')), std::errc()) << i;
  }
  EXPECT_EQ(third.Append("c"), std::errc::no_buffer_space);
}

}  // namespace
}  // namespace winnow
