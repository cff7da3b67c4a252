#include "serve/request/asked_thoughts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

constexpr ThoughtStyle kNever = {};
constexpr ThoughtStyle kAlways = {.has_tags = true};
constexpr ThoughtStyle kSwitched = {.has_tags = true,
                                    .switch_name = "enable_thinking"};
constexpr ThoughtStyle kGraded = {.reads_effort = true};

AskedThoughts Effort(const std::string& effort) {
  return {.effort = effort, .effort_field = "reasoning_effort"};
}

AskedThoughts Thinks(bool thinks) {
  return {.thinks = thinks, .thinks_field = "thinking"};
}

json Variables(const AskedThoughts& asked, const ThoughtStyle& style,
               const std::string& given = "{}") {
  return json::parse(WithThoughts(given, asked, style));
}

TEST(AskedThoughtsTest, ATemplateIsGivenWhatItReads) {
  EXPECT_EQ(Variables(Effort("low"), kGraded),
            (json{{"reasoning_effort", "low"}}));
  EXPECT_EQ(Variables(Effort("low"), kSwitched),
            (json{{"enable_thinking", true}}));
  EXPECT_EQ(Variables(Effort("none"), kSwitched),
            (json{{"enable_thinking", false}}));
  EXPECT_EQ(Variables(Thinks(false), kSwitched),
            (json{{"enable_thinking", false}}));
  AskedThoughts both = Thinks(false);
  both.effort = "high";
  EXPECT_EQ(Variables(both, kSwitched), (json{{"enable_thinking", false}}));
  for (const ThoughtStyle& style : {kNever, kAlways}) {
    EXPECT_EQ(WithThoughts("{}", both, style), "{}");
  }
  EXPECT_EQ(WithThoughts(R"({"a":1})", {}, kSwitched), R"({"a":1})");
}

TEST(AskedThoughtsTest, TheTemplatesOwnWordsComeFirst) {
  const std::string given = R"({"enable_thinking":false,"z":1.0,"a":2})";
  EXPECT_EQ(WithThoughts(given, Effort("high"), kSwitched), given);
  EXPECT_EQ(WithThoughts(R"({"z":1.0,"a":2})", Effort("high"), kSwitched),
            R"({"enable_thinking":true,"z":1.0,"a":2})");
}

TEST(AskedThoughtsTest, WhatATemplateDoesNotFollowIsNamed) {
  EXPECT_EQ(FieldsNotFollowed({}, kNever), Names());
  EXPECT_EQ(FieldsNotFollowed(Effort("low"), kGraded), Names());
  EXPECT_EQ(FieldsNotFollowed(Effort("low"), kSwitched), Names());
  EXPECT_EQ(FieldsNotFollowed(Effort("low"), kNever),
            Names{"reasoning_effort"});
  EXPECT_EQ(FieldsNotFollowed(Effort("low"), kAlways),
            Names{"reasoning_effort"});
  EXPECT_EQ(FieldsNotFollowed(Effort("none"), kNever), Names());
  EXPECT_EQ(FieldsNotFollowed(Effort("none"), kAlways),
            Names{"reasoning_effort"});
  EXPECT_EQ(FieldsNotFollowed(Thinks(true), kNever), Names{"thinking"});
  EXPECT_EQ(FieldsNotFollowed(Thinks(false), kNever), Names());
  EXPECT_EQ(FieldsNotFollowed(Thinks(true), kAlways), Names());
  EXPECT_EQ(FieldsNotFollowed(Thinks(false), kAlways), Names{"thinking"});
  AskedThoughts both = Thinks(true);
  both.effort = "low";
  both.effort_field = "output_config.effort";
  EXPECT_EQ(FieldsNotFollowed(both, kSwitched), Names{"output_config.effort"});
}

}  // namespace
}  // namespace winnow
