#pragma once

#include <memory>
#include <string>

#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby::bench {

/// Returns the value of an option --products: model, tf32 or bf16.
[[nodiscard]] Products products_named(const std::string& name);

/// Returns the name of an option --products.
[[nodiscard]] const char* to_string(Products products);

/// Returns the relative tolerance of a loss or result if operands are rounded in this way; `exact` if not.
[[nodiscard]] double tolerance_of(Products products, double exact);

/// Throws UserError if an option --device is not cpu, cuda or simulated.
void check_device_name(const std::string& name);

/// Returns the device that kernels run on; null: the host (cpu). Ranks take GPUs in turn. `graphs`: steps
/// that run ahead are CUDA graphs. Throws UserError if there is no GPU.
[[nodiscard]] std::unique_ptr<Device> open_device(const std::string& name, int rank = 0,
                                                  Products products = Products::model, bool graphs = false);

/// Sets back end and device of kernels if `device` is not null.
void run_on(Exec& exec, Device* device, const std::string& name);

}  // namespace rossby::bench
