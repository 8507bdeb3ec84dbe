#include "rossby/plan/what_if.hpp"

#include <algorithm>
#include <limits>

namespace rossby {
namespace {

double projected(const OpSample& sample, const MachineProfile& profile, const FasterBy& factors) {
  const auto part = [&](double amount, const char* kind) {
    const double rate = rate_of(profile, kind, sample.ranks);
    return rate > 0 ? amount / rate : 0;
  };
  const double memory = part(sample.cost.bytes, "stream"), compute = part(sample.cost.flops, "gemm");
  const double of_memory = memory <= sample.seconds ? memory : 0;
  const double of_compute = std::min(compute, sample.seconds);
  const double gained =
      of_memory >= of_compute ? of_memory * (1 - 1 / factors.memory) : of_compute * (1 - 1 / factors.compute);
  const double least = of_memory >= of_compute ? of_compute / factors.compute : of_memory / factors.memory;
  return std::max(sample.seconds - gained, least);
}

}  // namespace

MachineProfile what_if(const MachineProfile& profile, const FasterBy& factors) {
  MachineProfile faster = profile;
  for (OpSample& sample : faster.ops) sample.seconds = projected(sample, profile, factors);
  for (MessageSample& sample : faster.messages) {
    double latency = std::numeric_limits<double>::infinity();
    for (const MessageSample& other : profile.messages)
      if (other.kind == sample.kind && other.ranks == sample.ranks && other.hosts == sample.hosts &&
          other.messages == sample.messages)
        latency = std::min(latency, other.seconds);
    sample.seconds = latency / factors.latency + (sample.seconds - latency) / factors.network;
  }
  for (RateSample& rate : faster.rates) {
    if (rate.kind == "stream" || rate.kind.starts_with("file_")) rate.rate *= factors.memory;
    if (rate.kind == "gemm") rate.rate *= factors.compute;
  }
  return faster;
}

}  // namespace rossby
