#include "rossby/run/device_choice.hpp"

#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/device_binding.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/nccl_api.hpp"
#include "rossby/mpi/nccl_link.hpp"
#include "rossby/tensor/cuda_device.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
namespace {

/// Share of a GPU's memory for the ranks on it; the CUDA runtime needs the rest.
constexpr double share_of_memory = 0.92;

std::unique_ptr<Device> open_device(const Config& config, Backend backend, int gpu, int ranks_on_gpu) {
  DeviceOptions options;
  const std::string& products = config.parallel.products;
  options.products = products == "tf32"   ? Products::tf32
                     : products == "bf16" ? Products::bf16
                                          : Products::model;
  std::unique_ptr<DeviceDriver> driver;
  if (backend == Backend::simulated)
    driver = std::make_unique<SimulatedDriver>();
  else
    driver = std::make_unique<CudaDriver>(gpu, cuda_runtime(), config.parallel.cuda_graphs);
  options.limit = static_cast<std::size_t>(device_limit(config, driver->total_bytes(), ranks_on_gpu));
  return std::make_unique<Device>(std::move(driver), options);
}

/// Returns "device    3 x this, 1 x that, up to 2 ranks on each".
std::string remark_of(const DeviceBinding& bound) {
  std::string remark;
  for (const auto& [name, count] : bound.kinds)
    remark += fmt::format("{}{} x {}", remark.empty() ? "device    " : ", ", count, name);
  if (bound.most > 1) remark += fmt::format(", up to {} ranks on each", bound.most);
  if (bound.kinds.size() > 1) remark += "; the ranks wait for the slowest";
  return remark;
}

/// True if any rank multiplies bf16 without hardware instructions.
bool any_in_software(Isa isa, Reducer& reducer) {
  double software = isa == Isa::avx512 && has_bf16_products() ? 0 : 1;
  reducer.max(std::span<double>(&software, 1));
  return software > 0;
}

}  // namespace

std::size_t parse_bytes(const std::string& text, const std::string& key) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  double factor = 0;
  for (const auto& [name, bytes] :
       {std::pair{"", 1.0}, std::pair{"B", 1.0}, std::pair{"KiB", 0x1p10}, std::pair{"MiB", 0x1p20},
        std::pair{"GiB", 0x1p30}, std::pair{"TiB", 0x1p40}, std::pair{"KB", 1e3}, std::pair{"MB", 1e6},
        std::pair{"GB", 1e9}, std::pair{"TB", 1e12}})
    if (unit == name) factor = bytes;
  if (code != std::errc() || factor == 0 || !std::isfinite(value) || value <= 0 || value * factor > 0x1p60)
    user_error("{} = \"{}\" is not an amount of memory. Write an amount like \"4GiB\" or \"512MiB\"", key,
               text);
  return static_cast<std::size_t>(value * factor);
}

double device_limit(const Config& config, std::size_t total, int ranks) {
  const std::string& limit = config.parallel.device_memory;
  return limit.empty() ? share_of_memory / ranks * static_cast<double>(total)
                       : static_cast<double>(parse_bytes(limit, "parallel.device_memory"));
}

std::string precision_of(const Config& config, bool on_device) {
  const std::string &precision = config.model.precision, &products = config.parallel.products;
  const bool rounds = products == "bf16" || (on_device && products == "tf32");
  return precision == "float" && rounds ? products : precision;
}

Isa common_isa(const Communicator& comm, const Config& config, Reducer& reducer) {
  double lacking = -static_cast<double>(widest_isa());
  reducer.max(std::span<double>(&lacking, 1));
  const Isa common = static_cast<Isa>(static_cast<int>(-lacking));
  const std::string& name = config.parallel.isa;
  if (name == "auto") return common;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (name == to_string(isa)) {
      agree(comm, [&] {
        if (!supported(isa))
          user_error(
              "parallel.isa = \"{}\": the processor of a rank does not have these instructions. Set "
              "parallel.isa to \"auto\", or to \"{}\", the widest set that all ranks have",
              name, to_string(common));
      });
      return isa;
    }
  bug("parallel.isa is none of its choices");
}

ProductsChoice choose_products(const Config& config, Isa isa, Reducer& reducer) {
  const std::string& asked = config.parallel.products;
  if (asked != "auto" && asked != "bf16") return {};
  const bool in_software = any_in_software(isa, reducer);
  const bool rounds = asked == "bf16" || !in_software;
  return {rounds ? Products::bf16 : Products::model,
          fmt::format("products  {}\n",
                      !rounds       ? "floats, because not all processors have instructions for bf16"
                      : in_software ? "operands rounded to bf16, which is no faster than floats, because "
                                      "some processors have no instructions for bf16"
                                    : "operands rounded to bf16")};
}

bool lacks_gpus(const Communicator& world) {
  MpiReducer reducer(world);
  double lacking = cuda_devices().count == 0 ? 1 : 0;
  reducer.max(std::span<double>(&lacking, 1));
  return lacking > 0;
}

DeviceChoice choose_device(const Communicator& world, const Config& config) {
  DeviceChoice choice;
  const std::string& asked = config.parallel.device;
  agree(world, [&] {
    if (const std::string& limit = config.parallel.device_memory; !limit.empty())
      (void)parse_bytes(limit, "parallel.device_memory");
  });
  if (asked == "cpu") return choice;
  if (asked == "simulated") {
    choice.backend = Backend::simulated;
    choice.device = agree(world, [&] { return open_device(config, choice.backend, 0, 1); });
    choice.remark = "device    simulated";
    return choice;
  }
  if (config.parallel.cuda_graphs) load_kernels_at_once();
  const CudaDevices found = cuda_devices();
  if (asked == "cuda")
    agree(world, [&] {
      if (found.count == 0)
        user_error(
            "parallel.device = \"cuda\", but no GPU was found: {}. Set parallel.device = \"cpu\" or \"auto\"",
            found.reason);
    });
  if (lacks_gpus(world)) {
    choice.remark = fmt::format("device    cpu (no GPU: {})",
                                found.count == 0 ? found.reason : "another rank sees no GPU");
    return choice;
  }
  choice.backend = Backend::cuda;
  const auto seen = agree(world, [&] {
    std::vector<SeenDevice> devices;
    for (int k = 0; k < found.count; ++k) {
      const CudaApi::Properties is = properties_of(k);
      devices.push_back({is.id, fmt::format("{} (sm_{}{})", is.name, is.major, is.minor)});
    }
    return devices;
  });
  const DeviceBinding bound = bind_devices(world, seen);
  const int on_gpu = bound.most;
  choice.device =
      agree(world, [&] { return open_device(config, choice.backend, bound.device, bound.ranks); });
  choice.remark = remark_of(bound);
  if (const std::string why = lacking_cublas(); !why.empty())
    choice.remark += fmt::format("; products by Rossby's own kernels, without matrix units: {}", why);
  for (const auto& [name, count] : bound.kinds) choice.gpus += count;
  if (world.size() > 1) {
    MpiReducer reducer(world);
    double no_nccl = on_gpu > 1 || !nccl_library() ? 1 : 0;
    reducer.max(std::span<double>(&no_nccl, 1));
    const std::string& transport = config.parallel.transport;
    if (transport == "nccl" && on_gpu > 1)
      user_error(
          "parallel.transport = \"nccl\" needs a GPU for every rank, but {} ranks share a GPU. Start fewer "
          "ranks, or set parallel.transport = \"host\"",
          on_gpu);
    if (transport == "nccl" && no_nccl > 0)
      user_error(
          "parallel.transport = \"nccl\": a rank cannot load libnccl.so.2. Install NCCL on all hosts, or set "
          "parallel.transport = \"host\"");
    choice.nccl = transport != "host" && no_nccl == 0;
    std::string why;
    if (choice.nccl && transport == "auto") {
      choice.link = try_nccl(world, *choice.device, why);
      choice.nccl = choice.link != nullptr;
      if (!choice.nccl) choice.remark += fmt::format("; {}", why);
    }
    choice.remark += choice.nccl ? "; ranks exchange by NCCL" : "; ranks exchange through host memory";
  }
  return choice;
}

}  // namespace rossby
