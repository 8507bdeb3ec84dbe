#include "rossby/plan/what_if.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

template <class Sample, class OfDevice>
void exchange_devices(std::vector<Sample>& samples, const std::vector<Sample>& others,
                      const OfDevice& of_device) {
  std::erase_if(samples, of_device);
  std::copy_if(others.begin(), others.end(), std::back_inserter(samples), of_device);
}

}  // namespace

MachineProfile with_devices_of(const MachineProfile& profile, const MachineProfile& other) {
  if (other.device.name.empty())
    user_error(
        "the machine was measured without devices. Run 'rossby calibrate --device cuda' on a host with GPUs");
  MachineProfile with = profile;
  with.device = other.device;
  const auto on_device = [](const auto& sample) { return sample.on_device; };
  exchange_devices(with.ops, other.ops, on_device);
  exchange_devices(with.stragglers, other.stragglers, on_device);
  exchange_devices(with.messages, other.messages,
                   [](const MessageSample& sample) { return sample.transport != "host"; });
  exchange_devices(with.rates, other.rates, [](const RateSample& rate) {
    return rate.kind.starts_with("device_") || rate.kind.starts_with("copy_") ||
           rate.kind.starts_with("pinned_");
  });
  return with;
}

MachineProfile what_if(const MachineProfile& profile, const FasterBy& factors) {
  MachineProfile faster = profile;
  faster.faster = factors;
  for (MessageSample& sample : faster.messages) {
    double latency = std::numeric_limits<double>::infinity();
    for (const MessageSample& other : profile.messages)
      if (other.kind == sample.kind && other.ranks == sample.ranks && other.hosts == sample.hosts &&
          other.messages == sample.messages && other.transport == sample.transport)
        latency = std::min(latency, other.seconds);
    sample.seconds = latency / factors.latency + (sample.seconds - latency) / factors.network;
  }
  for (RateSample& rate : faster.rates) {
    if (rate.kind.ends_with("stream") || rate.kind.starts_with("file_")) rate.rate *= factors.memory;
    if (rate.kind.ends_with("gemm")) rate.rate *= factors.compute;
    if (rate.kind.starts_with("copy_") || rate.kind.starts_with("pinned_")) rate.rate *= factors.transfer;
  }
  return faster;
}

}  // namespace rossby
