// A server of which a test says every byte.
#ifndef WINNOW_LOAD_SCRIPTED_SERVER_H_
#define WINNOW_LOAD_SCRIPTED_SERVER_H_

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace winnow {

// Listens on a free port of this machine, a thread a connection; ends them all
// in its destructor. Sockets alone: it shares nothing with the client.
class ScriptedServer {
 public:
  struct Step {
    std::string bytes;
    int wait_ms = 0;  // before them
  };
  struct Script {
    std::vector<Step> steps = {};
    bool closes = false;  // the connection, behind the last step
    bool resets = false;  // in place of closing it as one does
    bool hangs = false;   // says nothing more until the client goes
  };
  // The answer to the request of that number, counted from 0 as they come.
  // Called on the connections' threads.
  using Answer = std::function<Script(size_t number, const std::string& body)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  int port() const { return port_; }
  size_t num_connections();
  // Whole, with their headers.
  std::vector<std::string> requests();
  // No connection is let in from now on.
  void StopListening();

 private:
  void Accept();
  void Serve(int socket);

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::thread acceptor_;
  std::mutex mutex_;  // of what follows
  std::vector<std::thread> threads_;
  std::vector<int> sockets_;
  std::vector<std::string> requests_;
};

// "HTTP/1.1 STATUS", headers and a body of known length.
std::string WholeResponse(int status, const std::string& type,
                          const std::string& body);
// The head of a chunked stream of events; pieces of it; its end.
std::string StreamHead();
std::string StreamChunk(const std::string& bytes);
std::string StreamEnd();

}  // namespace winnow

#endif  // WINNOW_LOAD_SCRIPTED_SERVER_H_
