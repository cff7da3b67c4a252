// RegexOracle: a random regular expression and its matches, by an automaton
// that shares nothing with the library under test.
#ifndef WINNOW_TEXT_GRAMMAR_REGEX_ORACLE_H_
#define WINNOW_TEXT_GRAMMAR_REGEX_ORACLE_H_

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// Thompson's construction over the letters "abc". Every state leads to the end,
// so a text begins a match exactly if any state is left.
class RegexOracle {
 public:
  using States = std::set<int>;

  // At most `depth` operators deep.
  RegexOracle(std::mt19937& random, int depth);

  const std::string& pattern() const { return pattern_; }
  States Begin() const;
  States After(const States& states, std::string_view text) const;
  bool Accepts(const States& states) const { return states.contains(end_); }

 private:
  struct Part {
    std::string pattern;
    int begin = 0, end = 0;
  };
  struct Edge {
    int from = 0, to = 0;
    char letter = 0;  // 0: an empty edge
  };

  int NewState() { return num_states_++; }
  void Add(int from, int to, char letter = 0) {
    edges_.push_back({from, to, letter});
  }
  Part Draw(std::mt19937& random, int depth);
  Part Letter(char letter);
  Part Concatenation(const Part& first, const Part& second);
  Part Alternation(const Part& first, const Part& second);
  Part Repetition(const Part& part, char sign);
  States Closure(States states) const;

  int num_states_ = 0;
  std::vector<Edge> edges_;
  std::string pattern_;
  int begin_ = 0, end_ = 0;
};

}  // namespace winnow

#endif  // WINNOW_TEXT_GRAMMAR_REGEX_ORACLE_H_
