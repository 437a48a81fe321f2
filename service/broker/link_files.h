// LinkFiles: the descriptors of one link (one submitter of one job): ring, eventfd, pipe. Made by
// the broker, used by client and worker, held by the supervisor. Move-only; not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "service/transport/descriptor.h"

namespace laneway::service {

struct LinkFiles {
  Descriptor ring;        // sealed, transport/ring.h, formatted
  Descriptor submit;      // eventfd: the client wakes the worker
  Descriptor done_read;   // pipe: the worker wakes the client
  Descriptor done_write;  //

  // failed when the system has no descriptors or memory left.
  static Result<LinkFiles> make();
  // Of what a supervisor held, in the order of the members; invalid_argument unless there are four.
  static Result<LinkFiles> from(std::vector<Descriptor> fds);

  // Nothing more is taken through this link, for this reason, and its client is woken: where no
  // worker is there to say so. One that is closed already stays as it is.
  void close_ring(const Error& reason) const;
  // Why nothing more is taken; nothing while the ring is open.
  std::optional<Error> closed_reason() const;
};

// Other descriptors of the same files, in this order.
Result<std::vector<Descriptor>> copies(const std::vector<const Descriptor*>& originals);

}  // namespace laneway::service
