#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "rossby/tensor/device.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {

/// An array in storage, and its file if it has one.
struct ChunkArray {
  std::span<std::byte> memory;
  std::shared_ptr<FileMemory> file;
};

/// Part of an array that moves to a slot, or back.
struct ChunkMove {
  int slot = 0;
  std::size_t offset = 0;  // bytes in the slot
  int array = 0;
  std::size_t at = 0;  // bytes in the array
  std::size_t bytes = 0;
  bool write = false;  // true: back to the array
};

/// Port: moves chunks between the storage of their arrays and the slots used for computation. Moves of one
/// slot happen in the order of their requests.
class ChunkTransport {
 public:
  virtual ~ChunkTransport() = default;
  /// The device whose kernels work on the slots; null: the host.
  [[nodiscard]] virtual Device* device() const = 0;
  virtual void add_array(ChunkArray array) = 0;
  /// Returns memory for one more chunk.
  virtual std::byte* add_slot(std::size_t bytes) = 0;
  virtual void move(const ChunkMove& move) = 0;
  /// before_use: later computation on the slot sees the moved data. after_use: later moves see the computed
  /// data. before_use throws UserError if a move failed.
  virtual void before_use(int slot) = 0;
  virtual void after_use(int slot) = 0;
  /// Waits on the host until moves out of the slot have arrived.
  virtual void wait_for(int slot) = 0;
  /// Completes every move. The host may then use the arrays.
  virtual void finish() = 0;
  /// The host may have used the arrays.
  virtual void begin() = 0;
};

/// Returns a transport that reads and writes files, in its own thread if `overlap`, otherwise at once.
[[nodiscard]] std::unique_ptr<ChunkTransport> make_file_transport(bool overlap);

/// How data that do not fit on a device travel: from pageable host memory, or from pinned memory, which the
/// device reads directly. The async ways run beside the kernels; with the others the host waits.
enum class Transfer { pageable, pinned, pageable_async, pinned_async };
[[nodiscard]] constexpr bool pins(Transfer way) {
  return way == Transfer::pinned || way == Transfer::pinned_async;
}
/// The transfer with this name, e.g. "pinned-async" for Transfer::pinned_async. Throws UserError with all
/// names.
[[nodiscard]] Transfer transfer_named(std::string_view name);

/// Returns a transport with slots on `device` and arrays in host memory.
[[nodiscard]] std::unique_ptr<ChunkTransport> make_device_transport(Device& device, Transfer transfer);

}  // namespace rossby
