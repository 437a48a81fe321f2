#include "service/client/connection.h"

#include <poll.h>

#include <algorithm>

#include "base/torch_version.h"
#include "base/version.h"
#include "memory/os/child_descriptors.h"
#include "service/client/limits.h"
#include "service/transport/unix_socket.h"
#include "service/wire/codec.h"

namespace laneway::service {
namespace {

// How often somebody who waits for a reply looks whether the service is still there.
constexpr Duration kLook = milliseconds(100);
// A service that is there answers a greeting within moments; it may be under heavy load.
constexpr Duration kGreeting = seconds(30);
// Descriptors of a reply are sent before it, on another socket.
constexpr Duration kDescriptorMessage = seconds(30);
// One that did not answer the last request is not likely to answer the goodbye either; it notices
// the end of the lifeline as soon as it runs again.
constexpr Duration kGoodbyeToSilence = milliseconds(500);
constexpr size_t kMostProgramBytes = 256;

template <class M>
std::vector<std::byte> encoded(const M& message, uint64_t request, const wire::Token& token) {
  return wire::encode(message, {.request = request, .token = token});
}

Error nobody_there(const Address& address, const std::string& why) {
  return Error{ErrorCode::unavailable,
               "no service at " + address.text() + " (" + why +
                   "): start one with `lanewayd`, name another address (LANEWAY_ADDRESS), or use "
                   "an embedded service"};
}

// Which client it is that the service, or that this client, refuses for its version.
Error with_version(Error error) {
  if (error.code != ErrorCode::unsupported) return error;
  error.message += std::string("; this client is Laneway ") + version();
  return error;
}

void wait_a_moment() { ::poll(nullptr, 0, 20); }

// What the broker says to a lifeline.
Status check_ready(const Frame& frame) {
  auto message = wire::decode<wire::AnyLifeline>(frame.bytes);
  if (!message) return message.error();
  if (auto* failure = std::get_if<wire::Failure>(&message.value())) {
    return Error{failure->code, failure->message};
  }
  if (std::holds_alternative<wire::LifelineReady>(message.value())) return {};
  return Error{ErrorCode::internal, "the service greets a lifeline with something else"};
}

// Whether a reply of this kind comes with descriptors.
bool brings_descriptor_message(const wire::AnyReply& reply) {
  return std::holds_alternative<wire::JobCreated>(reply) ||
         std::holds_alternative<wire::JobAttached>(reply);
}

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const Options& options, const Clock& clock) {
  if (Status valid = check_torch_version_text(options.torch_version); !valid) return valid.error();
  Result<Address> address = Address::parse_or_standard(options.address);
  if (!address) return address.error();
  const bool unlimited = options.timeout.ns() < 0;
  const TimePoint until = clock.now() + options.timeout;
  // A ZeroMQ socket cannot tell that nobody is there; this one can.
  Result<Descriptor> lifeline = connect_unix(address.value().descriptor_path());
  while (!lifeline) {
    if (lifeline.error().code == ErrorCode::refused) return lifeline.error();
    if (!unlimited && clock.now() >= until) {
      return nobody_there(address.value(), lifeline.error().message);
    }
    wait_a_moment();
    lifeline = connect_unix(address.value().descriptor_path());
  }
  Result<ZmqClient> socket = ZmqClient::open(address.value());
  if (!socket) return socket.error();
  std::unique_ptr<Connection> made(
      new Connection(std::move(address).value(), std::move(socket).value(), options, clock));
  if (Status greeted = made->greet(std::move(lifeline).value(), options.program); !greeted) {
    return greeted.error();
  }
  return made;
}

Connection::~Connection() { close(Duration()); }

Status Connection::greet(Descriptor lifeline, const std::string& program) {
  const TimePoint until = clock_.now() + std::min(kGreeting, answer_);
  MutexLock lock(mutex_);
  if (Status set = set_lifeline(std::move(lifeline)); !set) return set;
  Result<Reply> reply = exchange(
      wire::Hello{.client_version = version(), .program = program.substr(0, kMostProgramBytes)}, {},
      until);
  if (!reply) return with_version(reply.error());
  auto* welcome = std::get_if<wire::Welcome>(&reply.value().message);
  if (welcome == nullptr) return unexpected_reply("Welcome");
  welcome_ = std::move(*welcome);
  return open_lifeline(until);
}

Status Connection::set_lifeline(Descriptor socket) {
  if (lifeline_.valid()) memory::forget_in_children(lifeline_.descriptor());
  lifeline_ = Channel(std::move(socket), kLifelineLimits);
  // A child that lives on would keep the session alive after its owner's death.
  if (lifeline_.valid() && !memory::close_in_children(lifeline_.descriptor())) {
    return Error{ErrorCode::out_of_memory, "no memory for a handler of fork(): free some first"};
  }
  return {};
}

Status Connection::open_lifeline(TimePoint until) {
  const std::vector<std::byte> hello = encoded(
      wire::LifelineHello{.session = welcome_.session, .token = welcome_.token}, 0, welcome_.token);
  Error why = nobody_there(address_, "it did not answer");
  while (clock_.now() < until) {
    // Said again when nothing comes: the broker that took it may have died.
    Result<Frame> answer = why;
    if (const Status sent = lifeline_.send(hello); sent) {
      answer = lifeline_.receive_wait(std::min(until - clock_.now(), limits::kFirstResend));
    } else {
      answer = sent.error();
    }
    if (answer) return check_ready(answer.value());
    if (answer.error().code == ErrorCode::timed_out) continue;
    why = nobody_there(address_, answer.error().message);
    wait_a_moment();
    Result<Descriptor> socket = connect_unix(address_.descriptor_path());
    if (!socket) continue;
    if (Status set = set_lifeline(std::move(socket).value()); !set) return set;
  }
  return why;
}

Result<Reply> Connection::request(const wire::AnyRequest& message, const std::vector<int>& fds) {
  take_turn();
  Result<Reply> reply = closed_error();
  if (!closed_) {
    MutexLock lock(mutex_);
    reply = exchange(message, fds, clock_.now() + answer_);
  }
  end_turn();
  return reply;
}

Result<Reply> Connection::exchange(const wire::AnyRequest& message, const std::vector<int>& fds,
                                   TimePoint until) {
  if (lost_) return *lost_;
  const uint64_t number = ++last_request_;
  const TimePoint begun = clock_.now();
  silent_ = false;
  descriptor_message_.reset();
  const Outgoing outgoing{
      .number = number,
      .bytes = wire::encode(message, {.request = number, .token = welcome_.token}),
      .fds = fds,
      .until = until};
  Duration patience = limits::kFirstResend;
  while (clock_.now() < until) {
    if (Status sent = send(outgoing); !sent) return sent.error();
    auto reply = receive(number, std::min(until, clock_.now() + patience));
    if (!reply) return reply.error();
    if (reply.value()) {
      if (auto* failure = std::get_if<wire::Failure>(&*reply.value())) {
        return Error{failure->code, std::move(failure->message)};
      }
      return Reply{
          .message = std::move(*reply.value()),
          .fds =
              std::exchange(descriptor_message_, std::nullopt).value_or(std::vector<Descriptor>())};
    }
    patience = std::min(patience * 2, limits::kLongestResend);
  }
  silent_ = true;
  const int64_t waited_s = ((until - begun).ns() + 999'999'999) / 1'000'000'000;
  return Error{ErrorCode::timed_out, "the service at " + address_.text() +
                                         " did not answer within " + std::to_string(waited_s) +
                                         " s: it is stopped, or very busy; its log tells why"};
}

Status Connection::send(const Outgoing& outgoing) {
  if (!outgoing.fds.empty()) {
    std::vector<Descriptor> copies;
    for (const int fd : outgoing.fds) {
      Descriptor borrowed(fd);
      Result<Descriptor> copy = borrowed.duplicate();
      (void)borrowed.release();
      if (!copy) return copy.error();
      copies.push_back(std::move(copy).value());
    }
    const wire::DescriptorMessage message{.request = outgoing.number};
    const Status sent =
        lifeline_.send(encoded(message, outgoing.number, welcome_.token), std::move(copies));
    if (!sent) {
      if (sent.error().code == ErrorCode::unavailable) lost_ = gone();
      return lost_ ? *lost_ : sent.error();
    }
  }
  const Status sent = socket_.send(outgoing.bytes);
  // Nobody takes it now: it will be sent again.
  return !sent && sent.error().code == ErrorCode::refused ? Status() : sent;
}

Result<std::optional<wire::AnyReply>> Connection::receive(uint64_t number, TimePoint until) {
  std::optional<wire::AnyReply> reply;
  TimePoint end = until;
  while (true) {
    if (closed_ && !leaving_) return closed_error();
    if (Status alive = read_lifeline(number); !alive) return alive.error();
    if (reply && (descriptor_message_ || !brings_descriptor_message(*reply))) return reply;
    const Duration left = end - clock_.now();
    if (left.ns() <= 0) return std::optional<wire::AnyReply>();
    if (reply) {  // its descriptors are on their way
      wait_a_moment();
      continue;
    }
    Result<std::vector<std::byte>> bytes = socket_.receive(std::min(left, kLook));
    if (!bytes) {
      if (bytes.error().code == ErrorCode::timed_out) continue;
      return bytes.error();
    }
    const auto header = wire::decode_header(bytes.value());
    if (!header) return header.error();
    if (header.value().envelope.request != number) continue;  // an answer to what was sent twice
    auto message = wire::decode<wire::AnyReply>(bytes.value());
    if (!message) return message.error();
    reply = std::move(message).value();
    if (brings_descriptor_message(*reply)) end = clock_.now() + kDescriptorMessage;
  }
}

Status Connection::read_lifeline(uint64_t number) {
  // Before there is a session nothing comes here, and a hang-up says only that the broker which
  // had accepted the connection died: open_lifeline makes another.
  if (welcome_.session == 0) return {};
  while (true) {
    Result<std::optional<Frame>> frame = lifeline_.receive();
    if (!frame) {
      lost_ = frame.error().code == ErrorCode::unavailable ? gone() : frame.error();
      return *lost_;
    }
    if (!frame.value()) break;
    const auto decoded = wire::decode<wire::AnyLifeline>(frame.value()->bytes);
    if (!decoded) return decoded.error();
    if (const auto* failure = std::get_if<wire::Failure>(&decoded.value())) {
      lost_ = Error{failure->code, failure->message};
      return *lost_;
    }
    const auto* message = std::get_if<wire::DescriptorMessage>(&decoded.value());
    // A broker that takes over may send one a second time.
    if (message == nullptr || message->request != number || descriptor_message_) continue;
    descriptor_message_ = std::move(frame.value()->fds);
  }
  if (!lifeline_.wants_write()) return {};
  const Status flushed = lifeline_.flush();
  if (!flushed) lost_ = gone();
  return lost_ ? Status(*lost_) : Status();
}

void Connection::close(Duration patience) {
  if (closed_.exchange(true)) return;
  take_turn();
  {
    MutexLock lock(mutex_);
    leaving_ = true;
    // The service would find out by the lifeline's end; this way its log says that we left.
    const bool greeted = welcome_.session != 0 && !lost_;
    if (silent_) patience = std::min(patience, kGoodbyeToSilence);
    if (greeted) (void)exchange(wire::Bye{}, {}, clock_.now() + std::min(patience, answer_));
    lost_ = closed_error();
    (void)set_lifeline(Descriptor());
  }
  end_turn();
}

Error Connection::closed_error() const {
  return Error{ErrorCode::unavailable, "the service was closed; open another one"};
}

Error Connection::gone() const {
  return Error{ErrorCode::unavailable,
               "the service at " + address_.text() +
                   " has ended, and its jobs with it: start lanewayd again, connect anew and go on "
                   "from your last state_dict"};
}

Error Connection::unexpected_reply(const char* wanted) {
  return Error{ErrorCode::internal,
               std::string("the service answered with another message than ") + wanted};
}

void Connection::take_turn() {
  MutexLock lock(turn_mutex_);
  const uint64_t turn = next_turn_++;
  while (serving_ != turn) turn_changed_.wait(turn_mutex_);
}

void Connection::end_turn() {
  MutexLock lock(turn_mutex_);
  ++serving_;
  turn_changed_.notify_all();
}

}  // namespace laneway::service
