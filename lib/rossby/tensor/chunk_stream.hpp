#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Storage and transfer of a stream's arrays.
struct ChunkStreamOptions {
  std::string folder;                          // of the files; empty with a device: host memory
  Device* device = nullptr;                    // runs the kernels on chunks; null: the host does
  Transfer transfer = Transfer::pinned_async;  // to the device
  Index rows = 0;                              // per array
  Index row_bytes = 0;                         // bytes per row of every array
  Index chunk_rows = 1;                        // rows per chunk; the last chunk may have fewer
  std::size_t budget = 0;  // bytes for chunks (on the device, if any); at least two chunks
  bool overlap = true;     // true: a thread reads and writes files during computation
  /// With a device: the host applies the updates. Gradients leave the device, chunks hold only weights, and
  /// moments stay on the host.
  bool host_updates = false;
};

/// Arrays (rows, row_bytes) in files, or in host memory in front of a device. Sweeps over chunks of rows work
/// on them: each chunk is taken, computed and given back. Meanwhile later chunks are loaded and finished ones
/// leave, as far ahead as there is room. Chunks stay while the budget allows, and leave when their room is
/// needed. If everything fits, nothing moves. A sweep in the opposite direction still finds the last chunks
/// in memory.
class ChunkStream {
 public:
  explicit ChunkStream(ChunkStreamOptions options);
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  /// Adds an array of zeros. Call before the first sweep; the array must outlive the last one. Throws
  /// UserError if there is no room, or if two chunks of all arrays exceed the budget.
  template <class S>
  [[nodiscard]] Buffer<S> add() {
    Buffer<S> array = make<S>(options_.device && pins(options_.transfer));
    add_array({std::as_writable_bytes(array.span()), array.shared_file()});
    return array;
  }
  /// Returns memory of the same kind that no sweep touches.
  template <class S>
  [[nodiscard]] Buffer<S> spare() const {
    return make<S>(false);
  }
  /// The device whose kernels work on the chunks; null: the host.
  [[nodiscard]] Device* device() const { return options_.device; }
  [[nodiscard]] const ChunkStreamOptions& options() const { return options_; }

  [[nodiscard]] Index chunks() const { return chunks_; }
  [[nodiscard]] Index first(Index chunk) const { return chunk * options_.chunk_rows; }
  [[nodiscard]] Index rows(Index chunk) const;

  /// Begins a sweep over all chunks with the first `arrays` arrays. `writes`: they change.
  void start(int arrays, bool descending, bool writes);
  /// Returns the next chunk's number, after waiting for it. Its rows of array `a` are at `array(a)` until
  /// give_back. Throws UserError if the file system fails.
  Index take();
  [[nodiscard]] std::byte* array(int a);
  void give_back();

  /// Adds a result of device kernels per chunk that the host needs (a gradient), with `row_bytes` per row.
  /// Call before the first sweep. Throws UserError if two chunks no longer fit.
  void add_outgoing(Index row_bytes);
  /// Device memory for the current chunk's result. give_back sends it to the host.
  [[nodiscard]] std::byte* outgoing();
  /// Number of results on their way; at most two.
  [[nodiscard]] Index leaving() const { return sent_ - arrived_; }
  struct Arrival {
    Index chunk = 0;
    std::byte* memory = nullptr;  // on the host, valid until two more have been sent
  };
  /// Returns the oldest result on its way, after waiting for it.
  [[nodiscard]] Arrival arrived();
  /// The host has changed a chunk's arrays after its kernels finished. The chunk will be loaded again.
  void changed(Index chunk);

  /// Call between sweeps: writes chunks in memory back to their arrays. The next take loads them again.
  void settle();

  struct Statistics {
    double read_bytes = 0, written_bytes = 0;
    double waited_seconds = 0;  // by the host, in take()
  };
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  /// Size of all arrays in storage.
  [[nodiscard]] double array_bytes() const {
    return static_cast<double>(options_.rows * options_.row_bytes) * count_;
  }
  /// Number of chunks that fit at once.
  [[nodiscard]] Index slots() const { return static_cast<Index>(slots_.size()); }

 private:
  struct Slot {
    int number = 0;
    std::byte* memory = nullptr;
    std::size_t array_bytes = 0;  // distance between arrays
    Index chunk = -1;
    int arrays = 0;  // arrays of the chunk that are loaded or loading
    bool dirty = false;
  };

  template <class S>
  [[nodiscard]] Buffer<S> make(bool pinned) const {
    const Index bytes = options_.rows * options_.row_bytes, size = bytes / static_cast<Index>(sizeof(S));
    if (!options_.device)
      return Buffer<S>(std::make_shared<FileMemory>(options_.folder, static_cast<std::size_t>(bytes)));
    if (options_.device->driver().only_addresses()) return Buffer<S>(size, Memory::nowhere);
    return pinned ? Buffer<S>::pinned(size, *options_.device) : Buffer<S>(size);
  }
  void add_array(ChunkArray array);
  /// Number of chunks within the budget, at most all of them. Throws UserError if too few fit.
  [[nodiscard]] Index fitting() const;
  void make_slots();
  [[nodiscard]] std::size_t outgoing_bytes() const;  // per chunk
  void make_outgoing();
  void send_home();
  Slot* find(Index chunk);
  /// Starts to load a chunk. Returns false if no slot is free for it.
  bool bring(Index chunk, bool must);
  Slot* free_slot(Index chunk);
  /// Moves arrays [first, last) of the slot's chunk.
  void move(const Slot& slot, int first, int last, bool write);
  /// Writes back the chunk of a changed slot.
  void clean(Slot& slot);
  [[nodiscard]] Index at(Index place) const { return descending_ ? chunks_ - 1 - place : place; }

  ChunkStreamOptions options_;
  std::unique_ptr<ChunkTransport> transport_;
  Index chunks_ = 0;
  std::size_t chunk_bytes_ = 0;
  int count_ = 0;  // number of arrays
  std::vector<Slot> slots_;
  struct Outgoing {
    int slot = 0;
    std::byte* memory = nullptr;
    Index chunk = -1;
  };
  static constexpr Index ways_out = 2;
  Index outgoing_row_bytes_ = 0;
  Buffer<std::byte> home_;  // results on the host
  std::vector<Outgoing> outgoing_;
  Index sent_ = 0, arrived_ = 0;
  bool leaves_ = false;  // the current chunk has asked for `outgoing`
  // State of the sweep.
  int arrays_ = 0;
  bool descending_ = false, writes_ = false;
  Index place_ = -1;  // of the current chunk, in sweep order
  Slot* taken_ = nullptr;
  bool settled_ = true;  // the host may have touched the arrays
  Statistics statistics_;
};

}  // namespace rossby
