#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/chunk_transport.hpp"

namespace rossby {
namespace {

class FileTransport final : public ChunkTransport {
 public:
  explicit FileTransport(bool overlap) {
    if (overlap) worker_ = std::thread([this] { work(); });
  }
  ~FileTransport() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      queue_.clear();
    }
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }
  FileTransport(const FileTransport&) = delete;
  FileTransport& operator=(const FileTransport&) = delete;

  [[nodiscard]] Device* device() const override { return nullptr; }
  void add_array(ChunkArray array) override { files_.push_back(std::move(array.file)); }
  std::byte* add_slot(std::size_t bytes) override {
    slots_.push_back({Buffer<std::byte>(static_cast<Index>(bytes)), 0});
    return slots_.back().memory.data();
  }
  void move(const ChunkMove& move) override {
    if (!worker_.joinable()) return run(move);
    {
      const std::lock_guard lock(mutex_);
      ++slots_[static_cast<std::size_t>(move.slot)].moves;
      queue_.push_back(move);
    }
    changed_.notify_all();
  }
  void before_use(int slot) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slots_[static_cast<std::size_t>(slot)].moves == 0 || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  void after_use(int) override {}
  void wait_for(int slot) override { before_use(slot); }
  void finish() override {
    for (std::size_t s = 0; s < slots_.size(); ++s) before_use(static_cast<int>(s));
  }
  void begin() override {
    for (const auto& file : files_) file->forget_pages();
  }

 private:
  struct Slot {
    Buffer<std::byte> memory;
    int moves;  // not done yet
  };

  void run(const ChunkMove& move) {
    const std::span<std::byte> memory(slots_[static_cast<std::size_t>(move.slot)].memory.data() + move.offset,
                                      move.bytes);
    FileMemory& file = *files_[static_cast<std::size_t>(move.array)];
    if (move.write)
      file.write(move.at, memory);
    else
      file.read(move.at, memory);
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
      if (ends_) return;
      const ChunkMove move = queue_.front();
      queue_.pop_front();
      lock.unlock();
      std::exception_ptr failure;
      try {
        run(move);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --slots_[static_cast<std::size_t>(move.slot)].moves;
      if (failure && !failure_) failure_ = failure;
      changed_.notify_all();
    }
  }

  std::vector<std::shared_ptr<FileMemory>> files_;
  std::deque<Slot> slots_;  // a deque: references stay valid
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ChunkMove> queue_;
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread worker_;
};

}  // namespace

std::unique_ptr<ChunkTransport> make_file_transport(bool overlap) {
  return std::make_unique<FileTransport>(overlap);
}

}  // namespace rossby
