#include "model/config/rope_config.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

Result<RopeConfig> ReadRope(std::string_view text,
                            int64_t max_positions = 4096) {
  return ReadRopeConfig(JsonFields::Parse(text, "config.json", {}).value(), 8,
                        max_positions);
}

std::string RopeFailure(std::string_view text) {
  const Result<RopeConfig> read = ReadRope(text);
  return read.ok() ? "no failure" : read.error().message;
}

TEST(RopeConfigTest, AbsentIsTheDefaultAtTenThousand) {
  for (const char* text : {"{}", R"({"rope_scaling": null})",
                           R"({"rope_scaling": {}, "rope_parameters": {}})"}) {
    const RopeConfig rope = ReadRope(text).value();
    EXPECT_EQ(rope.kind, RopeKind::kDefault) << text;
    EXPECT_EQ(rope.theta, 10000) << text;
    EXPECT_EQ(rope.rotary_dim, 8) << text;
    EXPECT_EQ(MaxContextTokens(rope), 4096) << text;
  }
}

TEST(RopeConfigTest, BothSpellingsSayTheSame) {
  for (const char* text :
       {R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3",
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}})",
        R"({"rope_theta": 5e5, "rope_scaling": {"type": "llama3",
            "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 64}})",
        R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000,
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}})"}) {
    const RopeConfig rope = ReadRope(text).value();
    EXPECT_EQ(rope.kind, RopeKind::kLlama3) << text;
    EXPECT_EQ(rope.theta, 500000) << text;
    EXPECT_EQ(rope.factor, 8) << text;
    EXPECT_EQ(rope.original_positions, 64) << text;
    EXPECT_EQ(MaxContextTokens(rope), 4096) << text;
  }
}

TEST(RopeConfigTest, YarnDerivesItsFactorAndStretchesTheContext) {
  const RopeConfig derived = ReadRope(R"({"rope_scaling": {"rope_type": "yarn",
               "original_max_position_embeddings": 1024}})")
                                 .value();
  EXPECT_EQ(derived.factor, 4);
  EXPECT_EQ(derived.beta_fast, 32);
  EXPECT_EQ(derived.beta_slow, 1);
  EXPECT_FALSE(derived.attention_factor.has_value());
  const RopeConfig given =
      ReadRope(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
               "attention_factor": 1.1, "beta_fast": 16, "truncate": false,
               "original_max_position_embeddings": 4096}})")
          .value();
  EXPECT_EQ(MaxContextTokens(given), 16384);
  EXPECT_EQ(given.attention_factor, 1.1);
  EXPECT_EQ(given.beta_fast, 16);
  EXPECT_FALSE(given.truncate);
}

TEST(RopeConfigTest, LongRopeTakesTheOuterOriginalLengthFirst) {
  const RopeConfig rope =
      ReadRope(R"({"original_max_position_embeddings": 2048, "rope_scaling":
              {"rope_type": "longrope", "short_factor": [1, 1, 1, 1],
               "long_factor": [1, 2, 3, 4],
               "original_max_position_embeddings": 1024}})")
          .value();
  EXPECT_EQ(rope.original_positions, 2048);
  EXPECT_EQ(rope.factor, 2);
  EXPECT_EQ(rope.long_factors, (std::vector<double>{1, 2, 3, 4}));
}

TEST(RopeConfigTest, FailuresNameTheField) {
  EXPECT_EQ(RopeFailure(R"({"rope_scaling": {"type": "mrope"}})"),
            "config.json: field rope_scaling.type: must be one of default, "
            "linear, dynamic, llama3, yarn, longrope, is \"mrope\"");
  EXPECT_EQ(RopeFailure(R"({"rope_scaling": {"type": "linear"}})"),
            "config.json: field rope_scaling.factor: must be a number in [1, "
            "65536], is missing");
  EXPECT_EQ(RopeFailure(R"({"rope_theta": 0})"),
            "config.json: field rope_theta: must be a number in [2, "
            "1000000000000], is 0");
  EXPECT_EQ(RopeFailure(R"({"rope_scaling": {"type": "longrope",
                        "short_factor": [1, 1, 1, 1],
                        "long_factor": [1, 1, 1]}})"),
            "config.json: field rope_scaling.long_factor: must be a list of 4 "
            "numbers in [0.001, 1000], is [1,1,1]");
  EXPECT_EQ(RopeFailure(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8,
                        "low_freq_factor": 4, "high_freq_factor": 4}})"),
            "config.json: field rope_scaling.high_freq_factor: must be above "
            "low_freq_factor (4), is 4");
  EXPECT_EQ(RopeFailure(R"({"partial_rotary_factor": 0.5})"),
            "config.json: field partial_rotary_factor: must be 1, is 0.5");
  EXPECT_EQ(RopeFailure(R"({"rope_parameters": {"full_attention": {}}})"),
            "config.json: field rope_parameters.full_attention: must be absent "
            "(one rope for all layers), is {}");
  EXPECT_EQ(RopeFailure(R"({"rope_scaling": "yarn"})"),
            "config.json: field rope_scaling: must be an object, is \"yarn\"");
}

}  // namespace
}  // namespace winnow
