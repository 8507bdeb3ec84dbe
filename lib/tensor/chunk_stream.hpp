#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/file_memory.hpp"

namespace rossby {

struct ChunkStreamOptions {
  std::string folder;      // where the files are
  Index rows = 0;          // of every array
  Index row_bytes = 0;     // of every array
  Index chunk_rows = 1;    // of a chunk; the last one may have fewer
  std::size_t budget = 0;  // bytes of memory for chunks; two chunks are needed at least
  bool overlap = true;     // a thread reads and writes while a chunk is computed
};

/// Arrays (rows, row_bytes) in files that are worked on in sweeps over chunks of rows: a chunk is taken,
/// computed in memory and given back, while the next one is read and the last one written. Chunks stay in
/// memory as the budget allows, and are written when their room is needed: where everything fits nothing
/// moves. A sweep up and one down find the chunks of the turn still there.
class ChunkStream {
 public:
  explicit ChunkStream(ChunkStreamOptions options);
  ~ChunkStream();
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  /// One more array, zeros. Before the first sweep. Throws UserError where there is no room for it, or two
  /// chunks of all arrays pass the budget.
  [[nodiscard]] std::shared_ptr<FileMemory> add();
  /// Memory of the same kind that no sweep touches.
  [[nodiscard]] std::shared_ptr<FileMemory> spare() const;
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

  /// Between sweeps: what chunks in memory hold goes to the arrays' files and mappings, and they are read
  /// again when they are next taken.
  void settle();

  struct Statistics {
    double read_bytes = 0, written_bytes = 0;
    double waited_seconds = 0;  // in take()
  };
  [[nodiscard]] Statistics statistics();
  /// Chunks that fit at once.
  [[nodiscard]] Index slots() const { return static_cast<Index>(slots_.size()); }

 private:
  struct Slot {
    Buffer<std::byte> memory;
    Index chunk = -1;
    int arrays = 0;  // of the chunk that are here or on the way
    bool dirty = false;
    int jobs = 0;  // not done yet
  };
  struct Job {
    Slot* slot;
    Index chunk;
    int first, last;  // arrays
    bool write;
  };

  /// Chunks that the budget holds, at most all; UserError where they are too few.
  [[nodiscard]] Index fitting() const;
  void make_slots();
  Slot* find(Index chunk);
  /// Starts to bring a chunk; false where no slot is free for it.
  bool bring(Index chunk, bool must);
  Slot* free_slot(Index chunk);
  void submit(const Job& job);
  void run(const Job& job);
  void wait(const Slot& slot);
  void work();
  [[nodiscard]] Index at(Index place) const { return descending_ ? chunks_ - 1 - place : place; }

  ChunkStreamOptions options_;
  Index chunks_ = 0;
  std::size_t chunk_bytes_ = 0;
  std::vector<std::shared_ptr<FileMemory>> files_;
  std::vector<std::unique_ptr<Slot>> slots_;
  // Of the sweep.
  int arrays_ = 0;
  bool descending_ = false, writes_ = false;
  Index place_ = -1;  // of the chunk that is taken, in the sweep's order
  Slot* taken_ = nullptr;
  bool mapped_ = true;  // somebody may have touched the mappings

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::exception_ptr failure_;
  Statistics statistics_;
  bool ends_ = false;
  std::thread worker_;
};

}  // namespace rossby
