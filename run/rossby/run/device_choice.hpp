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

/// What a training runs on, chosen once and agreed by all ranks.
struct DeviceChoice {
  std::unique_ptr<Device> device;  // null: the host's cores
  Backend backend = Backend::cpu;
  bool nccl = false;               // how ranks exchange: directly, or through the host
  std::shared_ptr<NcclLink> link;  // of all ranks, where it was tried; it ends before the device
  int gpus = 0;                    // that the ranks of all hosts take together
  std::string remark;              // one line for the start of a training, without its end; rank 0's
};

/// Bytes of "512MiB", "4GiB", "1.5GB", "4096"; throws UserError naming `key`.
[[nodiscard]] std::size_t parse_bytes(const std::string& text, const std::string& key);

/// Bytes that a rank may take of a device that it shares with others, `ranks` in all: parallel.device_memory,
/// or its share of `total`.
[[nodiscard]] double device_limit(const Config& config, std::size_t total, int ranks);

/// What a training's calls are measured and predicted in: model.precision, or what operands of products are
/// rounded to (parallel.products, which is not "auto" on the host).
[[nodiscard]] std::string precision_of(const Config& config, bool on_device);

/// One instruction set for all ranks: they update what all of them hold each for itself, to the same bits.
/// Throws UserError on all ranks if one lacks what parallel.isa names. Collective.
[[nodiscard]] Isa common_isa(const Communicator& comm, const Config& config, Reducer& reducer);

/// What parallel.products comes to on the host.
struct ProductsChoice {
  Products products = Products::model;
  std::string remark;  // a line for the start of a training; empty if nothing was asked for
};

/// Of trainings in float, on processors with `isa`. Collective over the reducer's ranks.
[[nodiscard]] ProductsChoice choose_products(const Config& config, Isa isa, Reducer& reducer);

/// Whether this rank, or another one, finds no GPU: then nobody trains on one. Collective.
[[nodiscard]] bool lacks_gpus(const Communicator& world);

/// Opens what parallel.device asks for. Which GPU a rank takes bind_devices says
/// (rossby/mpi/device_binding.hpp); ranks that share one share its memory. Throws
/// UserError on all ranks where a GPU was asked for and cannot be had. Collective.
[[nodiscard]] DeviceChoice choose_device(const Communicator& world, const Config& config);

}  // namespace rossby
