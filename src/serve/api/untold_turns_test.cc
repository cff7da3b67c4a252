#include "serve/api/untold_turns.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

UntoldTurns Of(const std::string& source) {
  return UntoldTurns::Of(
      *ChatTemplate::FromText("x", {.chat_template_jinja = source}));
}

// Every turn of the system, a user, a tool and the assistant that calls it.
constexpr std::string_view kAllTurns =
    R"([{"role":"system","content":"S"},{"role":"user","content":"U"},)"
    R"({"role":"assistant","content":"","tool_calls":[{"id":"c","type":)"
    R"("function","function":{"name":"f","arguments":{}}}]},)"
    R"({"role":"tool","tool_call_id":"c","content":"R"},)"
    R"({"role":"user","content":"V"}])";

TEST(UntoldTurnsTest, ATemplateThatWritesAllLeavesNothingUntold) {
  const UntoldTurns untold =
      Of("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}"
         "{{ c.function.name | upper }}{% endfor %}{% endfor %}");
  EXPECT_TRUE(untold.NamesIn(kAllTurns, "messages").empty());
}

TEST(UntoldTurnsTest, NamesWhatATemplateDrops) {
  const UntoldTurns users = Of(
      "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(users.NamesIn(kAllTurns, "messages"),
            (std::vector<std::string>{"messages.system", "messages.tool_calls",
                                      "messages.tool"}));
  const UntoldTurns contents =
      Of("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(contents.NamesIn(kAllTurns, "input"),
            std::vector<std::string>{"input.tool_calls"});
}

TEST(UntoldTurnsTest, OnlyWhatTheChatHasIsNamed) {
  const UntoldTurns users = Of(
      "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(
      users.NamesIn(R"([{"role":"user","content":"U"}])", "messages").empty());
  EXPECT_EQ(users.NamesIn(R"([{"role":"system","content":"S"},)"
                          R"({"role":"user","content":"U"}])",
                          "messages"),
            std::vector<std::string>{"messages.system"});
}

TEST(UntoldTurnsTest, ATemplateThatRefusesTheSystemLeavesItsRefusal) {
  const UntoldTurns refusing =
      Of("{% for m in messages %}{% if m.role == 'system' %}"
         "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}");
  EXPECT_FALSE(refusing.system);
}

}  // namespace
}  // namespace winnow
