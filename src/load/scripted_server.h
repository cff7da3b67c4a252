// ScriptedServer: a server whose test chooses every byte.
#ifndef WINNOW_LOAD_SCRIPTED_SERVER_H_
#define WINNOW_LOAD_SCRIPTED_SERVER_H_

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace winnow {

// Listens on a free port of this machine, with one thread for each connection.
// The destructor ends them all. Uses sockets alone, so it shares nothing with
// the client.
class ScriptedServer {
 public:
  struct Step {
    std::string bytes;
    int wait_ms = 0;  // before `bytes`
  };
  struct Script {
    std::vector<Step> steps = {};
    bool closes = false;  // the connection, after the last step
    bool resets = false;  // resets the connection instead of closing it
    bool hangs = false;   // sends nothing more until the client disconnects
  };
  // The answer to request `number`, counted from 0 in order of arrival. Called
  // on the connections' threads.
  using Answer = std::function<Script(size_t number, const std::string& body)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  int port() const { return port_; }
  size_t num_connections();
  // Whole requests, with their headers.
  std::vector<std::string> requests();
  // Accepts no further connections.
  void StopListening();

 private:
  void Accept();
  void Serve(int socket);

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;  // guards all below
  std::vector<std::thread> threads_;
  std::vector<int> sockets_;
  std::vector<std::string> requests_;
};

// "HTTP/1.1 STATUS", headers and a body of known length.
std::string WholeResponse(int status, const std::string& type,
                          const std::string& body);
// The head of a chunked stream of events, one chunk, and the end.
std::string StreamHead();
std::string StreamChunk(const std::string& bytes);
std::string StreamEnd();

}  // namespace winnow

#endif  // WINNOW_LOAD_SCRIPTED_SERVER_H_
