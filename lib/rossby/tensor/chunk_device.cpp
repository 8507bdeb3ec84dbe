#include <vector>

#include "rossby/base/user_error.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {
namespace {

using Queue = DeviceDriver::Queue;

/// With the async transfers, queues wait only for each other's events. A slot is filled after its last
/// computation is done and its content has left. Its computation starts after its new content has arrived and
/// its old content has left. It leaves after its computation. A chunk that comes again is home by then: its
/// old slot is filled at once, and later fills wait for that.
class DeviceTransport final : public ChunkTransport {
 public:
  DeviceTransport(Device& device, Transfer transfer)
      : device_(&device),
        driver_(&device.driver()),
        beside_(transfer == Transfer::pageable_async || transfer == Transfer::pinned_async) {}
  ~DeviceTransport() override {
    for (const Slot& slot : slots_)
      for (void* event : {slot.arrived, slot.computed, slot.left}) driver_->drop_event(event);
  }
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;

  [[nodiscard]] Device* device() const override { return device_; }
  void add_array(ChunkArray array) override { arrays_.push_back(array.memory.data()); }
  std::byte* add_slot(std::size_t bytes) override {
    const Device::For purpose(device_, "chunks of a streamed relation",
                              "smaller chunks (relation.chunk_mib), fewer chunks (relation.stream_gib)");
    Buffer<std::byte> memory(static_cast<Index>(bytes), *device_);
    slots_.push_back(
        {std::move(memory), driver_->make_event(), driver_->make_event(), driver_->make_event()});
    driver_->record(slots_.back().computed, Queue::compute);  // its memory has been cleared
    return slots_.back().memory.data();
  }

  void move(const ChunkMove& move) override {
    Slot& slot = slots_[static_cast<std::size_t>(move.slot)];
    std::byte* there = slot.memory.data() + move.offset;
    std::byte* here = arrays_[static_cast<std::size_t>(move.array)] + move.at;
    if (!beside_) {
      if (move.write)
        driver_->copy_out(here, there, move.bytes);
      else
        driver_->copy_in(there, here, move.bytes);
      return driver_->wait();
    }
    if (move.write) {
      driver_->follow(Queue::out, slot.computed);
      driver_->travel_out(here, there, move.bytes);
      driver_->record(slot.left, Queue::out);
      return;
    }
    driver_->follow(Queue::in, slot.computed);
    driver_->follow(Queue::in, slot.left);
    driver_->travel_in(there, here, move.bytes);
    driver_->record(slot.arrived, Queue::in);
  }
  void before_use(int number) override {
    if (!beside_) return;
    const Slot& slot = slots_[static_cast<std::size_t>(number)];
    driver_->follow(Queue::compute, slot.arrived);
    driver_->follow(Queue::compute, slot.left);  // a chunk that was written back but stayed
  }
  void after_use(int slot) override {
    if (beside_) driver_->record(slots_[static_cast<std::size_t>(slot)].computed, Queue::compute);
  }
  void wait_for(int slot) override {
    if (beside_) driver_->wait(slots_[static_cast<std::size_t>(slot)].left);
  }
  void finish() override { driver_->wait(); }
  void begin() override {}

 private:
  struct Slot {
    Buffer<std::byte> memory;
    void *arrived, *computed, *left;
  };

  Device* device_;
  DeviceDriver* driver_;
  bool beside_;
  std::vector<std::byte*> arrays_;
  std::vector<Slot> slots_;
};

}  // namespace

Transfer transfer_named(std::string_view name) {
  if (name == "pageable") return Transfer::pageable;
  if (name == "pinned") return Transfer::pinned;
  if (name == "pageable-async") return Transfer::pageable_async;
  if (name == "pinned-async") return Transfer::pinned_async;
  user_error("relation.transfer = \"{}\" is unknown. Set pageable, pinned, pageable-async or pinned-async",
             name);
}

std::unique_ptr<ChunkTransport> make_device_transport(Device& device, Transfer transfer) {
  return std::make_unique<DeviceTransport>(device, transfer);
}

}  // namespace rossby
