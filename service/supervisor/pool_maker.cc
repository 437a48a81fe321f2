#include "service/supervisor/pool_maker.h"

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/limits.h"
#include "memory/os/shared_memory.h"
#include "service/supervisor/child_environment.h"
#include "service/supervisor/child_process.h"
#include "service/supervisor/duplicates.h"
#include "service/transport/channel.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

namespace from_worker = wire::worker_to_supervisor;

// Between a program's hanging up and its end.
constexpr Duration kFarewell = seconds(2);

Error no_answer(ChildProcess& maker, const Error& error) {
  if (error.code == ErrorCode::timed_out) {
    return Error{error.code, "the program that makes the device's pool did not answer in time"};
  }
  // It hung up, which it does a little before it is gone.
  const auto end = maker.reap_within(kFarewell);
  return Error{ErrorCode::failed, "the program that makes the device's pool ended" +
                                      (end ? " with " + end->text() : std::string()) +
                                      ": see what it said above"};
}

Result<MadePool> made_pool(from_worker::PoolMade message, std::vector<Descriptor> fds) {
  if (fds.size() != (message.is_shared ? 1u : 0u) || message.pool_bytes == 0 ||
      message.alignment <= 0) {
    return Error{ErrorCode::failed, "what the maker of the device's pool sent is none"};
  }
  MadePool pool;
  if (message.is_shared) pool.descriptor = std::move(fds[0]);
  pool.size = Bytes(static_cast<int64_t>(message.pool_bytes));
  pool.alignment = message.alignment;
  pool.kernels = std::move(message.kernels);
  return pool;
}

}  // namespace

Result<MadePool> make_host_pool(Bytes size) {
  auto memory = memory::SharedMemory::create("laneway-pool", size);
  if (!memory) return memory.error();
  auto descriptor = duplicate_of(memory.value().descriptor());
  if (!descriptor) return descriptor.error();
  MadePool pool;
  pool.descriptor = std::move(descriptor).value();
  pool.size = size;
  pool.alignment = limits::kHostAlignment;
  pool.kernels = "cpu";
  return pool;
}

Result<MadePool> make_device_pool(const std::string& worker, const wire::ServiceConfig& config,
                                  Duration patience) {
  auto ends = Channel::pair();
  if (!ends) return ends.error();
  Channel channel = std::move(ends.value().first);
  auto maker =
      ChildProcess::spawn(worker, child_environment(1), std::move(ends.value().second).release());
  if (!maker) return maker.error();
  const wire::supervisor_to_worker::MakePool message{.config = config};
  if (Status sent = channel.send(wire::encode(message)); !sent) {
    return no_answer(maker.value(), sent.error());
  }
  auto frame = channel.receive_wait(patience);
  if (!frame) return no_answer(maker.value(), frame.error());
  auto answer = wire::decode<from_worker::Any>(frame.value().bytes);
  if (!answer) return answer.error();
  // Its memory of the device is free when it is gone; until then it hangs on to the channel.
  if (channel.send(wire::encode(wire::supervisor_to_worker::Stop{}))) {
    (void)channel.receive_wait(patience);
  }
  if (const auto* refused = std::get_if<from_worker::PoolRefused>(&answer.value())) {
    return Error{refused->code, refused->message};
  }
  auto* made = std::get_if<from_worker::PoolMade>(&answer.value());
  if (made == nullptr) {
    return Error{ErrorCode::failed, "what the maker of the device's pool sent is none"};
  }
  return made_pool(std::move(*made), std::move(frame.value().fds));
}

}  // namespace laneway::service
