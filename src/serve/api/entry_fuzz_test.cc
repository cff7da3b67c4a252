// The fuzzers' corpus, in every test run; what HTTP has also over connections.
#include "serve/api/entry_fuzz.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>

#include "base/file.h"
#include "source_dir.h"

namespace winnow {
namespace {

using Fuzz = std::function<void(std::span<const std::byte>)>;

void RunCorpus(const char* name, const Fuzz& fuzz) {
  const std::filesystem::path folder =
      std::filesystem::path(WINNOW_SOURCE_DIR) / "src/serve/fuzz_corpus" / name;
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const auto content = ReadFile(entry.path(), size_t{1} << 20);
    ASSERT_TRUE(content.ok()) << content.error().message;
    // Of exactly its size, so that a sanitizer sees a byte too far.
    const std::vector<char> bytes(content->begin(), content->end());
    fuzz(std::as_bytes(std::span(bytes)));
    ++num_files;
  }
  EXPECT_GE(num_files, 10) << folder;
}

// Keeps what it is asked; each answer is one word.
class KeepingHandler : public HttpHandler {
 public:
  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest&) override {
    return nullptr;
  }
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override {
    const std::scoped_lock lock(mutex_);
    const bool streams = request.path.starts_with("/stream");
    reading_.requests.push_back(std::move(request));
    return std::make_unique<WholeAnswer>(HttpHead{.streams = streams}, "said");
  }
  std::unique_ptr<HttpAnswer> Refuse(const HttpRequest&, int status,
                                     const std::string&) override {
    const std::scoped_lock lock(mutex_);
    reading_.refused_with = status;
    return std::make_unique<WholeAnswer>(HttpHead{.status = status}, "said");
  }
  HttpReading TakeReading() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(reading_, {});
  }

 private:
  std::mutex mutex_;  // for what follows
  HttpReading reading_;
};

// All that a client reads which sends `bytes` and closes its side.
std::string Ask(int port, std::span<const std::byte> bytes) {
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)),
            0);
  // It may be refused before all is sent.
  (void)!send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(client, SHUT_WR);
  std::string read;
  char piece[4096];
  for (ssize_t got = 1; got > 0;) {
    got = recv(client, piece, sizeof(piece), 0);
    if (got > 0) read.append(piece, static_cast<size_t>(got));
  }
  close(client);
  return read;
}

// The number of whole answers that `text` is; -1 where it is something else.
int NumAnswers(std::string_view text) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  int num = 0;
  while (!text.empty()) {
    if (text.starts_with(kContinue)) {
      text.remove_prefix(kContinue.size());
      continue;
    }
    const size_t blank = text.find("\r\n\r\n");
    if (!text.starts_with("HTTP/1.1 ") || blank == std::string_view::npos) {
      return -1;
    }
    const std::string_view head = text.substr(0, blank);
    const bool chunked =
        head.find("Transfer-Encoding: chunked") != std::string_view::npos;
    const std::string_view said = chunked ? "4\r\nsaid\r\n0\r\n\r\n" : "said";
    text.remove_prefix(blank + 4);
    if (!text.starts_with(said)) return -1;
    text.remove_prefix(said.size());
    ++num;
  }
  return num;
}

TEST(EntryFuzzTest, RequestCorpusMakesNoFinding) {
  RunCorpus("request", FuzzRequest);
}

TEST(EntryFuzzTest, HttpCorpusMakesNoFinding) { RunCorpus("http", FuzzHttp); }

TEST(EntryFuzzTest, AConnectionReadsAsTheParserDoes) {
  KeepingHandler handler;
  auto server = HttpServer::Bind("127.0.0.1", 0, FuzzedLimits());
  ASSERT_TRUE(server.ok()) << server.error().message;
  (*server)->Start(handler, 2);
  RunCorpus("http", [&](std::span<const std::byte> bytes) {
    const std::string said = Ask((*server)->port(), bytes);
    const HttpReading reading = handler.TakeReading();
    const HttpReading alone =
        ReadHttp({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                 bytes.size() + 1);
    CheckSame(reading, alone);
    EXPECT_EQ(reading.refused_with, alone.refused_with);
    EXPECT_EQ(NumAnswers(said), std::ssize(reading.requests) +
                                    (reading.refused_with != 0 ? 1 : 0))
        << said;
  });
  (*server)->Drain();
}

}  // namespace
}  // namespace winnow
