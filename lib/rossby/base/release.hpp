#pragma once

namespace rossby {

/// Gives the memory of a container back. (A vector that is assigned {} is emptied and keeps it: {} is a
/// list.)
template <class C>
void release(C& container) {
  C().swap(container);
}

}  // namespace rossby
