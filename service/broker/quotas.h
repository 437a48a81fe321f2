// Quotas: what clients can make the service keep, as a sum per user and in all; the one place that
// is asked before anything is made. A share is taken with what is made and given back with it, so
// nothing is counted twice or for ever. A part of everything is the operators' (the service's owner
// and root) alone, so that they are let in whatever others hold. Which limits there are:
// Quotas::defaults and docs/operating.md. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "service/wire/service_facts.h"

namespace laneway::service {

enum class Resource : uint8_t {
  sessions = 0,
  jobs = 1,
  held_bytes = 2,   // notes of jobs, the names of their slots most of all, at the supervisor
  descriptors = 3,  // of jobs, graphs, links, segments and sessions: files that the broker has open
};
inline constexpr size_t kResources = 4;

struct Quota {
  uint64_t per_user = 0;
  uint64_t in_all = 0;
  uint64_t reserved = 0;  // of in_all, for operators
};

class Quotas {
 public:
  using Limits = std::array<Quota, kResources>;
  // The defaults; of descriptors what the process may have.
  static Limits defaults();

  explicit Quotas(const Limits& limits = defaults()) : limits_(limits) {}
  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;

  // What one thing keeps, given back when it is destroyed. Move-only; must not outlive the quotas.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept : Share() { swap(other); }
    Share& operator=(Share&& other) noexcept {
      Share taken(std::move(other));
      swap(taken);
      return *this;
    }
    ~Share();

   private:
    friend class Quotas;
    Share(Quotas& quotas, Resource resource, uint32_t user, uint64_t amount)
        : quotas_(&quotas), resource_(resource), user_(user), amount_(amount) {}
    void swap(Share& other) noexcept {
      std::swap(quotas_, other.quotas_);
      std::swap(resource_, other.resource_);
      std::swap(user_, other.user_);
      std::swap(amount_, other.amount_);
    }

    Quotas* quotas_ = nullptr;  // null: nothing is kept
    Resource resource_ = Resource::sessions;
    uint32_t user_ = 0;
    uint64_t amount_ = 0;
  };

  // refused, with name, value, limit and remedy, when the user or all together would have more than
  // they may.
  Result<Share> take(Resource resource, uint32_t user, uint64_t amount);
  // Of what is there already: a predecessor of this process let it in.
  Share keep(Resource resource, uint32_t user, uint64_t amount);

  // As a status has them, in the order of Resource.
  std::vector<wire::LimitFacts> facts() const;

 private:
  struct Sums {
    std::map<uint32_t, uint64_t> of_users;
    uint64_t all = 0;
  };

  const Limits limits_;
  std::array<Sums, kResources> sums_;
};

}  // namespace laneway::service
