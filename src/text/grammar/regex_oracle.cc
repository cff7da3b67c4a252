#include "text/grammar/regex_oracle.h"

namespace winnow {

RegexOracle::RegexOracle(std::mt19937& random, int depth) {
  const Part whole = Draw(random, depth);
  pattern_ = whole.pattern;
  begin_ = whole.begin;
  end_ = whole.end;
}

RegexOracle::Part RegexOracle::Letter(char letter) {
  const Part part = {std::string(1, letter), NewState(), NewState()};
  Add(part.begin, part.end, letter);
  return part;
}

RegexOracle::Part RegexOracle::Concatenation(const Part& first,
                                             const Part& second) {
  Add(first.end, second.begin);
  return {first.pattern + second.pattern, first.begin, second.end};
}

RegexOracle::Part RegexOracle::Alternation(const Part& first,
                                           const Part& second) {
  const Part part = {"(" + first.pattern + "|" + second.pattern + ")",
                     NewState(), NewState()};
  for (const Part* each : {&first, &second}) {
    Add(part.begin, each->begin);
    Add(each->end, part.end);
  }
  return part;
}

RegexOracle::Part RegexOracle::Repetition(const Part& inner, char sign) {
  const Part part = {"(" + inner.pattern + ")" + sign, NewState(), NewState()};
  Add(part.begin, inner.begin);
  Add(inner.end, part.end);
  if (sign != '+') Add(part.begin, part.end);
  if (sign != '?') Add(inner.end, inner.begin);
  return part;
}

RegexOracle::Part RegexOracle::Draw(std::mt19937& random, int depth) {
  const unsigned kind = depth == 0 ? 0 : random() % 6;
  if (kind == 0) return Letter("abc"[random() % 3]);
  if (kind == 5)
    return Repetition(Draw(random, depth - 1), "*+?"[random() % 3]);
  const Part first = Draw(random, depth - 1);
  const Part second = Draw(random, depth - 1);
  return kind < 4 ? Concatenation(first, second) : Alternation(first, second);
}

RegexOracle::States RegexOracle::Closure(States states) const {
  size_t before = 0;
  while (before != states.size()) {
    before = states.size();
    for (const Edge& edge : edges_) {
      if (edge.letter == 0 && states.contains(edge.from)) {
        states.insert(edge.to);
      }
    }
  }
  return states;
}

RegexOracle::States RegexOracle::Begin() const { return Closure({begin_}); }

RegexOracle::States RegexOracle::After(const States& states,
                                       std::string_view text) const {
  States now = states;
  for (const char letter : text) {
    States next;
    for (const Edge& edge : edges_) {
      if (edge.letter == letter && now.contains(edge.from)) {
        next.insert(edge.to);
      }
    }
    now = Closure(std::move(next));
  }
  return now;
}

}  // namespace winnow
