#include "service/broker/quotas.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/limits.h"
#include "service/broker/limits.h"
#include "service/broker/user_names.h"

namespace laneway::service {
namespace {

struct Words {
  const char* name;
  const char* things;
  const char* remedy;
};

constexpr std::array<Words, kResources> kWords = {{
    {"sessions", "sessions", "close one"},
    {"jobs", "jobs", "close some first"},
    {"held_bytes", "for notes of jobs (the names of their slots are most of them)",
     "close jobs, or give slots shorter names"},
    {"descriptors", "open files for jobs and sessions",
     "close some, or raise the limit of open files"},
}};

bool is_operator(uint32_t user) { return user == 0 || user == ::geteuid(); }

std::string amount_text(Resource resource, uint64_t amount) {
  return resource == Resource::held_bytes ? format_bytes(Bytes(static_cast<int64_t>(amount)))
                                          : std::to_string(amount);
}

uint64_t descriptors_for_clients() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return limits::kDescriptorsOfOwn;
  const uint64_t most = std::min<uint64_t>(limit.rlim_cur, uint64_t{1} << 30);
  return most - std::min<uint64_t>(most, limits::kDescriptorsOfOwn);
}

}  // namespace

Quotas::Limits Quotas::defaults() {
  const uint64_t descriptors = descriptors_for_clients();
  Limits all;
  all[static_cast<size_t>(Resource::sessions)] = {limits::kMaxSessionsPerUser, limits::kMaxSessions,
                                                  limits::kSessionsOfOperators};
  all[static_cast<size_t>(Resource::jobs)] = {limits::kMaxJobsPerUser, limits::kMaxJobs,
                                              limits::kJobsOfOperators};
  all[static_cast<size_t>(Resource::held_bytes)] = {
      limits::kMaxHeldBytesPerUser, limits::kMaxHeldBytesInAll, limits::kHeldBytesOfOperators};
  // A user has half, but where that is little room for a job at least.
  all[static_cast<size_t>(Resource::descriptors)] = {
      std::max<uint64_t>(descriptors / 2, std::min<uint64_t>(descriptors, 16)), descriptors,
      std::min<uint64_t>(descriptors / 8, limits::kDescriptorsOfOperators)};
  return all;
}

Quotas::Share::~Share() {
  if (quotas_ == nullptr) return;
  Sums& sums = quotas_->sums_[static_cast<size_t>(resource_)];
  sums.all -= amount_;
  const auto of_user = sums.of_users.find(user_);
  of_user->second -= amount_;
  if (of_user->second == 0) sums.of_users.erase(of_user);
}

Result<Quotas::Share> Quotas::take(Resource resource, uint32_t user, uint64_t amount) {
  const Quota& quota = limits_[static_cast<size_t>(resource)];
  const Words& words = kWords[static_cast<size_t>(resource)];
  const Sums& sums = sums_[static_cast<size_t>(resource)];
  const auto of_user = sums.of_users.find(user);
  const uint64_t has = of_user == sums.of_users.end() ? 0 : of_user->second;
  if (has + amount > quota.per_user) {
    return Error{ErrorCode::refused,
                 "user " + std::to_string(user) + " has " + amount_text(resource, has) + " " +
                     words.things + " and wants " + amount_text(resource, amount) +
                     " more; the limit of one user is " + amount_text(resource, quota.per_user) +
                     " (" + words.name + "): " + words.remedy};
  }
  const uint64_t reserved = is_operator(user) ? 0 : quota.reserved;
  if (sums.all + amount > quota.in_all - reserved) {
    return Error{
        ErrorCode::refused,
        "the service has " + amount_text(resource, sums.all) + " " + words.things + ", and " +
            amount_text(resource, amount) + " more are wanted; its limit is " +
            amount_text(resource, quota.in_all) +
            (reserved > 0 ? ", of which " + amount_text(resource, reserved) + " are the operators'"
                          : "") +
            " (" + words.name + "): try again when others have less"};
  }
  return keep(resource, user, amount);
}

Quotas::Share Quotas::keep(Resource resource, uint32_t user, uint64_t amount) {
  if (amount == 0) return {};
  Sums& sums = sums_[static_cast<size_t>(resource)];
  sums.all += amount;
  sums.of_users[user] += amount;
  return {*this, resource, user, amount};
}

std::vector<wire::LimitFacts> Quotas::facts() const {
  std::vector<wire::LimitFacts> all;
  for (size_t i = 0; i < kResources; ++i) {
    wire::LimitFacts facts{.name = kWords.at(i).name,
                           .used = sums_.at(i).all,
                           .limit = limits_.at(i).in_all,
                           .per_user = limits_.at(i).per_user,
                           .of_operators = limits_.at(i).reserved};
    for (const auto& [user, used] : sums_.at(i).of_users) {
      facts.users.push_back({.user = user_name(user), .used = used});
    }
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace laneway::service
