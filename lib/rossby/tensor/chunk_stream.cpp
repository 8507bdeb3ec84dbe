#include "rossby/tensor/chunk_stream.hpp"

#include <algorithm>
#include <utility>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"

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

std::size_t ChunkStream::outgoing_bytes() const {
  return static_cast<std::size_t>(std::min(options_.rows, options_.chunk_rows) * outgoing_row_bytes_);
}

Index ChunkStream::fitting() const {
  const std::size_t slot_bytes = chunk_bytes_ * static_cast<std::size_t>(count_);
  const std::size_t leaving = static_cast<std::size_t>(ways_out) * outgoing_bytes();
  const std::size_t room = options_.budget - std::min(options_.budget, leaving);
  const auto fitting = static_cast<Index>(room / std::max<std::size_t>(slot_bytes, 1));
  const Index least = std::min<Index>(chunks_, 2);
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (fitting < least && leaving > 0)
    user_error(
        "{:.3g} MiB of memory for streamed weights (relation.stream_gib) are not enough: {} of {:.3g} MiB "
        "(relation.chunk_mib) and gradients of {:.3g} MiB are needed. Raise relation.stream_gib, or lower "
        "relation.chunk_mib",
        mib(options_.budget), least == 1 ? "a chunk" : "two chunks", mib(slot_bytes), mib(leaving));
  if (fitting < least)
    user_error(
        "{:.3g} MiB of memory for streamed weights (relation.stream_gib) are not enough: {} of {:.3g} MiB "
        "(relation.chunk_mib) {} needed. Raise relation.stream_gib, or lower relation.chunk_mib",
        mib(options_.budget), least == 1 ? "a chunk" : "two chunks", mib(slot_bytes),
        least == 1 ? "is" : "are");
  return std::min(fitting, chunks_);
}

void ChunkStream::add_outgoing(Index row_bytes) {
  require(slots_.empty() && outgoing_row_bytes_ == 0 && row_bytes > 0 && options_.device,
          "one way out of a device, before sweeps");
  outgoing_row_bytes_ = row_bytes;
  (void)fitting();
}

void ChunkStream::make_outgoing() {
  const std::size_t bytes = outgoing_bytes();
  const auto both = static_cast<Index>(static_cast<std::size_t>(ways_out) * bytes);
  home_ =
      pins(options_.transfer) ? Buffer<std::byte>::pinned(both, *options_.device) : Buffer<std::byte>(both);
  transport_->add_array({home_.span(), nullptr});
  for (Index k = 0; k < ways_out; ++k)
    outgoing_.push_back({static_cast<int>(std::ssize(slots_) + k), transport_->add_slot(bytes), -1});
}

std::byte* ChunkStream::outgoing() {
  require(taken_ && outgoing_row_bytes_ > 0 && leaving() < ways_out, "a way out for the chunk that is taken");
  if (outgoing_.empty()) make_outgoing();
  leaves_ = true;
  return outgoing_[static_cast<std::size_t>(sent_ % ways_out)].memory;  // its previous content has arrived
}

void ChunkStream::send_home() {
  Outgoing& way = outgoing_[static_cast<std::size_t>(sent_ % ways_out)];
  const auto bytes = static_cast<std::size_t>(rows(taken_->chunk) * outgoing_row_bytes_);
  way.chunk = taken_->chunk;
  transport_->after_use(way.slot);
  transport_->move(
      {way.slot, 0, count_, static_cast<std::size_t>(sent_ % ways_out) * outgoing_bytes(), bytes, true});
  statistics_.written_bytes += static_cast<double>(bytes);
  ++sent_;
}

ChunkStream::Arrival ChunkStream::arrived() {
  require(leaving() > 0, "something is on its way");
  const Index way = arrived_++ % ways_out;
  const Outgoing& from = outgoing_[static_cast<std::size_t>(way)];
  const Stopwatch begin;
  transport_->wait_for(from.slot);
  statistics_.waited_seconds += begin.seconds();
  return {from.chunk, home_.data() + static_cast<std::size_t>(way) * outgoing_bytes()};
}

void ChunkStream::changed(Index chunk) {
  Slot* slot = find(chunk);
  if (!slot) return;
  require(slot != taken_ && !slot->dirty, "a chunk that nobody else changes");
  slot->chunk = -1;
  slot->arrays = 0;
}

Index ChunkStream::rows(Index chunk) const {
  return std::min(options_.chunk_rows, options_.rows - first(chunk));
}

void ChunkStream::make_slots() {
  const Index count = fitting();
  for (Index s = 0; s < count; ++s) {
    // If all chunks stay, the last slot needs only its own size.
    const std::size_t bytes =
        count < chunks_ ? chunk_bytes_ : static_cast<std::size_t>(rows(s) * options_.row_bytes);
    slots_.push_back({.number = static_cast<int>(s),
                      .memory = transport_->add_slot(bytes * static_cast<std::size_t>(count_)),
                      .array_bytes = bytes});
  }
}

void ChunkStream::start(int arrays, bool descending, bool writes) {
  require(!taken_ && arrays > 0 && arrays <= count_, "a sweep over arrays that are there");
  require(leaving() == 0, "what the last sweep sent has arrived");
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

/// Returns the chunk's own slot if all chunks stay. Otherwise an empty slot, or the slot of the chunk that a
/// sweep back needs last. Chunks that this sweep still needs stay if another one can leave.
ChunkStream::Slot* ChunkStream::free_slot(Index chunk) {
  if (slots() == chunks_) return &slots_[static_cast<std::size_t>(chunk)];
  const auto place_of = [&](Index c) { return descending_ ? chunks_ - 1 - c : c; };
  Slot* best = nullptr;
  const auto key = [&](const Slot& slot) {  // larger: evict earlier
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

Index ChunkStream::take() {
  require(!taken_ && place_ + 1 < chunks_, "chunks are taken one after the other, each once");
  ++place_;
  const Index chunk = at(place_);
  (void)bring(chunk, true);
  taken_ = find(chunk);
  // Look as far ahead as there is room. Chunks from the beginning of the sweep make room for later ones.
  for (Index ahead = place_ + 1; ahead < chunks_ && bring(at(ahead), false);) ++ahead;
  const Stopwatch begin;
  transport_->before_use(taken_->number);
  statistics_.waited_seconds += begin.seconds();
  return chunk;
}

std::byte* ChunkStream::array(int a) {
  require(taken_ && a < taken_->arrays, "an array of the chunk that is taken");
  return taken_->memory + static_cast<std::size_t>(a) * taken_->array_bytes;
}

void ChunkStream::give_back() {
  require(taken_, "a chunk that was taken");
  if (std::exchange(leaves_, false)) send_home();
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
    transport_->move({slot.number, static_cast<std::size_t>(a) * slot.array_bytes, a, begin, bytes, write});
  (write ? statistics_.written_bytes : statistics_.read_bytes) +=
      static_cast<double>(bytes) * (last - first_array);
}

}  // namespace rossby
