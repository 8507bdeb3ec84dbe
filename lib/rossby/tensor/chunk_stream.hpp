#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {

/// Where the arrays of a stream rest.
struct ChunkStreamOptions {
  std::string folder;                          // of the files; on a device: they rest in memory of the host
  Device* device = nullptr;                    // whose kernels work on the chunks; null: the host's
  Transfer transfer = Transfer::pinned_async;  // to the device
  Index rows = 0;                              // of every array
  Index row_bytes = 0;                         // of every array
  Index chunk_rows = 1;                        // of a chunk; the last one may have fewer
  std::size_t budget = 0;  // bytes of memory for chunks (of the device's); two chunks are needed at least
  bool overlap = true;     // a thread reads and writes files while a chunk is computed
  /// On a device: the host makes the updates. Gradients leave the device, chunks are weights alone, moments
  /// stay with the host.
  bool host_updates = false;
};

/// Arrays (rows, row_bytes) in files, or in the host's memory with a device before it, that are worked on in
/// sweeps over chunks of rows: a chunk is taken, computed and given back, while those that come next are
/// brought and those that are done leave, as far ahead as there is room. Chunks stay as the budget allows,
/// and leave when their room is needed: where everything fits nothing moves. A sweep up and one down find the
/// chunks of the turn still there.
class ChunkStream {
 public:
  explicit ChunkStream(ChunkStreamOptions options);
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  /// One more array, zeros. Before the first sweep, and it outlives the last one. Throws UserError where
  /// there is no room for it, or two chunks of all arrays pass the budget.
  template <class S>
  [[nodiscard]] Buffer<S> add() {
    Buffer<S> array = make<S>(options_.device && pins(options_.transfer));
    add_array({std::as_writable_bytes(array.span()), array.shared_file()});
    return array;
  }
  /// Memory of the same kind that no sweep touches.
  template <class S>
  [[nodiscard]] Buffer<S> spare() const {
    return make<S>(false);
  }
  /// Whose kernels work on the chunks; null: the host's.
  [[nodiscard]] Device* device() const { return options_.device; }
  [[nodiscard]] const ChunkStreamOptions& options() const { return options_; }

  [[nodiscard]] Index chunks() const { return chunks_; }
  [[nodiscard]] Index first(Index chunk) const { return chunk * options_.chunk_rows; }
  [[nodiscard]] Index rows(Index chunk) const;

  /// Begins a sweep over all chunks with the first `arrays` arrays; `writes`: they change.
  void start(int arrays, bool descending, bool writes);
  /// The next chunk's number, and its rows of array `a` at `array(a)` until it is given back. Waits for it.
  /// Throws UserError where the file system failed.
  Index take();
  [[nodiscard]] std::byte* array(int a);
  void give_back();

  /// What kernels of a device make of a chunk and the host wants (a gradient): `row_bytes` a row. Before the
  /// first sweep. Throws UserError where it leaves no room for two chunks.
  void add_outgoing(Index row_bytes);
  /// Its place on the device for the chunk that is taken, from which give_back sends it home.
  [[nodiscard]] std::byte* outgoing();
  /// How many are on the way; two have room.
  [[nodiscard]] Index leaving() const { return sent_ - arrived_; }
  struct Arrival {
    Index chunk = 0;
    std::byte* memory = nullptr;  // of the host, until two more have been sent
  };
  /// The oldest of them. Waits for it.
  [[nodiscard]] Arrival arrived();
  /// The host has changed the arrays of a chunk whose kernels are done: it is brought again.
  void changed(Index chunk);

  /// Between sweeps: what chunks in memory hold goes to the arrays' files and mappings, and they are read
  /// again when they are next taken.
  void settle();

  struct Statistics {
    double read_bytes = 0, written_bytes = 0;
    double waited_seconds = 0;  // of the host, in take()
  };
  [[nodiscard]] const Statistics& statistics() const { return statistics_; }
  /// Of all arrays, where they rest.
  [[nodiscard]] double array_bytes() const {
    return static_cast<double>(options_.rows * options_.row_bytes) * count_;
  }
  /// Chunks that fit at once.
  [[nodiscard]] Index slots() const { return static_cast<Index>(slots_.size()); }

 private:
  struct Slot {
    int number = 0;
    std::byte* memory = nullptr;
    std::size_t array_bytes = 0;  // from one array to the next
    Index chunk = -1;
    int arrays = 0;  // of the chunk that are here or on the way
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
  /// Chunks that the budget holds, at most all; UserError where they are too few.
  [[nodiscard]] Index fitting() const;
  void make_slots();
  [[nodiscard]] std::size_t outgoing_bytes() const;  // of a chunk
  void make_outgoing();
  void send_home();
  Slot* find(Index chunk);
  /// Starts to bring a chunk; false where no slot is free for it.
  bool bring(Index chunk, bool must);
  Slot* free_slot(Index chunk);
  /// Arrays [first, last) of the slot's chunk.
  void move(const Slot& slot, int first, int last, bool write);
  /// Sends a changed slot's chunk home.
  void clean(Slot& slot);
  [[nodiscard]] Index at(Index place) const { return descending_ ? chunks_ - 1 - place : place; }

  ChunkStreamOptions options_;
  std::unique_ptr<ChunkTransport> transport_;
  Index chunks_ = 0;
  std::size_t chunk_bytes_ = 0;
  int count_ = 0;  // arrays
  std::vector<Slot> slots_;
  struct Outgoing {
    int slot = 0;
    std::byte* memory = nullptr;
    Index chunk = -1;
  };
  static constexpr Index ways_out = 2;
  Index outgoing_row_bytes_ = 0;
  Buffer<std::byte> home_;  // what leaves, on the host
  std::vector<Outgoing> outgoing_;
  Index sent_ = 0, arrived_ = 0;
  bool leaves_ = false;  // the chunk that is taken has asked for `outgoing`
  // Of the sweep.
  int arrays_ = 0;
  bool descending_ = false, writes_ = false;
  Index place_ = -1;  // of the chunk that is taken, in the sweep's order
  Slot* taken_ = nullptr;
  bool settled_ = true;  // somebody may have touched the arrays
  Statistics statistics_;
};

}  // namespace rossby
