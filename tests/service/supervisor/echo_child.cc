// A child that answers what it finds, over the channel that its parent gave it; it ends when the
// parent hangs up.
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <set>
#include <string>

#include "service/transport/supervised.h"

namespace laneway::service {
namespace {

std::string open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::set<int> numbers;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') numbers.insert(std::atoi(entry->d_name));
  }
  numbers.erase(::dirfd(folder));
  ::closedir(folder);
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

std::string answer(const std::string& question) {
  if (question == "open") return open_descriptors();
  if (question == "input") {
    std::array<char, 256> path{};
    return {path.data(),
            static_cast<size_t>(::readlink("/proc/self/fd/0", path.data(), path.size()))};
  }
  if (question == "blocked") {
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    return ::sigismember(&blocked, SIGTERM) ? "yes" : "no";
  }
  if (question == "leads its group") return ::getpgrp() == ::getpid() ? "yes" : "no";
  const char* value = std::getenv(question.substr(question.find(' ') + 1).c_str());
  return value == nullptr ? "" : value;
}

int run() {
  auto channel = take_supervisor_channel("echo_child");
  if (!channel) return 1;
  while (true) {
    auto frame = channel.value().receive_wait(seconds(60));
    if (!frame) return 0;
    const std::string question(reinterpret_cast<const char*>(frame.value().bytes.data()),
                               frame.value().bytes.size());
    const std::string text = answer(question);
    if (!channel.value().send(std::as_bytes(std::span(text))).ok()) return 0;
  }
}

}  // namespace
}  // namespace laneway::service

int main() { return laneway::service::run(); }
