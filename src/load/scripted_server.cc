#include "load/scripted_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/check.h"

namespace winnow {
namespace {

// The next request of `buffer`, taken out of it; empty: it is not whole.
std::string TakeRequest(std::string* buffer) {
  const size_t head = buffer->find("\r\n\r\n");
  if (head == std::string::npos) return {};
  constexpr std::string_view kLength = "Content-Length: ";
  const size_t at = buffer->find(kLength);
  const size_t body_bytes =
      at < head
          ? std::strtoul(buffer->c_str() + at + kLength.size(), nullptr, 10)
          : 0;
  const size_t bytes = head + 4 + body_bytes;
  if (buffer->size() < bytes) return {};
  std::string request = buffer->substr(0, bytes);
  buffer->erase(0, bytes);
  return request;
}

void Reset(int socket) {
  const linger hard = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

}  // namespace

ScriptedServer::ScriptedServer(Answer answer) : answer_(std::move(answer)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0);
  CHECK(listen(listener_, 512) == 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  StopListening();
  std::vector<std::thread> threads;
  {
    const std::scoped_lock lock(mutex_);
    for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  for (const int socket : sockets_) close(socket);
}

void ScriptedServer::StopListening() {
  if (!acceptor_.joinable()) return;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
}

size_t ScriptedServer::num_connections() {
  const std::scoped_lock lock(mutex_);
  return sockets_.size();
}

std::vector<std::string> ScriptedServer::requests() {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

void ScriptedServer::Accept() {
  while (true) {
    const int socket = accept(listener_, nullptr, nullptr);
    if (socket < 0) return;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::scoped_lock lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { Serve(socket); });
  }
}

void ScriptedServer::Serve(int socket) {
  std::string buffer;
  char bytes[4096];
  bool open = true;
  while (open) {
    const std::string request = TakeRequest(&buffer);
    if (request.empty()) {
      const ssize_t got = recv(socket, bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      buffer.append(bytes, static_cast<size_t>(got));
      continue;
    }
    size_t number = 0;
    {
      const std::scoped_lock lock(mutex_);
      number = requests_.size();
      requests_.push_back(request);
    }
    const Script script =
        answer_(number, request.substr(request.find("\r\n\r\n") + 4));
    for (const Step& step : script.steps) {
      std::this_thread::sleep_for(std::chrono::milliseconds(step.wait_ms));
      send(socket, step.bytes.data(), step.bytes.size(), MSG_NOSIGNAL);
    }
    if (script.hangs) {
      while (recv(socket, bytes, sizeof(bytes), 0) > 0) continue;
    }
    if (script.resets) Reset(socket);
    open = !script.closes && !script.resets && !script.hangs;
  }
  // The descriptor stays until the server ends, so its number is no other's.
  shutdown(socket, SHUT_RDWR);
}

std::string WholeResponse(int status, const std::string& type,
                          const std::string& body) {
  return fmt::format(
      "HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
      status, type, body.size(), body);
}

std::string StreamHead() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
         "Transfer-Encoding: chunked\r\n\r\n";
}

std::string StreamChunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string StreamEnd() { return "0\r\n\r\n"; }

}  // namespace winnow
