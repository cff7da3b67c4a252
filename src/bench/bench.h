// winnow bench. Most commands compare figures with the machine's roof or with
// each other, measured in the same run: step, ops, prefill, throughput, decode,
// tiers, disk, link. tables computes bytes. serve measures a server.
#ifndef WINNOW_BENCH_BENCH_H_
#define WINNOW_BENCH_BENCH_H_

#include <string>

#include "bench/serve/bench_serve.h"
#include "cli/command/engine_flags.h"

namespace winnow {

struct BenchFlags {
  EngineFlags engine;
  const Command* step_command = nullptr;  // the chosen one runs
  const Command* ops_command = nullptr;
  const Command* prefill_command = nullptr;
  const Command* decode_command = nullptr;
  const Command* tiers_command = nullptr;
  const Command* disk_command = nullptr;
  const Command* link_command = nullptr;
  const Command* tables_command = nullptr;
  const Command* serve_command = nullptr;
  int generated_tokens = 32;
  // step: as typed; lists on a GPU. prefill and link read `prompts` too.
  std::string prompts = "512", step_batches = "1";
  std::string chunks;  // prefill: as typed; empty: the engine's
  int rounds = 3;
  int decode_context_tokens = 32768;
  int prompt_context_tokens = 16384;
  bool layouts = false;
  std::string shape;  // replaces a model; empty: none
  // throughput: as typed; step and prefill read `selects` too. Empty contexts:
  // 1K, or the lengths of the lines of `tasks`.
  std::string batches = "1", contexts, selects = "dense";
  std::string tasks;  // throughput; empty: random tokens
  // tiers: context, budgets and selection as typed. decode reads batch and
  // context too.
  int tiers_batch = 1;
  std::string tiers_context = "32K", tiers_select = "quest:budget=1K";
  // decode: as typed.
  std::string decode_selects =
      "mean:budget=2K,quest:budget=2K,heads=kv,dense_layers=none,"
      "quest:budget=2K,dense_layers=none,quest:budget=2K";
  std::string cache_budgets = "4x", tiers_hints = "keep", prompt_file;
  // tables: as typed.
  std::string tables_shape = "llama-3.1-8b";
  std::string tables_contexts = "8K,32K,128K,512K,1M";
  std::string tables_batches = "1,4,16,32,64,256";
  std::string tables_selects = "quest:budget=2K,block=32";
  // disk: as typed.
  std::string kv_disk, kv_disk_size = "1GiB", disk_piece = "4MiB";
  BenchServeFlags serve;
};

// The checkpoint's folder, or the shape that replaces it.
inline const std::string& ModelName(const BenchFlags& flags) {
  return flags.shape.empty() ? flags.engine.model : flags.shape;
}

Command& AddBenchCommand(Command& program, BenchFlags* flags);
// Returns the exit status.
Result<int> RunBench(const BenchFlags& flags);

}  // namespace winnow

#endif  // WINNOW_BENCH_BENCH_H_
