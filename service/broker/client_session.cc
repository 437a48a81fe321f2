#include "service/broker/client_session.h"

#include <utility>

#include "service/broker/limits.h"

namespace laneway::service {

ClientSession::Arrival ClientSession::arrive(uint64_t number, const std::string& route,
                                             std::vector<uint64_t>& released) {
  const auto working = in_work_.find(number);
  if (working != in_work_.end()) {
    working->second = route;
    return Arrival::repeated;
  }
  if (number < highest_ || number == 0) return Arrival::stale;
  if (number == kept_number_) return Arrival::answered;
  if (in_work_.size() >= limits::kMaxRequestsInWork) return Arrival::too_many;
  highest_ = number;
  in_work_[number] = route;
  for (auto message = descriptor_messages_.begin();
       message != descriptor_messages_.end() && message->first < number;) {
    // Descriptors of a request that is being worked on were taken; their record goes with it.
    if (in_work_.contains(message->first)) {
      ++message;
      continue;
    }
    released.push_back(message->first);
    message = descriptor_messages_.erase(message);
  }
  return Arrival::fresh;
}

std::optional<std::string> ClientSession::finish(uint64_t number) {
  const auto working = in_work_.find(number);
  if (working == in_work_.end()) return {};
  std::string route = std::move(working->second);
  in_work_.erase(working);
  if (waiting_ && waiting_->number == number) waiting_.reset();
  return route;
}

void ClientSession::keep_answer(uint64_t number, std::vector<std::byte> bytes) {
  const bool small = bytes.size() <= limits::kMaxKeptAnswerBytes;
  if (number < highest_) return;  // nobody asks for it again
  kept_number_ = small ? number : 0;
  kept_ = small ? std::move(bytes) : std::vector<std::byte>();
}

bool ClientSession::wants_descriptor_message(uint64_t number) const {
  return number >= highest_ && number != kept_number_ && number != 0 &&
         !descriptor_messages_.contains(number) &&
         descriptor_messages_.size() < limits::kMaxDescriptorMessages;
}

std::vector<Descriptor> ClientSession::take_descriptor_message(uint64_t number) {
  const auto message = descriptor_messages_.find(number);
  if (message == descriptor_messages_.end()) return {};
  return std::exchange(message->second.fds, {});
}

std::optional<Error> ClientSession::descriptor_refusal(uint64_t number) const {
  const auto message = descriptor_messages_.find(number);
  return message == descriptor_messages_.end() ? std::nullopt : message->second.why;
}

std::vector<uint64_t> ClientSession::messages() const {
  std::vector<uint64_t> numbers;
  for (const auto& [number, message] : descriptor_messages_) numbers.push_back(number);
  return numbers;
}

}  // namespace laneway::service
