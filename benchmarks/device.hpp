#pragma once

#include <memory>
#include <string>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby::bench {

/// Of an option --products: model, tf32 or bf16.
[[nodiscard]] Products products_named(const std::string& name);

/// The other way round.
[[nodiscard]] const char* to_string(Products products);

/// What loss or result may differ by, relatively, where operands are rounded so; `exact` where they are not.
[[nodiscard]] double tolerance_of(Products products, double exact);

/// Throws where an option --device names none of cpu, cuda, simulated.
void check_device_name(const std::string& name);

/// What kernels run on; null: the host (cpu). GPUs go to ranks in turn. `graphs`: steps that run ahead are
/// CUDA graphs. Throws UserError where there is no GPU.
[[nodiscard]] std::unique_ptr<Device> open_device(const std::string& name, int rank = 0,
                                                  Products products = Products::model, bool graphs = false);

/// Sets back end and device of kernels that run on `device`, if it is one.
void run_on(Exec& exec, Device* device, const std::string& name);

}  // namespace rossby::bench
