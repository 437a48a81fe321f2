#include "service/broker/replies.h"

#include <utility>

namespace laneway::service {
namespace {

// Failure and JobWaits have room for this beside their other fields.
constexpr size_t kLongestText = 6'000;

}  // namespace

std::string short_enough(std::string text) {
  if (text.size() <= kLongestText) return text;
  size_t end = kLongestText;
  // Never in the middle of a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  text.resize(end);
  return text + "…";
}

void Replies::send(const ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> fds) {
  if (to && way_) way_(to, reply, std::move(fds));
}

void Replies::fail(const ReplyTo& to, const Error& error) {
  send(to, wire::Failure{error.code, short_enough(error.message)});
}

void Replies::answer(ReplyTo& to, const wire::AnyReply& reply, std::vector<Descriptor> fds) {
  send(std::exchange(to, {}), reply, std::move(fds));
}

void Replies::refuse(ReplyTo& to, const Error& error) { fail(std::exchange(to, {}), error); }

}  // namespace laneway::service
