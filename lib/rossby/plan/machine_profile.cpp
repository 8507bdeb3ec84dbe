#include "rossby/plan/machine_profile.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "rossby/base/plain_text.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/plan/json_fields.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

constexpr int format = 2;

/// Replaces the elements of `into` for which `same` holds by those of `more`.
template <class Sample, class Same>
void take_over(std::vector<Sample>& into, const std::vector<Sample>& more, const Same& same) {
  std::erase_if(into, [&](const Sample& old) {
    return std::any_of(more.begin(), more.end(), [&](const Sample& sample) { return same(old, sample); });
  });
  into.insert(into.end(), more.begin(), more.end());
}

/// As take_over, for message rounds: replaces all sizes between the smallest and largest of the new samples,
/// because which sizes were measured depends on their times.
void take_over_rounds(std::vector<MessageSample>& into, const std::vector<MessageSample>& more) {
  const auto key = [](const MessageSample& s) {
    return std::tuple(s.kind, s.ranks, s.hosts, s.messages, s.transport);
  };
  std::map<decltype(key(MessageSample{})), std::pair<double, double>> sizes;
  for (const MessageSample& sample : more) {
    auto& [least, most] = sizes.try_emplace(key(sample), sample.bytes, sample.bytes).first->second;
    least = std::min(least, sample.bytes);
    most = std::max(most, sample.bytes);
  }
  std::erase_if(into, [&](const MessageSample& old) {
    const auto found = sizes.find(key(old));
    return found != sizes.end() && found->second.first <= old.bytes && old.bytes <= found->second.second;
  });
  into.insert(into.end(), more.begin(), more.end());
}

}  // namespace

static void each_field(SameAs<OpSample> auto& s, const auto& field) {
  field("op", s.op);
  field("backward", s.backward);
  field("precision", s.precision);
  field("ranks", s.ranks);
  field("threads", s.threads);
  field("flops", s.cost.flops);
  field("bytes", s.cost.bytes);
  field("rows", s.made.rows);
  field("columns", s.made.cols);
  field("channels", s.made.channels);
  field("footprint_bytes", s.footprint);
  field("seconds", s.seconds);
  field("spread", s.spread);
  field.if_there("host_seconds", s.host_seconds, s.on_device);
}
static void each_field(SameAs<MessageSample> auto& s, const auto& field) {
  field("kind", s.kind);
  field("ranks", s.ranks);
  field("hosts", s.hosts);
  field("messages", s.messages);
  field("bytes", s.bytes);
  field("seconds", s.seconds);
  field("spread", s.spread);
  field("transport", s.transport, "host");
}
static void each_field(SameAs<RateSample> auto& s, const auto& field) {
  field("kind", s.kind);
  field("ranks", s.ranks);
  field("threads", s.threads);
  field("size", s.size);
  field("rate", s.rate);
  field("spread", s.spread);
}
static void each_field(SameAs<StragglerSample> auto& s, const auto& field) {
  field("ranks", s.ranks);
  field("hosts", s.hosts);
  field("factor", s.factor);
  field("on_device", s.on_device, false);
  field("seconds", s.seconds, 0);
}
static void each_field(SameAs<DeviceKind> auto& d, const auto& field) {
  field("name", d.name);
  field("count", d.count);
  field("memory_bytes", d.memory_bytes);
  field("wait_seconds", d.wait_seconds);
}
static void each_field(SameAs<MachineProfile> auto& p, const auto& field) {
  field("host", p.host);
  field("processor", p.processor);
  field("cores", p.cores);
  field("memory_bytes", p.memory_bytes);
  field("process_bytes", p.process_bytes);
  field("cut_bytes", p.cut_bytes, 0);
  field("date", p.date);
  field("rossby", p.version);
  field("mpi", p.mpi);
  field("blas", p.blas);
  field("ops", p.ops);
  field("messages", p.messages);
  field("rates", p.rates);
  field("stragglers", p.stragglers);
  field("device", p.device, DeviceKind{});
}

void merge(MachineProfile& into, const MachineProfile& more) {
  if (into.processor != more.processor || into.cores != more.cores)
    user_error(
        "the measurements are from different machines: {}, {} cores, and {}, {} cores. Use one file for each "
        "kind of machine",
        into.processor, into.cores, more.processor, more.cores);
  const DeviceKind &had = into.device, &has = more.device;
  if (!had.name.empty() && !has.name.empty() && (had.name != has.name || had.count != has.count))
    user_error(
        "the measurements are from different devices: {} x {}, and {} x {}. Use one file for each kind of "
        "device",
        had.count, had.name, has.count, has.name);
  if (!has.name.empty()) into.device = has;
  take_over(into.ops, more.ops, [](const OpSample& a, const OpSample& b) {
    return a.op == b.op && a.backward == b.backward && a.precision == b.precision && a.ranks == b.ranks &&
           a.threads == b.threads && a.cost == b.cost && a.made == b.made && a.footprint == b.footprint &&
           a.on_device == b.on_device;
  });
  take_over_rounds(into.messages, more.messages);
  take_over(into.rates, more.rates, [](const RateSample& a, const RateSample& b) {
    return a.kind == b.kind && a.ranks == b.ranks && a.threads == b.threads && a.size == b.size;
  });
  take_over(into.stragglers, more.stragglers, [](const StragglerSample& a, const StragglerSample& b) {
    return a.ranks == b.ranks && a.hosts == b.hosts && a.on_device == b.on_device;
  });
  // The library pages that a process maps vary by some 2 %. The largest measurement counts, as for the ranks
  // of a training.
  if (more.process_bytes > 0) {
    const bool same = into.version == more.version;
    into.process_bytes = same ? std::max(into.process_bytes, more.process_bytes) : more.process_bytes;
    into.cut_bytes = same ? std::max(into.cut_bytes, more.cut_bytes) : more.cut_bytes;
  }
  into.date = more.date;
  into.version = more.version;
  into.mpi = more.mpi;
  into.blas = more.blas;
}

double rate_of(const MachineProfile& profile, const std::string& kind, int ranks) {
  const RateSample* best = nullptr;
  for (const RateSample& rate : profile.rates) {
    if (rate.kind != kind) continue;
    const auto key = [&](const RateSample& r) { return std::pair(-std::abs(r.ranks - ranks), r.size); };
    if (!best || key(rate) > key(*best)) best = &rate;
  }
  return best ? best->rate : 0;
}

Json json_of(const MachineProfile& profile) {
  Json json{{"format", format}};
  each_field(profile, FieldWriter{json});
  return json;
}

MachineProfile profile_of(const Json& json, const std::string& origin) {
  try {
    if (!json.is_object() || json.contains("predicted") || !json.contains("format"))
      user_error("{}: not a machine file. Write one with 'rossby calibrate -o FILE'", origin);
    if (json.at("format") != format)
      user_error(
          "{}: the file has format {}, but this program reads format {}. Measure again with 'rossby "
          "calibrate --replace'",
          origin, json.at("format").dump(), format);
    const auto profile = json.get<MachineProfile>();
    if (const DeviceKind& d = profile.device;
        !d.name.empty() && (d.count < 1 || !(d.memory_bytes >= 0) || !(d.wait_seconds >= 0)))
      user_error(
          "{}: the devices have a count below 1, or negative memory or seconds. Measure again with 'rossby "
          "calibrate --replace'",
          origin);
    constexpr double longest = 1e6;  // seconds of a call or message
    const auto positive = [](const auto& sample) { return sample.seconds > 0 && sample.seconds < longest; };
    const auto takes_time = [](const OpSample& sample) {
      return sample.seconds < longest &&
             (sample.on_device ? sample.seconds >= 0 && sample.host_seconds >= 0 : sample.seconds > 0);
    };
    if (profile.cores < 1 || !(profile.memory_bytes >= 0) || !(profile.process_bytes >= 0) ||
        !(profile.cut_bytes >= 0))
      user_error(
          "{}: the hosts have fewer cores than 1, or negative memory. Measure again with 'rossby calibrate "
          "--replace'",
          origin);
    if (!std::all_of(profile.rates.begin(), profile.rates.end(),
                     [](const RateSample& sample) { return sample.rate > 0; }))
      user_error("{}: a measured rate is not above 0. Measure again with 'rossby calibrate --replace'",
                 origin);
    const auto has_size = [](const OpSample& sample) {
      constexpr Index most = Index{1} << 31;  // the product of two still fits
      const auto fits = [](Index extent) { return 0 <= extent && extent < most; };
      return fits(sample.made.rows) && fits(sample.made.cols) && fits(sample.made.channels) &&
             std::min({sample.cost.flops, sample.cost.bytes, sample.footprint}) >= 0;
    };
    if (!std::all_of(profile.ops.begin(), profile.ops.end(), has_size))
      user_error(
          "{}: a call of an op has negative flops or bytes, or rows, columns or channels beyond 2^31. "
          "Measure again with 'rossby calibrate --replace'",
          origin);
    if (!std::all_of(profile.ops.begin(), profile.ops.end(), takes_time) ||
        !std::all_of(profile.messages.begin(), profile.messages.end(), positive))
      user_error(
          "{}: a measurement took no time, or more than 1e6 s. Measure again with 'rossby calibrate "
          "--replace'",
          origin);
    return profile;
  } catch (const Json::exception& error) {
    user_error(
        "{}: this is not a machine file of 'rossby calibrate': {}. Measure again with 'rossby calibrate "
        "--replace'",
        origin, plain_text(error));
  }
}

MachineProfile read_profile(const std::string& file) {
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    user_error("{}: cannot be read. Make a machine file with 'rossby calibrate -o {}'", file, file);
  const Json json = Json::parse(read_text(file), nullptr, false);
  if (json.is_discarded())
    user_error("{}: the file is not JSON. Write a machine file with 'rossby calibrate -o FILE'", file);
  return profile_of(json, file);
}

}  // namespace rossby
