// winnow serve: serves a model by OpenAI's and Anthropic's APIs.
#ifndef WINNOW_CLI_SERVE_SERVE_H_
#define WINNOW_CLI_SERVE_SERVE_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command/engine_flags.h"
#include "cli/command/kv_disk.h"
#include "cli/serve/vllm_flags.h"

namespace winnow {

struct ServeFlags {
  EngineFlags engine;
  KvDiskFlags kv_disk;
  VllmFlags vllm;
  int kv_disk_drain_s = 30;
  std::vector<std::string> selects;  // empty: auto
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string api_key;
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> allowed_origins;
  std::vector<std::string> served_model_names;  // empty: the folder's name
  std::string chat_template;                    // a file; empty: the model's
  int default_max_tokens = 4096;
  int max_queued_requests = 4096;
  int max_n = 16;
  std::optional<int> max_connections;  // none: ConnectionLimit
  std::string max_body_size = "32MiB";
  std::string max_bodies_size;    // empty: eight times max_body_size
  std::string max_encoding_size;  // empty: max_body_size
  int max_header_bytes = 16 << 10;
  int max_json_depth = 32;
  std::string max_grammar_size = "256KiB";
  int max_grammar_states = 50'000;
  int max_grammar_ms = 5;
  int header_timeout_s = 10;
  int idle_timeout_s = 60;
  int write_timeout_s = 30;
  double request_timeout_s = 0;     // 0: no limit
  double max_inter_token_ms = 500;  // 0: no limit
  int max_watched_requests = 2;
  int max_read_ranges = 256;
  std::string log_format = "json";
  std::string log_level = "info";
  std::string scheduler_trace;  // a file; empty: none
  std::string max_scheduler_trace_size = "256MiB";
};

Command& AddServeCommand(Command& program, ServeFlags* flags);
// Serves until a signal. Returns the exit status: 0.
Result<int> RunServe(const ServeFlags& flags);

}  // namespace winnow

#endif  // WINNOW_CLI_SERVE_SERVE_H_
