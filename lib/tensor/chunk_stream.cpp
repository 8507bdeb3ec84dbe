#include "rossby/tensor/chunk_stream.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

ChunkStream::ChunkStream(ChunkStreamOptions options) : options_(std::move(options)) {
  require(options_.rows >= 0 && options_.row_bytes >= 0 && options_.chunk_rows > 0, "a chunk has rows");
  chunks_ = options_.row_bytes == 0 ? 0 : (options_.rows + options_.chunk_rows - 1) / options_.chunk_rows;
  chunk_bytes_ = static_cast<std::size_t>(std::min(options_.rows, options_.chunk_rows) * options_.row_bytes);
  if (options_.overlap) worker_ = std::thread([this] { work(); });
}

ChunkStream::~ChunkStream() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  if (worker_.joinable()) worker_.join();
}

std::shared_ptr<FileMemory> ChunkStream::add() {
  require(slots_.empty(), "arrays are added before sweeps");
  files_.push_back(spare());
  (void)fitting();
  return files_.back();
}

Index ChunkStream::fitting() const {
  const std::size_t slot_bytes = chunk_bytes_ * files_.size();
  const auto fitting = static_cast<Index>(options_.budget / std::max<std::size_t>(slot_bytes, 1));
  const Index least = std::min<Index>(chunks_, 2);
  if (fitting < least)
    user_error("{:.3f} MiB of memory for streamed weights are too few: {} chunks of {:.3f} MiB are needed",
               static_cast<double>(options_.budget) / (1 << 20), least,
               static_cast<double>(slot_bytes) / (1 << 20));
  return std::min(fitting, chunks_);
}

std::shared_ptr<FileMemory> ChunkStream::spare() const {
  return std::make_shared<FileMemory>(options_.folder,
                                      static_cast<std::size_t>(options_.rows * options_.row_bytes));
}

Index ChunkStream::rows(Index chunk) const {
  return std::min(options_.chunk_rows, options_.rows - first(chunk));
}

void ChunkStream::make_slots() {
  const Index count = fitting();
  for (Index s = 0; s < count; ++s) {
    slots_.push_back(std::make_unique<Slot>());
    slots_.back()->memory = Buffer<std::byte>(static_cast<Index>(chunk_bytes_ * files_.size()));
  }
}

void ChunkStream::start(int arrays, bool descending, bool writes) {
  require(!taken_ && arrays > 0 && arrays <= static_cast<int>(files_.size()),
          "a sweep over arrays that are there");
  if (std::exchange(mapped_, false))
    for (const auto& file : files_) file->forget_pages();
  if (slots_.empty()) make_slots();
  arrays_ = arrays;
  descending_ = descending;
  writes_ = writes;
  place_ = -1;
  if (chunks_ > 0) (void)bring(at(0), true);
}

ChunkStream::Slot* ChunkStream::find(Index chunk) {
  for (const auto& slot : slots_)
    if (slot->chunk == chunk) return slot.get();
  return nullptr;
}

/// An empty slot, or that of the chunk that the next sweep back comes to last of all: the one furthest
/// behind. Chunks that this sweep has still to come to stay where another may go.
ChunkStream::Slot* ChunkStream::free_slot(Index chunk) {
  const auto place_of = [&](Index c) { return descending_ ? chunks_ - 1 - c : c; };
  Slot* best = nullptr;
  const auto key = [&](const Slot& slot) {  // large: to be evicted first
    const Index place = place_of(slot.chunk);
    return place <= place_ ? 2 * chunks_ - place : place;
  };
  for (const auto& slot : slots_) {
    if (slot->chunk < 0) return slot.get();
    if (slot.get() == taken_) continue;
    const Index place = place_of(slot->chunk);
    if (place > place_ && place < place_of(chunk)) continue;  // needed sooner
    if (!best || key(*slot) > key(*best)) best = slot.get();
  }
  return best;
}

bool ChunkStream::bring(Index chunk, bool must) {
  Slot* slot = find(chunk);
  if (!slot) {
    slot = free_slot(chunk);
    require(slot || !must, "a slot for the chunk that is taken");
    if (!slot) return false;
    if (slot->dirty) submit({slot, slot->chunk, 0, slot->arrays, true});
    slot->dirty = false;
    slot->chunk = chunk;
    slot->arrays = 0;
  }
  if (slot->arrays < arrays_) submit({slot, chunk, slot->arrays, arrays_, false});
  slot->arrays = std::max(slot->arrays, arrays_);
  return true;
}

Index ChunkStream::take() {
  require(!taken_ && place_ + 1 < chunks_, "chunks are taken one after the other, each once");
  ++place_;
  const Index chunk = at(place_);
  (void)bring(chunk, true);
  taken_ = find(chunk);
  if (place_ + 1 < chunks_) (void)bring(at(place_ + 1), false);
  wait(*taken_);
  return chunk;
}

std::byte* ChunkStream::array(int a) {
  require(taken_ && a < taken_->arrays, "an array of the chunk that is taken");
  return taken_->memory.data() + static_cast<std::size_t>(a) * chunk_bytes_;
}

void ChunkStream::give_back() {
  require(taken_, "a chunk that was taken");
  taken_->dirty = taken_->dirty || writes_;
  taken_ = nullptr;
}

void ChunkStream::settle() {
  require(!taken_, "between sweeps");
  for (const auto& slot : slots_) {
    if (slot->dirty) submit({slot.get(), slot->chunk, 0, slot->arrays, true});
    slot->dirty = false;
    slot->chunk = -1;
    slot->arrays = 0;
  }
  for (const auto& slot : slots_) wait(*slot);
  mapped_ = true;
}

void ChunkStream::submit(const Job& job) {
  if (!options_.overlap) return run(job);
  {
    const std::lock_guard lock(mutex_);
    ++job.slot->jobs;
    queue_.push_back(job);
  }
  changed_.notify_all();
}

void ChunkStream::run(const Job& job) {
  const auto bytes = static_cast<std::size_t>(rows(job.chunk) * options_.row_bytes);
  const auto begin = static_cast<std::size_t>(first(job.chunk) * options_.row_bytes);
  for (int a = job.first; a < job.last; ++a) {
    const std::span<std::byte> memory(job.slot->memory.data() + static_cast<std::size_t>(a) * chunk_bytes_,
                                      bytes);
    FileMemory& file = *files_[static_cast<std::size_t>(a)];
    if (job.write)
      file.write(begin, memory);
    else
      file.read(begin, memory);
  }
  const std::lock_guard lock(mutex_);
  const auto moved = static_cast<double>(bytes) * (job.last - job.first);
  (job.write ? statistics_.written_bytes : statistics_.read_bytes) += moved;
}

void ChunkStream::wait(const Slot& slot) {
  if (!options_.overlap) return;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return slot.jobs == 0 || failure_; });
  statistics_.waited_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (failure_) std::rethrow_exception(failure_);
}

void ChunkStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const Job job = queue_.front();
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      run(job);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --job.slot->jobs;
    if (failure && !failure_) failure_ = failure;
    changed_.notify_all();
  }
}

ChunkStream::Statistics ChunkStream::statistics() {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace rossby
