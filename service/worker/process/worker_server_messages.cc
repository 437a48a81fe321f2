// WorkerServer: what the broker says, and who reads it.
#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"
#include "service/worker/process/worker_server.h"

namespace laneway::service {
namespace {

// Whether to carry it out takes no longer than its bookkeeping.
bool waits_for_nobody(const lanes::Action& action) {
  return std::holds_alternative<lanes::GrantTurn>(action) ||
         std::holds_alternative<lanes::RecallTurn>(action) ||
         std::holds_alternative<lanes::QueueJob>(action) ||
         std::holds_alternative<lanes::AdmitJob>(action) ||
         std::holds_alternative<lanes::ChangeLane>(action) ||
         std::holds_alternative<lanes::KeepLearnt>(action);
}

}  // namespace

Result<std::optional<Frame>> WorkerServer::next_frame() {
  if (!unread_) return broker_.receive();
  Result<std::optional<Frame>> frame = std::move(*unread_);
  unread_.reset();
  return frame;
}

bool WorkerServer::carry_out_what_came() {
  if (!reading_.try_lock()) return true;
  if (!unread_) {
    Result<std::optional<Frame>> frame = broker_.receive();
    const bool is_nothing = frame && !frame.value();
    if (!is_nothing && !(frame && carry_out_now(*frame.value()))) {
      unread_.emplace(std::move(frame));  // for the thread that polls
      broker_.wake();
    }
  }
  reading_.unlock();
  return true;
}

void WorkerServer::read_broker() {
  const MutexLock lock(reading_);
  read_all();
}

void WorkerServer::follow_broker(Channel channel) {
  const MutexLock lock(reading_);
  read_all();  // of the one before
  broker_.connect(std::move(channel));
  if (worker_ == nullptr && prepared_) prepared_->begin_anew();
  read_all();
}

void WorkerServer::read_all() {
  while (true) {
    Result<std::optional<Frame>> frame = next_frame();
    if (!frame) {
      log_info("the broker is gone: " + frame.error().message);
      return broker_.hang_up();
    }
    if (!frame.value()) return;
    on_frame(std::move(*frame.value()));
  }
}

void WorkerServer::on_frame(Frame frame) {
  const auto refuse = [this](const Error& why) {
    log_error("the broker sent what is no message for this worker: " + why.message);
    broker_.hang_up();
  };
  if (worker_ == nullptr) {
    auto message = wire::decode<wire::to_standby::Any>(frame.bytes);
    if (!message || !prepared_) {
      return refuse(message ? Error{ErrorCode::invalid_argument, "it was not started"}
                            : message.error());
    }
    const uint64_t epoch = broker_.epoch();
    return prepared_->handle(
        std::move(message).value(), std::move(frame.fds),
        [this, epoch](const wire::from_standby::Prepared& done) { broker_.send(epoch, done); });
  }
  auto message = wire::decode<wire::to_worker::Any>(frame.bytes);
  if (!message) return refuse(message.error());
  on(std::move(message).value(), std::move(frame.fds));
}

bool WorkerServer::carry_out_now(const Frame& frame) {
  const auto message = wire::decode<wire::to_worker::Any>(frame.bytes);
  if (!message) return false;
  const auto* actions = std::get_if<wire::to_worker::Actions>(&message.value());
  return actions != nullptr && carry_out_now(actions->actions);
}

bool WorkerServer::carry_out_now(const std::vector<lanes::Action>& list) {
  // A turn begins sooner without another thread's wake-up.
  const bool is_quick = std::all_of(list.begin(), list.end(), waits_for_nobody);
  return is_quick && actions_.run_if_idle([&] { worker_->carry_out(list); });
}

void WorkerServer::on(wire::to_worker::Any message, std::vector<Descriptor> fds) {
  if (auto* actions = std::get_if<wire::to_worker::Actions>(&message)) {
    if (carry_out_now(actions->actions)) return;
    actions_.post([this, list = std::move(actions->actions)] { worker_->carry_out(list); });
    return;
  }
  // What std::function holds can be copied, which descriptors cannot.
  auto with = std::make_shared<std::vector<Descriptor>>(std::move(fds));
  const uint64_t epoch = broker_.epoch();
  requests_.post([this, epoch, with, any = std::move(message)] { answer(epoch, any, *with); });
}

void WorkerServer::answer(uint64_t epoch, const wire::to_worker::Any& message,
                          std::vector<Descriptor>& fds) {
  std::visit(
      [&](const auto& one) {
        using M = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<M, wire::to_worker::Recovered>) {
          jobs_->told_all();
          report(epoch);
        } else if constexpr (std::is_same_v<M, wire::to_worker::CloseJob>) {
          if (const auto gone = jobs_->handle(one)) broker_.send(epoch, *gone);
        } else if constexpr (!std::is_same_v<M, wire::to_worker::Actions>) {
          broker_.send(epoch, answer_of(one, fds));
        }
      },
      message);
}

template <class M>
wire::from_worker::Any WorkerServer::answer_of(const M& message, std::vector<Descriptor>& fds) {
  try {
    if constexpr (requires { jobs_->handle(message, std::move(fds)); }) {
      return jobs_->handle(message, std::move(fds));
    } else {
      return jobs_->handle(message);
    }
  } catch (const std::exception& thrown) {
    wire::from_worker::Reply reply;
    reply.request = message.request;
    reply.ok = false;
    reply.code = ErrorCode::internal;
    reply.message = std::string("unexpected: ") + thrown.what();
    return reply;
  }
}

}  // namespace laneway::service
