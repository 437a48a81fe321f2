// ChildDescriptors: descriptors that a child made by fork() closes before it does anything else.
// Close-on-exec does not help there: many children never exec, and one that lives on would keep the
// pool's memory taken although its owner gave it back. One list for the process, behind functions
// because handlers of fork() can never be taken back. Thread-safe.
#pragma once

namespace laneway::memory {

// From now on, until forget_in_children. False when the system has no room for the fork handler.
bool close_in_children(int descriptor);
// Before the descriptor is closed here.
void forget_in_children(int descriptor);

}  // namespace laneway::memory
