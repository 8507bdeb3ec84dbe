#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "rossby/tensor/device.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {

/// An array at rest, and the file that it lies in, if it does.
struct ChunkArray {
  std::span<std::byte> memory;
  std::shared_ptr<FileMemory> file;
};

/// Part of an array that goes to a slot, or back.
struct ChunkMove {
  int slot = 0;
  std::size_t offset = 0;  // in the slot, bytes
  int array = 0;
  std::size_t at = 0;  // in the array, bytes
  std::size_t bytes = 0;
  bool write = false;  // back to the array
};

/// Port: carries chunks between where their arrays rest and the slots in which they are computed. Moves of
/// one slot happen in the order in which they are asked for.
class ChunkTransport {
 public:
  virtual ~ChunkTransport() = default;
  /// Whose kernels work on the slots; null: the host's.
  [[nodiscard]] virtual Device* device() const = 0;
  virtual void add_array(ChunkArray array) = 0;
  /// Memory for one more chunk.
  virtual std::byte* add_slot(std::size_t bytes) = 0;
  virtual void move(const ChunkMove& move) = 0;
  /// What is computed on the slot from now on finds what was moved there; what was computed is moved as it is
  /// at after_use. Throws UserError where a move failed.
  virtual void before_use(int slot) = 0;
  virtual void after_use(int slot) = 0;
  /// The host waits until what was moved from the slot is where it went.
  virtual void wait_for(int slot) = 0;
  /// Every move has been made, and the host may use the arrays.
  virtual void finish() = 0;
  /// Somebody may have used the arrays.
  virtual void begin() = 0;
};

/// Files are read and written by a thread of its own where `overlap`, otherwise at once.
[[nodiscard]] std::unique_ptr<ChunkTransport> make_file_transport(bool overlap);

/// How what does not fit on a device gets there and back: from host memory as it is, or from pinned memory,
/// which the device reads without a detour; and either while the host waits, or beside the kernels.
enum class Transfer { pageable, pinned, pageable_async, pinned_async };
[[nodiscard]] constexpr bool pins(Transfer way) {
  return way == Transfer::pinned || way == Transfer::pinned_async;
}
/// By its name, pinned-async for Transfer::pinned_async. Throws UserError naming them all.
[[nodiscard]] Transfer transfer_named(std::string_view name);

/// Slots lie on `device`, arrays in memory of the host.
[[nodiscard]] std::unique_ptr<ChunkTransport> make_device_transport(Device& device, Transfer transfer);

}  // namespace rossby
