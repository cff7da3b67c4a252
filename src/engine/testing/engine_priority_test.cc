#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/engine.h"
#include "tests/golden/tiny_model.h"

namespace winnow {
namespace {

// Tells whose turn it was.
class Turn : public RequestObserver {
 public:
  Turn(std::string name, std::string* ended)
      : name_(std::move(name)), ended_(ended) {}

  void OnPrefill(int, int) override {}
  bool OnToken(const GeneratedToken&) override { return true; }
  void OnFinish(const Completion&) override { *ended_ += name_ + " "; }

 private:
  const std::string name_;
  std::string* const ended_;
};

// One at a time: whoever runs goes on, whoever comes has its turn.
TEST(EnginePriorityTest, StartsLowerOnesFirstAndEqualsAsTheyCame) {
  const TinyCase golden = ReadTinyCase("llama");
  const auto model = LoadTinyModel(golden, Dtype::kFloat32);
  const auto backend = MakeCpuBackend({.num_threads = 1});
  EngineOptions options;
  options.device_kv_bytes = 4 << 20;
  options.max_model_len = 96;
  options.max_num_seqs = 1;
  const auto engine = Engine::Create(*backend, *model, options).value();
  std::string ended;
  std::vector<std::unique_ptr<Turn>> turns;
  for (const int priority : {3, 5, 1, 5, -3}) {
    Request request;
    request.prompt = {golden.tokens.begin(), golden.tokens.begin() + 40};
    request.max_tokens = 3;
    request.priority = priority;
    turns.push_back(
        std::make_unique<Turn>(fmt::format("{}", turns.size()), &ended));
    ASSERT_TRUE(engine->Add(std::move(request), turns.back().get()).ok());
    if (turns.size() > 1) continue;
    ASSERT_TRUE(engine->Step().value());
  }
  while (engine->Step().value()) {
  }
  EXPECT_EQ(ended, "0 4 2 1 3 ");
}

}  // namespace
}  // namespace winnow
