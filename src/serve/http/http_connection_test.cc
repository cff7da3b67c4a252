// Whole connections to a server whose answers are known: what a client of each
// version reads, and where it may ask again.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "serve/http/http_server.h"

namespace winnow {
namespace {

// Streams at /stream, its parts without a wait between them.
class Stream : public HttpAnswer {
 public:
  void SetWake(std::function<void()>) override {}
  HttpPart Take() override {
    switch (num_taken_++) {
      case 0:
        return {.head = HttpHead{.content_type = "text/event-stream",
                                 .streams = true},
                .body = "data: 1\n\n"};
      case 1:
        return {.body = "data: 2\n\n"};
      default:
        return {.last = true};
    }
  }
  std::optional<std::chrono::steady_clock::time_point> due() const override {
    return std::nullopt;
  }

 private:
  int num_taken_ = 0;
};

// Has begun at /never, and says no more.
class Never : public HttpAnswer {
 public:
  void SetWake(std::function<void()>) override {}
  HttpPart Take() override {
    if (std::exchange(has_begun_, true)) return {};
    return {.head = HttpHead{.streams = true}, .body = "begun"};
  }
  std::optional<std::chrono::steady_clock::time_point> due() const override {
    return std::nullopt;
  }

 private:
  bool has_begun_ = false;
};

class PathHandler : public HttpHandler {
 public:
  std::unique_ptr<HttpAnswer> AnswerHead(const HttpRequest& head) override {
    if (head.path != "/refused") return nullptr;
    return Told(404, "refused");
  }
  std::unique_ptr<HttpAnswer> Answer(HttpRequest request) override {
    if (request.path == "/stream") return std::make_unique<Stream>();
    if (request.path == "/never") return std::make_unique<Never>();
    return Told(200, request.path);
  }
  std::unique_ptr<HttpAnswer> Refuse(const HttpRequest&, int status,
                                     const std::string& message) override {
    return Told(status, message);
  }

 private:
  static std::unique_ptr<HttpAnswer> Told(int status, std::string body) {
    return std::make_unique<WholeAnswer>(HttpHead{.status = status},
                                         std::move(body));
  }
};

bool Connects(int client, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(client, reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)) == 0;
}

class HttpConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpLimits limits;
    limits.idle_time = std::chrono::seconds(2);  // Until it fails, not passes.
    auto server = HttpServer::Bind("127.0.0.1", 0, limits);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
    server_->Start(handler_, 1);
  }

  int Connect() const {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_TRUE(Connects(client, server_->port()));
    return client;
  }
  static void Send(int client, std::string_view sent) {
    EXPECT_EQ(send(client, sent.data(), sent.size(), MSG_NOSIGNAL),
              std::ssize(sent));
  }
  // All that comes back until the server closes.
  std::string Ask(std::string_view sent) const {
    const int client = Connect();
    Send(client, sent);
    std::string read;
    char piece[4096];
    for (ssize_t got = 1; got > 0;) {
      got = recv(client, piece, sizeof(piece), 0);
      if (got > 0) read.append(piece, static_cast<size_t>(got));
    }
    close(client);
    return read;
  }

  PathHandler handler_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kLast =
    "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

int NumStatusLines(std::string_view read) {
  int num = 0;
  for (size_t at = 0; (at = read.find("HTTP/1.1 ", at)) != read.npos; ++at) {
    ++num;
  }
  return num;
}

// The head of an answer, up to the blank line.
std::string HeadIn(const std::string& read) {
  return read.substr(0, read.find("\r\n\r\n"));
}

// Whoever asks again on the connection reads the next answer, not this one's
// body; the one that would be refused too.
TEST_F(HttpConnectionTest, HeadIsGetWithoutItsBody) {
  for (const std::string path : {"/a", "/refused", "/stream"}) {
    const std::string of_get = Ask(
        "GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" + std::string(kLast));
    const std::string of_head = Ask(
        "HEAD " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" + std::string(kLast));
    EXPECT_EQ(HeadIn(of_head), HeadIn(of_get));
    EXPECT_EQ(NumStatusLines(of_head), 2) << of_head;
    const size_t end = HeadIn(of_head).size() + 4;
    EXPECT_EQ(of_head.compare(end, 15, "HTTP/1.1 200 OK"), 0) << of_head;
    EXPECT_TRUE(of_head.ends_with("\r\n\r\n/last")) << of_head;
  }
  const std::string broken = Ask("HEAD /%zz HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(broken.starts_with("HTTP/1.1 400 ")) << broken;
  EXPECT_TRUE(broken.ends_with("\r\n\r\n")) << broken;
  EXPECT_EQ(broken.find("Content-Length: 0"), broken.npos);
}

TEST_F(HttpConnectionTest, AStreamToAnOlderClientEndsWithItsConnection) {
  for (const std::string asks : {"", "Connection: keep-alive\r\n"}) {
    const std::string read = Ask("GET /stream HTTP/1.0\r\n" + asks + "\r\n");
    EXPECT_TRUE(read.ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n")) << read;
    EXPECT_EQ(read.find("Transfer-Encoding"), read.npos) << read;
    EXPECT_NE(read.find("Connection: close"), read.npos) << read;
  }
  const std::string now =
      Ask("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n" + std::string(kLast));
  EXPECT_NE(now.find("9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"),
            now.npos)
      << now;
  EXPECT_EQ(NumStatusLines(now), 2);
}

TEST_F(HttpConnectionTest, AnOlderClientStaysWhereItAsksForIt) {
  const std::string one = "GET /a HTTP/1.0\r\n";
  const std::string leaves = Ask(one + "\r\n" + one + "\r\n");
  EXPECT_EQ(NumStatusLines(leaves), 1) << leaves;
  const std::string stays =
      Ask(one + "Connection: keep-alive\r\n\r\n" + one + "\r\n");
  EXPECT_EQ(NumStatusLines(stays), 2) << stays;
  EXPECT_NE(HeadIn(stays).find("Connection: keep-alive"), stays.npos);
}

TEST_F(HttpConnectionTest, APathIsWhatItsEscapesMean) {
  const std::string end = " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  EXPECT_TRUE(Ask("GET /org%2Fname" + end).ends_with("\r\n\r\n/org/name"));
  const std::string broken = Ask("GET /org%2" + end);
  EXPECT_TRUE(broken.starts_with("HTTP/1.1 400 ")) << broken;
  EXPECT_NE(broken.find("hexadecimal"), broken.npos);
}

TEST_F(HttpConnectionTest, AnEndWaitsForAnswersNoLongerThanItIsTo) {
  const int client = Connect();
  Send(client, "GET /never HTTP/1.1\r\nHost: h\r\n\r\n");
  char first = 0;
  ASSERT_EQ(recv(client, &first, 1, 0), 1);
  EXPECT_FALSE(server_->DrainWithin(std::chrono::milliseconds(20)));
  close(client);
  EXPECT_TRUE(server_->DrainWithin(std::chrono::minutes(1)));
}

// Of the thread sanitizer: the one that closes is not the one that accepts.
TEST(HttpServerTest, ClientsMayComeWhileItCloses) {
  PathHandler handler;
  int num_clients = 0;
  for (int round = 0; round < 20; ++round) {
    const auto server = HttpServer::Bind("127.0.0.1", 0, {}).value();
    server->Start(handler, 4);
    std::thread clients([&num_clients, port = server->port()] {
      for (bool connects = true; connects;) {
        const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_GE(client, 0);
        connects = Connects(client, port);
        num_clients += connects;
        close(client);
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(server->DrainWithin(std::chrono::minutes(1)));
    clients.join();
  }
  EXPECT_GT(num_clients, 0);
}

TEST_F(HttpConnectionTest, AFewEmptyLinesBeforeARequestAreNoneOfIt) {
  const std::string one = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string read = Ask("\r\n\r\n" + one + "\r\n" + std::string(kLast));
  EXPECT_EQ(NumStatusLines(read), 2) << read;
  const std::string many = Ask("\r\n\r\n\r\n\r\n\r\n" + one);
  EXPECT_TRUE(many.starts_with("HTTP/1.1 400 ")) << many;
  // Its halves may come one after the other.
  const int client = Connect();
  Send(client, "\r");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Send(client, "\n" + one);
  char begin[15] = {};
  ASSERT_EQ(recv(client, begin, sizeof(begin), MSG_WAITALL), 15);
  EXPECT_EQ(std::string_view(begin, 15), "HTTP/1.1 200 OK");
  close(client);
}

// A line's end within a path is a byte of it, not of the request.
TEST_F(HttpConnectionTest, AnEscapeEndsNoLine) {
  const std::string read =
      Ask("GET /a%20HTTP/1.1%0d%0a%0d%0aGET%20/b HTTP/1.1\r\nHost: h\r\n"
          "Connection: close\r\n\r\n");
  EXPECT_EQ(NumStatusLines(HeadIn(read)), 1) << read;
  EXPECT_TRUE(read.ends_with("/a HTTP/1.1\r\n\r\nGET /b")) << read;
}

}  // namespace
}  // namespace winnow
