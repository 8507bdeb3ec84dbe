#pragma once

namespace rossby {

/// Releases the memory of a container. (Assigning {} to a vector empties it but keeps the memory, because {}
/// is a list.)
template <class C>
void release(C& container) {
  C().swap(container);
}

}  // namespace rossby
