#include "benchmarks/device.hpp"

#include "rossby/base/user_error.hpp"
#include "rossby/tensor/cuda_device.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::bench {

Products products_named(const std::string& name) {
  for (const Products products : {Products::model, Products::tf32, Products::bf16})
    if (name == to_string(products)) return products;
  user_error("--products = \"{}\" must be model, tf32 or bf16", name);
}

const char* to_string(Products products) {
  return products == Products::model ? "model" : products == Products::tf32 ? "tf32" : "bf16";
}

// tf32 has 10 and bf16 has 7 bits of fraction.
double tolerance_of(Products products, double exact) {
  return products == Products::model ? exact : products == Products::tf32 ? 5e-3 : 4e-2;
}

void check_device_name(const std::string& name) {
  if (name != "cpu" && name != "cuda" && name != "simulated")
    user_error("--device = \"{}\" must be cpu, cuda or simulated", name);
}

std::unique_ptr<Device> open_device(const std::string& name, int rank, Products products, bool graphs) {
  check_device_name(name);
  if (name == "cpu") return nullptr;
  DeviceOptions with;
  with.products = products;
  if (name == "simulated") return std::make_unique<Device>(std::make_unique<SimulatedDriver>(), with);
  if (graphs) load_kernels_at_once();
  const CudaDevices found = cuda_devices();
  if (found.count == 0)
    user_error("--device=cuda: there is no GPU: {}. Give --device=cpu or --device=simulated", found.reason);
  return std::make_unique<Device>(std::make_unique<CudaDriver>(rank % found.count, cuda_runtime(), graphs),
                                  with);
}

void run_on(Exec& exec, Device* device, const std::string& name) {
  if (!device) return;
  exec.backend = name == "cuda" ? Backend::cuda : Backend::simulated;
  exec.device = device;
}

}  // namespace rossby::bench
