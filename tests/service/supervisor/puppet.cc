#include "tests/service/supervisor/puppet.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "service/transport/supervised.h"
#include "service/transport/unix_socket.h"

namespace laneway::testing {

int Puppet::run() {
  auto channel = service::take_supervisor_channel(name_);
  auto test = service::connect_unix(std::getenv("LANEWAY_TEST_CONTROL"));
  if (!channel || !test) return 99;
  supervisor_ = std::move(channel).value();
  test_ = std::move(test).value();
  report(name_);
  while (!leave_ || (supervisor_.valid() && supervisor_.wants_write())) {
    std::vector<pollfd> entries = {{test_.get(), POLLIN, 0}};
    if (supervisor_.valid() && !deaf_) {
      const int write = supervisor_.wants_write() ? POLLOUT : 0;
      entries.push_back({supervisor_.descriptor(), static_cast<short>(POLLIN | write), 0});
    }
    if (peer_.valid()) entries.push_back({peer_.descriptor(), POLLIN, 0});
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[0].revents != 0) on_test();
    if (supervisor_.valid() && !deaf_) on_supervisor();
    if (peer_.valid()) on_peer();
  }
  return *leave_;
}

void Puppet::report(const std::string& line) {
  const std::string text = line + "\n";
  if (::send(test_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) leave_ = 98;
}

void Puppet::on_test() {
  std::array<char, 4096> text{};
  const ssize_t size = ::read(test_.get(), text.data(), text.size());
  if (size <= 0) {
    leave_ = 98;
    return;
  }
  unfinished_.append(text.data(), static_cast<size_t>(size));
  for (size_t end = unfinished_.find('\n'); end != std::string::npos;
       end = unfinished_.find('\n')) {
    const std::string line = unfinished_.substr(0, end);
    unfinished_.erase(0, end + 1);
    obey(line);
  }
}

void Puppet::obey(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words[0] == "exit") {
    leave_ = std::atoi(words[1].c_str());
  } else if (words[0] == "garbage") {
    (void)supervisor_.send(std::as_bytes(std::span(words[0])));
  } else if (words[0] == "hangup") {
    supervisor_ = service::Channel();
  } else if (words[0] == "deaf") {
    deaf_ = true;  // neither reads nor notices that its supervisor hangs up
  } else if (words[0] == "peer") {
    (void)peer_.send(std::as_bytes(std::span(words[1])));
  } else {
    on_line(words);
  }
  report("done " + line);
}

void Puppet::on_supervisor() {
  (void)supervisor_.flush();
  while (supervisor_.valid()) {
    auto frame = supervisor_.receive();
    if (!frame) {
      report("hung up");
      supervisor_ = service::Channel();
      return;
    }
    if (!frame.value()) return;
    on_frame(std::move(*frame.value()));
  }
}

void Puppet::on_peer() {
  while (true) {
    auto frame = peer_.receive();
    if (!frame) {
      report("peer gone");
      peer_ = service::Channel();
      return;
    }
    if (!frame.value()) return;
    const auto& bytes = frame.value()->bytes;
    report("peer " + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
}

service::Descriptor text_in_memory(const std::string& text) {
  service::Descriptor memory(::memfd_create("laneway-test", MFD_CLOEXEC));
  if (::pwrite(memory.get(), text.data(), text.size(), 0) < 0) return {};
  return memory;
}

std::string text_of_memory(const service::Descriptor& memory) {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(memory.get(), text.data(), text.size(), 0);
  return {text.data(), size < 0 ? 0 : static_cast<size_t>(size)};
}

}  // namespace laneway::testing
