#include "service/worker/jobs/guarded_state.h"

namespace laneway::service {

GuardedState::~GuardedState() {
  if (memory == nullptr) return;
  for (const PieceKind kind : {PieceKind::snapshot, PieceKind::redo_log, PieceKind::write_log}) {
    memory->release_all(kind, owner);
  }
}

}  // namespace laneway::service
