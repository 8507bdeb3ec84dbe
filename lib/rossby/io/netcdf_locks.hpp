#pragma once

#include <string>

namespace rossby {

/// Has HDF5 leave files unlocked in this process, unless HDF5_USE_FILE_LOCKING says otherwise: file systems
/// without locks refuse them with errors of their own, and `refuse_locked` asks for itself.
void use_own_locks();

/// Throws UserError where another process holds the file locked for writing. No error where the file system
/// has no locks, or HDF5_USE_FILE_LOCKING is FALSE.
void refuse_locked(const std::string& path);

/// Why HDF5 does not open a file, as far as the file itself shows it, and what to do; empty: unknown.
[[nodiscard]] std::string why_hdf5_refuses(const std::string& path);

}  // namespace rossby
