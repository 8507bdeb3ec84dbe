#include "rossby/tensor/chunk_stream.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

ChunkStream::ChunkStream(ChunkStreamOptions options)
    : options_(std::move(options)),
      transport_(options_.device ? make_device_transport(*options_.device, options_.transfer)
                                 : make_file_transport(options_.overlap)) {
  require(options_.rows >= 0 && options_.row_bytes >= 0 && options_.chunk_rows > 0, "a chunk has rows");
  chunks_ = options_.row_bytes == 0 ? 0 : (options_.rows + options_.chunk_rows - 1) / options_.chunk_rows;
  chunk_bytes_ = static_cast<std::size_t>(std::min(options_.rows, options_.chunk_rows) * options_.row_bytes);
}

void ChunkStream::add_array(ChunkArray array) {
  require(slots_.empty(), "arrays are added before sweeps");
  transport_->add_array(std::move(array));
  ++count_;
  (void)fitting();
}

Index ChunkStream::fitting() const {
  const std::size_t slot_bytes = chunk_bytes_ * static_cast<std::size_t>(count_);
  const auto fitting = static_cast<Index>(options_.budget / std::max<std::size_t>(slot_bytes, 1));
  const Index least = std::min<Index>(chunks_, 2);
  if (fitting < least)
    user_error("{:.3f} MiB of memory for streamed weights are too few: {} chunks of {:.3f} MiB are needed",
               static_cast<double>(options_.budget) / (1 << 20), least,
               static_cast<double>(slot_bytes) / (1 << 20));
  return std::min(fitting, chunks_);
}

Index ChunkStream::rows(Index chunk) const {
  return std::min(options_.chunk_rows, options_.rows - first(chunk));
}

void ChunkStream::make_slots() {
  const Index count = fitting();
  for (Index s = 0; s < count; ++s)
    slots_.push_back({.number = static_cast<int>(s),
                      .memory = transport_->add_slot(chunk_bytes_ * static_cast<std::size_t>(count_))});
}

void ChunkStream::start(int arrays, bool descending, bool writes) {
  require(!taken_ && arrays > 0 && arrays <= count_, "a sweep over arrays that are there");
  if (std::exchange(settled_, false)) transport_->begin();
  if (slots_.empty()) make_slots();
  arrays_ = arrays;
  descending_ = descending;
  writes_ = writes;
  place_ = -1;
  if (chunks_ > 0) (void)bring(at(0), true);
}

ChunkStream::Slot* ChunkStream::find(Index chunk) {
  for (Slot& slot : slots_)
    if (slot.chunk == chunk) return &slot;
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
  for (Slot& slot : slots_) {
    if (slot.chunk < 0) return &slot;
    if (&slot == taken_) continue;
    const Index place = place_of(slot.chunk);
    if (place > place_ && place < place_of(chunk)) continue;  // needed sooner
    if (!best || key(slot) > key(*best)) best = &slot;
  }
  return best;
}

bool ChunkStream::bring(Index chunk, bool must) {
  Slot* slot = find(chunk);
  if (!slot) {
    slot = free_slot(chunk);
    require(slot || !must, "a slot for the chunk that is taken");
    if (!slot) return false;
    clean(*slot);
    slot->chunk = chunk;
    slot->arrays = 0;
  }
  if (slot->arrays < arrays_) move(*slot, slot->arrays, arrays_, false);
  slot->arrays = std::max(slot->arrays, arrays_);
  return true;
}

/// What has to leave for the chunk after the next leaves while this one is computed and the next one comes.
void ChunkStream::make_way() {
  if (place_ + 2 >= chunks_ || find(at(place_ + 2))) return;
  if (Slot* slot = free_slot(at(place_ + 2)); slot && slot->chunk >= 0) clean(*slot);
}

Index ChunkStream::take() {
  require(!taken_ && place_ + 1 < chunks_, "chunks are taken one after the other, each once");
  ++place_;
  const Index chunk = at(place_);
  (void)bring(chunk, true);
  taken_ = find(chunk);
  if (place_ + 1 < chunks_) (void)bring(at(place_ + 1), false);
  make_way();
  const auto begin = std::chrono::steady_clock::now();
  transport_->before_use(taken_->number);
  statistics_.waited_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return chunk;
}

std::byte* ChunkStream::array(int a) {
  require(taken_ && a < taken_->arrays, "an array of the chunk that is taken");
  return taken_->memory + static_cast<std::size_t>(a) * chunk_bytes_;
}

void ChunkStream::give_back() {
  require(taken_, "a chunk that was taken");
  transport_->after_use(taken_->number);
  taken_->dirty = taken_->dirty || writes_;
  taken_ = nullptr;
}

void ChunkStream::settle() {
  require(!taken_, "between sweeps");
  if (std::exchange(settled_, true)) return;
  for (Slot& slot : slots_) {
    clean(slot);
    slot.chunk = -1;
    slot.arrays = 0;
  }
  transport_->finish();
}

void ChunkStream::clean(Slot& slot) {
  if (std::exchange(slot.dirty, false)) move(slot, 0, slot.arrays, true);
}

void ChunkStream::move(const Slot& slot, int first_array, int last, bool write) {
  const auto bytes = static_cast<std::size_t>(rows(slot.chunk) * options_.row_bytes);
  const auto begin = static_cast<std::size_t>(first(slot.chunk) * options_.row_bytes);
  for (int a = first_array; a < last; ++a)
    transport_->move({slot.number, static_cast<std::size_t>(a) * chunk_bytes_, a, begin, bytes, write});
  (write ? statistics_.written_bytes : statistics_.read_bytes) +=
      static_cast<double>(bytes) * (last - first_array);
}

}  // namespace rossby
