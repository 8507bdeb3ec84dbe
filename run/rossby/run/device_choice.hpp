#pragma once

#include <memory>
#include <string>

#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/isa.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/nccl_link.hpp"
#include "rossby/tensor/device.hpp"
#include "rossby/tensor/products.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// The device of a training; chosen once, and agreed by all ranks.
struct DeviceChoice {
  std::unique_ptr<Device> device;  // null: the host's cores
  Backend backend = Backend::cpu;
  bool nccl = false;               // ranks exchange directly, not through the host
  std::shared_ptr<NcclLink> link;  // of all ranks, if tried; it ends before the device
  int gpus = 0;                    // of the ranks of all hosts
  std::string remark;              // line for the start of a training, no newline; rank 0's
};

/// Parses bytes: "512MiB", "4GiB", "1.5GB", "4096". Throws UserError that names `key`.
[[nodiscard]] std::size_t parse_bytes(const std::string& text, const std::string& key);

/// Returns the bytes that a rank may use of a device that `ranks` ranks share: parallel.device_memory, or its
/// share of `total`.
[[nodiscard]] double device_limit(const Config& config, std::size_t total, int ranks);

/// Returns the precision of a training's calls in measurements and predictions: model.precision, or the
/// rounding of product operands (parallel.products, which is not "auto" on the host).
[[nodiscard]] std::string precision_of(const Config& config, bool on_device);

/// Returns one instruction set for all ranks. Each rank updates shared values itself, and the bits must
/// agree. Throws UserError on all ranks if one lacks what parallel.isa names. Collective.
[[nodiscard]] Isa common_isa(const Communicator& comm, const Config& config, Reducer& reducer);

/// The meaning of parallel.products on the host.
struct ProductsChoice {
  Products products = Products::model;
  std::string remark;  // line for the start; empty if nothing was asked for
};

/// For trainings in float, on processors with `isa`. Collective over the reducer's ranks.
[[nodiscard]] ProductsChoice choose_products(const Config& config, Isa isa, Reducer& reducer);

/// True if any rank finds no GPU: then no rank trains on one. Collective.
[[nodiscard]] bool lacks_gpus(const Communicator& world);

/// Opens the device of parallel.device. bind_devices (rossby/mpi/device_binding.hpp) says which GPU a rank
/// takes; ranks on one GPU share its memory. Throws UserError on all ranks if a GPU was asked for and there
/// is none. Collective.
[[nodiscard]] DeviceChoice choose_device(const Communicator& world, const Config& config);

}  // namespace rossby
