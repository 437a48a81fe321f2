// Puppet: what the tests' stand-ins for broker and worker have in common. A puppet connects to the
// test's control socket (environment variable LANEWAY_TEST_CONTROL), reports there every message
// that it gets, one line each, and does what the test's lines say. It ends when either side hangs
// up, unless it was told to go on without its supervisor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "service/transport/channel.h"

namespace laneway::testing {

class Puppet {
 public:
  explicit Puppet(const char* name) : name_(name) {}
  virtual ~Puppet() = default;

  int run();

 protected:
  // A frame from the supervisor.
  virtual void on_frame(service::Frame frame) = 0;
  // A line of the test that is not known to every puppet.
  virtual void on_line(const std::vector<std::string>& words) = 0;

  void report(const std::string& line);
  service::Channel& supervisor() { return supervisor_; }
  // The other one of broker and worker: texts that it sends are reported as "peer TEXT".
  void set_peer(service::Descriptor peer) { peer_ = service::Channel(std::move(peer)); }

 private:
  void on_test();
  void obey(const std::string& line);
  void on_supervisor();
  void on_peer();

  const char* name_;
  service::Descriptor test_;
  std::string unfinished_;  // of the test's lines
  service::Channel supervisor_;
  service::Channel peer_;
  std::optional<int> leave_;
  bool deaf_ = false;
};

// Memory behind a descriptor, to see that it is the same in another process.
service::Descriptor text_in_memory(const std::string& text);
std::string text_of_memory(const service::Descriptor& memory);

}  // namespace laneway::testing
