#pragma once

#include <string>

namespace rossby {

/// Makes HDF5 leave files unlocked in this process, unless HDF5_USE_FILE_LOCKING says otherwise. File systems
/// without locks make HDF5 fail with unclear errors; `refuse_locked` checks for locks instead.
void use_own_locks();

/// Throws UserError if another process holds the file locked for writing. No error if the file system has no
/// locks, or if HDF5_USE_FILE_LOCKING is FALSE.
void refuse_locked(const std::string& path);

/// The reason why HDF5 does not open a file, as far as the file itself shows it, and what to do; empty if
/// unknown.
[[nodiscard]] std::string why_hdf5_refuses(const std::string& path);

}  // namespace rossby
