#include "service/broker/link_files.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/log.h"
#include "memory/os/shared_memory.h"
#include "service/transport/ring.h"

namespace laneway::service {
namespace {

Error system_error(const char* what) {
  return Error{ErrorCode::failed,
               std::string(what) + " can't be made for a job's link: " + std::strerror(errno)};
}

std::optional<memory::SharedMemory> map(const Descriptor& ring) {
  auto memory =
      memory::SharedMemory::attach(::fcntl(ring.get(), F_DUPFD_CLOEXEC, 0), Bytes(kRingBytes));
  if (memory) return std::move(memory).value();
  log_error("a ring can't be looked at: " + memory.error().message);
  return std::nullopt;
}

RingHeader& header_of(const memory::SharedMemory& memory) {
  return std::launder(reinterpret_cast<RingMemory*>(memory.data()))->header;
}

}  // namespace

Result<LinkFiles> LinkFiles::make() {
  auto memory = memory::SharedMemory::create("laneway-ring", Bytes(kRingBytes));
  if (!memory) return memory.error();
  // Fresh pages are zeros, which is what every atomic of a ring begins with.
  format_ring(*std::launder(reinterpret_cast<RingMemory*>(memory.value().data())));
  LinkFiles files;
  files.ring.reset(::fcntl(memory.value().descriptor(), F_DUPFD_CLOEXEC, 0));
  if (!files.ring.valid()) return system_error("a ring");
  files.submit.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!files.submit.valid()) return system_error("an eventfd");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return system_error("a pipe");
  files.done_read.reset(ends[0]);
  files.done_write.reset(ends[1]);
  return files;
}

Result<LinkFiles> LinkFiles::from(std::vector<Descriptor> fds) {
  if (fds.size() != 4) {
    return Error{ErrorCode::invalid_argument,
                 "a link has 4 descriptors, not " + std::to_string(fds.size())};
  }
  return LinkFiles{std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), std::move(fds[3])};
}

std::optional<Error> LinkFiles::closed_reason() const {
  const auto memory = map(ring);
  if (!memory) return std::nullopt;
  const RingHeader& header = header_of(*memory);
  if (header.closed.load(std::memory_order_acquire) == 0) return std::nullopt;
  return Error{ring_error(header.closed_code.load(std::memory_order_relaxed)),
               header.closed_text.load(header.closed_bytes.load(std::memory_order_relaxed))};
}

void LinkFiles::close_ring(const Error& reason) const {
  const auto memory = map(ring);
  if (!memory) return;
  RingHeader& header = header_of(*memory);
  if (header.closed.load(std::memory_order_acquire) == 0) {
    header.closed_bytes.store(header.closed_text.store(reason.message), std::memory_order_relaxed);
    header.closed_code.store(ring_code(reason.code), std::memory_order_relaxed);
    header.closed.store(1, std::memory_order_release);
  }
  const char doorbell = 1;
  // A full pipe wakes as well.
  if (::write(done_write.get(), &doorbell, 1) < 0 && errno != EAGAIN) {
    log_debug("a ring is closed and nobody waits for its doorbell");
  }
}

Result<std::vector<Descriptor>> copies(const std::vector<const Descriptor*>& originals) {
  std::vector<Descriptor> fds;
  for (const Descriptor* original : originals) {
    auto copy = original->duplicate();
    if (!copy) return copy.error();
    fds.push_back(std::move(copy).value());
  }
  return fds;
}

}  // namespace laneway::service
