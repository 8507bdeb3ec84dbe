#include "rossby/run/stnn_settings.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "rossby/base/bf16.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/whole_graph.hpp"
#include "rossby/run/device_choice.hpp"

namespace rossby {
namespace {

double discover_start(const Config& config, Index nodes) {
  const std::string& text = config.relation.discover_start;
  if (text == "1/n") return 1.0 / static_cast<double>(nodes);
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (text.empty() || used != text.size() || !std::isfinite(value))
    user_error("relation.discover_start = \"{}\" is not a number. Set \"1/n\" or a number", text);
  return value;
}

/// Checks the other keys that relation.precision = "bf16" needs.
void check_bf16(const Config& config) {
  const auto need = [](bool has, const char* what) {
    if (!has) user_error("relation.precision = \"bf16\" needs {}", what);
  };
  need(config.model.precision == "float", "model.precision = \"float\"");
  need(config.train.sampling == "slabs",
       "train.sampling = \"slabs\": batches of pairs do not update relations tile by tile");
  need(config.optimiser.name != "sgd", "optimiser.name = \"adam\" or \"adamw\"");
  const bool refined = config.relation.graph != "none" && config.relation.mode == "refine" &&
                       config.relation.storage == "dense";
  need(refined || config.relation.discover == "dense",
       "a dense learned relation: relation.discover = \"dense\", or relation.mode = \"refine\" with "
       "relation.storage = \"dense\"");
}

}  // namespace

const StnnSettings& stnn_settings(const Config& config) {
  const auto* stnn = dynamic_cast<const StnnArchitecture*>(config.model.architecture.get());
  require(stnn != nullptr, "the settings of an STNN are asked of a configuration of one");
  return stnn->settings();
}

double stream_bytes(const Config& config) {
  const double asked = config.relation.stream_gib * (1 << 30);
  const std::string& limit = config.parallel.device_memory;
  return limit.empty()
             ? asked
             : std::min(asked, static_cast<double>(parse_bytes(limit, "parallel.device_memory")) / 3);
}

namespace {

/// Streams dense learned relations, for relation.memory = "streamed".
template <class T>
void stream(const Config& config, Device* device, UpdatePlace place, Relations<T>& relations) {
  const std::string& folder = config.relation.stream_folder;
  const char* temporary = std::getenv("TMPDIR");
  relations.stream_dense({.folder = !folder.empty()           ? folder
                                    : temporary && *temporary ? temporary
                                                              : "/tmp",
                          .device = device,
                          .transfer = transfer_named(config.relation.transfer),
                          .budget = static_cast<std::size_t>(stream_bytes(config)),
                          .host_updates = device && place == UpdatePlace::host});
}

/// Returns the missing key that relation.memory = "streamed" needs; null if none is missing.
const char* missing_for_streams(const Config& config) {
  if (config.relation.discover != "dense") return "a dense learned relation: relation.discover = \"dense\"";
  if (config.train.sampling != "slabs")
    return "train.sampling = \"slabs\": batches of pairs do not update relations tile by tile";
  if (config.optimiser.name == "sgd") return "optimiser.name = \"adam\" or \"adamw\"";
  if (config.relation.stream_gib <= 0) return "memory for chunks: relation.stream_gib above 0";
  return nullptr;
}

/// Returns a start value in the model's precision; subnormal numbers count as zero there.
double as_stored(const Config& config, double value, bool bf16) {
  if (config.model.precision == "double") return value;
  const auto as_float = static_cast<float>(value);
  if (std::abs(as_float) < std::numeric_limits<float>::min()) return 0;
  return static_cast<double>(bf16 ? widen(round_nearest(as_float)) : as_float);
}

/// Rates are multiples of optimiser.lr, which the schedule changes.
double rate_scale(const Config& config, double rate) {
  const double lr = config.optimiser.lr;
  return rate >= 0 && lr > 0 ? rate / lr : 1.0;
}

}  // namespace

void check_starts(const Config& config, Index nodes) {
  if (config.optimiser.lr_relation == 0 || config.optimiser.lr == 0) return;  // frozen on purpose
  // Only decay moves clamped weights, towards 0.
  const bool decays = config.optimiser.decay_relation > 0;
  const bool bf16 = config.relation.precision == "bf16";
  const auto check = [&](const char* key, double value, bool dense) {
    const double kept = as_stored(config, value, bf16 && dense);
    if (kept > 0 && (kept < 1 || decays)) return;
    const bool rounded = kept != value && (kept == 0 || kept == 1);
    user_error(
        "{} = {}{}: weights with this initial value never change, because they are clamped to 0 … 1. Give a "
        "number in between",
        key, value, rounded ? fmt::format(" (rounded to {})", kept) : "");
  };
  if (config.relation.graph != "none" && config.relation.mode == "refine")
    check("relation.refine_start", config.relation.refine_start, config.relation.storage == "dense");
  if (config.relation.self) check("relation.self_start", config.relation.self_start, false);
  if (config.relation.discover == "dense" && nodes > 1)
    check("relation.discover_start", discover_start(config, nodes), true);
}

void check_rates(const Config& config) {
  if (config.optimiser.lr_scaling != "none")
    user_error(
        "optimiser.lr_scaling = \"{}\" works only with window models. Remove optimiser.lr_scaling for "
        "model.name = \"stnn\"",
        config.optimiser.lr_scaling);
  const OptimiserSettings& rates = config.optimiser;
  for (const auto& [key, rate] :
       {std::pair{"optimiser.lr_z", rates.lr_z}, std::pair{"optimiser.lr_relation", rates.lr_relation}})
    if (rates.lr == 0 && rate > 0)
      user_error(
          "{} = {} is scaled with optimiser.lr, which is 0, so that nothing would learn. Set optimiser.lr to "
          "a small value above 0",
          key, rate);
}

double most_chunk_mib(const Config& config) {
  constexpr double at_once = 6;
  return stream_bytes(config) / at_once / (1 << 20);
}

double chunk_mib(const Config& config, const Device* device) {
  constexpr double usual = 32;
  const double asked = config.relation.chunk_mib;
  if (asked > 0) return asked;
  if (config.relation.memory == "resident") return device ? 0 : usual;
  return std::min(usual, std::exp2(std::floor(std::log2(most_chunk_mib(config)))));
}

bool streamable(const Config& config) {
  return !missing_for_streams(config);
}

StnnOptions model_options(const Config& config, const Domain& domain) {
  StnnOptions options;
  // Latents exist up to the last training step; those of held-out folds are never trained.
  options.steps = domain.split.train.last;
  options.features = domain.info.features;
  options.latent = stnn_settings(config).latent;
  options.layers = static_cast<int>(stnn_settings(config).layers);
  options.hidden = stnn_settings(config).hidden;
  options.activation =
      stnn_settings(config).activation == "tanh" ? LatentActivation::tanh : LatentActivation::identity;
  options.learned_decoder = stnn_settings(config).decoder == "learned";
  options.lambda = stnn_settings(config).lambda;
  options.l2_z = stnn_settings(config).l2_z;
  options.l1_rel = stnn_settings(config).l1_rel;
  options.dropout_z = stnn_settings(config).dropout_z;
  options.dropout_dynamics = stnn_settings(config).dropout_dynamics;
  return options;
}

template <class T>
UpdatePlaceChoice try_update_places(const Exec& exec, const Config& config, Index nodes, Index rows) {
  const std::string& asked = config.relation.update;
  const bool streams =
      exec.device && config.relation.discover == "dense" && config.relation.memory == "streamed";
  if (!streams || asked != "auto" || exec.device->driver().only_addresses())
    return {asked == "host" ? UpdatePlace::host : UpdatePlace::device, {}};
  const bool bf16 = config.relation.precision == "bf16";
  const double row_bytes = static_cast<double>(nodes) * static_cast<double>(bf16 ? sizeof(Bf16) : sizeof(T));
  const auto chunk =
      static_cast<Index>(chunk_mib(config, exec.device) * (1 << 20) / std::max(row_bytes, 1.0));
  return try_update_places<T>(exec, {.rows = std::min(rows, std::max<Index>(chunk, 1)),
                                     .columns = nodes,
                                     .bf16 = bf16,
                                     .moment = config.optimiser.beta1 != 0,
                                     .transfer = transfer_named(config.relation.transfer)});
}

template <class T>
std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                             const Domain& domain, Device* device, UpdatePlace place,
                                             TurnedSigns turned) {
  auto relations = std::make_unique<Relations<T>>(domain.partition, comm.rank());
  if (config.relation.precision == "bf16") {
    check_bf16(config);
    relations->hold_dense_in_bf16();
  }
  if (config.relation.memory == "streamed")
    if (const char* missing = missing_for_streams(config))
      user_error("relation.memory = \"streamed\" needs {}", missing);
  if (device && device->driver().only_addresses()) relations->hold_dense_nowhere();
  GlobalEdges edges = rows_of_rank(comm, domain, [&](const Communicator& ranks, const Domain& whole) {
    return build_edges(ranks, config, whole, whole.partition,
                       config.relation.mode == "refine" ? TurnedSigns::taken : turned);
  });
  if (edges.relations > 0) {
    const bool refine = config.relation.mode == "refine";
    const double start = config.relation.refine_start;
    if (config.relation.storage == "dense")
      relations->add_dense(edges, refine, start);
    else if (refine)
      relations->add_refine(std::move(edges), start);
    else
      relations->add_given(std::move(edges));
  }
  if (config.relation.self) relations->add_self(config.relation.self_start);
  const std::string& discover = config.relation.discover;
  if (discover == "dense") {
    relations->work_in_chunks(static_cast<Index>(chunk_mib(config, device) * (1 << 20)));
    if (config.relation.memory == "streamed") stream(config, device, place, *relations);
  }
  if (discover == "dense") relations->add_discover(discover_start(config, domain.nodes()));
  if (discover == "low_rank") relations->add_low_rank(config.relation.rank);
  return relations;
}

BatchOptions batch_options(const Config& config, const ProcessGrid& grid) {
  BatchOptions batches;
  batches.pairs = config.train.sampling == "pairs";
  batches.pairs_per_batch = config.train.pairs;
  batches.slab_steps = config.train.slab_steps;
  batches.joint = config.train.joint;
  batches.seed = static_cast<std::uint64_t>(config.train.seed);
  batches.lanes = config.train.lanes > 0 ? config.train.lanes : grid.groups();
  batches.groups = grid.groups();
  batches.group = grid.group();
  if (batches.pairs && batches.joint)
    user_error(
        "train.joint = true needs train.sampling = \"slabs\". Set train.sampling = \"slabs\" or "
        "train.joint = false");
  return batches;
}

/// Tells the optimiser about each parameter.
template <class T>
void set_rates(const Config& config, Stnn<T>& model) {
  for (Parameter<T>* parameter : model.parameters()) {
    parameter->decay = config.optimiser.decay;
    if (parameter->name == "factors") {
      parameter->decay = config.optimiser.decay_z;
      parameter->lr_scale = rate_scale(config, config.optimiser.lr_z);
    } else if (parameter->name.starts_with("low_rank")) {
      parameter->decay = config.optimiser.decay_low_rank;
      parameter->lr_scale = rate_scale(config, config.optimiser.lr_relation);
    } else if (parameter->placement != Placement::replicated) {
      parameter->decay = config.optimiser.decay_relation;
      parameter->lr_scale = rate_scale(config, config.optimiser.lr_relation);
    }
  }
}

StnnTaskOptions task_options(const Config& config) {
  StnnTaskOptions options;
  options.horizons = config.evaluate.horizons;
  options.rollout = config.validation.kind == "rollout";
  options.filter_lambda = config.evaluate.filter_lambda;
  return options;
}

template UpdatePlaceChoice try_update_places<float>(const Exec&, const Config&, Index, Index);
template UpdatePlaceChoice try_update_places<double>(const Exec&, const Config&, Index, Index);
template std::unique_ptr<Relations<float>> make_relations(const Communicator&, const Config&, const Domain&,
                                                          Device*, UpdatePlace, TurnedSigns);
template std::unique_ptr<Relations<double>> make_relations(const Communicator&, const Config&, const Domain&,
                                                           Device*, UpdatePlace, TurnedSigns);
template void set_rates(const Config&, Stnn<float>&);
template void set_rates(const Config&, Stnn<double>&);

}  // namespace rossby
