#pragma once

#include <memory>
#include <string>

#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/nccl_api.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Connects ranks with one GPU each through NCCL. All messages use the device's second queue.
class NcclLink {
 public:
  /// Throws the same UserError on all ranks if one of them cannot join. Collective.
  NcclLink(const Communicator& comm, Device& device, const NcclApi* api = nccl_library());
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Messages between begin and end are sent together.
  void begin();
  void send(const void* from, std::size_t bytes, int peer);
  void receive(void* to, std::size_t bytes, int peer);
  /// values[i] = Σ over ranks, in place.
  void all_reduce(void* values, std::size_t count, bool is_double);
  void end();

 private:
  void check(int error, const char* what) const;

  const NcclApi* api_;
  Device* device_;
  int rank_, ranks_;
  void* comm_ = nullptr;
};

/// Returns a link of all ranks; null if NCCL does not start on one of them, with the reason in `why`.
/// Collective.
[[nodiscard]] std::shared_ptr<NcclLink> try_nccl(const Communicator& comm, Device& device, std::string& why,
                                                 const NcclApi* api = nccl_library());

}  // namespace rossby
