// ChildDescriptors: descriptors that a child made by fork() closes before it does anything else.
// Close-on-exec does not help there: many children never exec, and one that stays alive would keep
// the pool's memory in use although its owner released it. There is one list per process, behind
// functions, because handlers of fork() can never be removed. Thread-safe.
#pragma once

namespace laneway::memory {

// Children close `descriptor` from now on, until forget_in_children. Returns false when the system
// has no room for the fork handler.
bool close_in_children(int descriptor);
// Must be called before this process closes the descriptor.
void forget_in_children(int descriptor);

}  // namespace laneway::memory
