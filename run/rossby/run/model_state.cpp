#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/units.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/plane_service.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_files.hpp"

// Writes and reads the state files and checkpoints of a run.

namespace rossby {
namespace {

/// Settings besides shapes on which weights depend.
constexpr const char* meaning_of_weights[] = {
    "data.center", "data.spread", "data.factor", "data.transform", "data.trend",
    "data.cycle",  "model.",      "relation.",   "window.inputs",  "window.outputs"};

}  // namespace

template <class T>
std::vector<StateArray<T>> ModelRun<T>::state_arrays(std::span<const NamedArray<T>> arrays) const {
  std::vector<StateArray<T>> all;
  for (const NamedArray<T>& array : arrays) {
    const Parameter<T>& parameter = *array.parameter;
    const GlobalEdges* behind = parameter.placement == Placement::entries ? &edges(parameter) : nullptr;
    all.push_back(state_array(array.name, parameter, array.data, behind, array.bf16, array.file));
  }
  return all;
}

template <class T>
std::vector<NamedArray<T>> ModelRun<T>::values() const {
  std::vector<NamedArray<T>> arrays;
  for (Parameter<T>* parameter : parameters()) {
    parameter->settle_stream();
    arrays.emplace_back(parameter->name, parameter, parameter->value, parameter->bf16);
  }
  return arrays;
}

template <class T>
void ModelRun<T>::save(const std::string& path, const nlohmann::ordered_json& metadata) {
  write(path, values(), metadata.dump());
}

template <class T>
std::optional<FittedValues> ModelRun<T>::kept_fit(std::vector<Scaler> like) const {
  if (!data_changed()) return std::nullopt;
  const AnomalySpec spec = anomalies_asked();
  if (spec.transform.on() && config_->data.point == "mean")
    user_error(
        "--accept-changed-data: with data.transform = \"{}\" and data.point = \"mean\" forecasts depend on "
        "errors in the training part, whose values have changed. Restore the data, or train a new run",
        config_->data.transform);
  const bool cycles = spec.cycle.kind != CycleKind::none;
  return read_fitted(
      grid_.space(), *record_, domain_,
      {std::move(like), cycles ? CyclePhases::of(domain_.info.time, spec.cycle).finest().count : 0,
       spec.trend});
}

// The first group and stage write: the others with these rows hold the same.
template <class T>
void ModelRun<T>::save_record(const std::string& path) {
  const AnomalySpec spec = anomalies_asked();
  const bool cycles = spec.cycle.kind != CycleKind::none;
  agree(grid_.world(), [&] {
    if (grid_.group() != 0 || grid_.stage() != 0) return;
    write_record(grid_.space(), path, domain_, data_hash_,
                 {scalers(), cycles ? CyclePhases::of(domain_.info.time, spec.cycle).finest().count : 0,
                  spec.trend, anomalies_.fitted()});
  });
}

/// Throws UserError if a variable has other units than in the training: such values are no corrections.
/// States of old versions have no units.
template <class T>
void ModelRun<T>::check_units(const std::string& path, const nlohmann::json& metadata) const {
  const std::vector<SeriesVariable> variables = domain_.variables();
  const nlohmann::json then = metadata.value("units", nlohmann::json::array());
  if (!then.is_array() || then.size() != variables.size()) return;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::string trained = then[v].is_string() ? then[v].get<std::string>() : "";
    const std::string& units = variables[v].units;
    if (trained.empty() || units.empty()) continue;
    const auto conversion = unit_conversion(trained, units);
    if (trained == units || (conversion && conversion->is_identity())) continue;
    user_error(
        "{}: variable {} has units \"{}\", but {} was trained on units \"{}\". Convert the variable to the "
        "units of the training",
        domain_.info.path, variables[v].name, units, path, trained);
  }
}

/// Throws UserError if more has changed than the values and where the data begin.
template <class T>
DataChanges ModelRun<T>::accept_changes(const std::string& path, const nlohmann::json& metadata) const {
  const SeriesInfo& info = domain_.info;
  if (record_ && !record_->goes_with(data_hash_, info.time))
    user_error(
        "{}: not only values have changed since {} was trained, but also nodes, coordinates, variables, "
        "edges, or the times of steps. Restore the data, or train a new run",
        info.path, path);
  check_units(path, metadata);
  if (record_) return changes_of(*record_, data_hash_, *config_, domain_);
  const std::string begin = metadata.value("first_time", "");
  if (!begin.empty() && begin != info.time.text(0))
    user_error(
        "{}: the data begin at {}, but the training began at {}. {} was written by an old version, which did "
        "not record the times of steps. Restore the data, or train a new run",
        info.path, info.time.text(0), begin, path);
  return {0, 0,
          fmt::format("accepted  {}: the training part has changed; {} has no record of this part: the "
                      "file checkpoints/data.h5 is missing, or an old version has written the run\nwarning   "
                      "scaling, cycle and trend are computed anew from "
                      "the changed data, and differ from those of the training\n",
                      info.path, path)};
}

template <class T>
DataChanges ModelRun<T>::load(const std::string& path, bool other_file, bool accepts) {
  DataChanges changes;
  agree(grid_.world(), [&] {
    if (grid_.world().rank() != 0) return;
    auto metadata = nlohmann::json::parse(read_state_metadata(path), nullptr, false);
    if (!metadata.is_object()) metadata = nlohmann::json::object();
    const Index nodes = metadata.value("nodes", domain_.nodes());
    if (nodes != domain_.nodes())
      user_error("{}: {} nodes{}, but {} was trained on {} nodes. Restore the data, or train a new run",
                 domain_.info.path, domain_.nodes(),
                 config_->data.nodes == "all" ? "" : " have a value at some step", path, nodes);
    const std::string trained = metadata.value("training_hash", "");
    if (trained.empty() && other_file)
      fmt::print(stderr,
                 "rossby: warning: {} does not record its training data, so that {} cannot be compared with "
                 "these data\n",
                 path, domain_.info.path);
    const bool differs = !trained.empty() && trained != training_hash();
    const std::string of_nodes = metadata.value("node_hash", "");
    if (differs && !of_nodes.empty() && of_nodes != node_hash(domain_))
      user_error(
          "{}: its nodes are not those that {} was trained on, or are in another order. Bring the nodes into "
          "the order of the training (with xarray: ds.sel(node=names)), or train a new run",
          domain_.info.path, path);
    if (accepts && differs)
      changes = accept_changes(path, metadata);
    else if (accepts)
      changes.text = "accepted  no step of the training part has changed\n";
    else if (differs)
      user_error(
          "{}: the training part ({} to {}) is not what {} was trained on. Restore the data, accept the "
          "changes with --accept-changed-data, or train a new run",
          domain_.info.path, domain_.info.time.text(domain_.split.train.first),
          domain_.info.time.text(domain_.split.train.last - 1), path);
  });
  read(path, values());
  agree(grid_.world(), [&] { lend(); });
  return changes;
}

/// Copies to the device, if there is one, what forecasts read. Gradients are dropped. Latents by step stay on
/// the host, which takes start values from them.
template <class T>
void ModelRun<T>::lend() {
  Device* device = training_exec_.device;
  if (!device) return;
  for (Parameter<T>* parameter : parameters()) {
    parameter->gradient = {};
    if (parameter->name == "factors") continue;
    parameter->device = device;
    parameter->send();
  }
  device->wait();
}

// The first stage of the first group writes. The others hold the same, except for planes of split arrays,
// which it asks for.
template <class T>
void ModelRun<T>::write(const std::string& path, std::span<const NamedArray<T>> arrays,
                        const std::string& metadata) {
  auto all = state_arrays(arrays);
  const auto write_all = [&] { write_state<T>(grid_.space(), path, domain_.partition, all, metadata); };
  if (grid_.groups() * grid_.stages() == 1) return write_all();
  PlaneService<T> planes(grid_.time(), all, static_cast<Index>(domain_.rows.size()));
  agree(grid_.world(), [&] {
    if (grid_.stage() != 0) return;
    if (grid_.groups() == 1) return write_all();
    if (grid_.group() != 0) return planes.answer(all);
    struct End {
      PlaneService<T>* planes;
      ~End() { planes->end(); }
    } const end{&planes};
    planes.serve_through(all);
    write_all();
  });
}

template <class T>
void ModelRun<T>::check_room(const std::string& path, std::span<const NamedArray<T>> arrays) {
  if (grid_.groups() * grid_.stages() == 1)
    check_state_room<T>(grid_.space(), path, domain_.partition, state_arrays(arrays));
}

template <class T>
void ModelRun<T>::read(const std::string& path, std::span<const NamedArray<T>> arrays) {
  const auto all = state_arrays(arrays);
  if (grid_.groups() * grid_.stages() == 1) return read_state<T>(grid_.space(), path, domain_.partition, all);
  agree(grid_.world(), [&] { read_state<T>(grid_.space(), path, domain_.partition, all); });
}

template <class T>
std::string ModelRun<T>::start_from(const std::string& run) {
  const std::string path = std::filesystem::is_directory(run) ? state_file_of(run) : run;
  Index latents = 0;  // steps with latents in the state
  std::string remark;
  agree(grid_.world(), [&] {
    const StoredState stored = list_state(path);
    const auto metadata = nlohmann::json::parse(stored.metadata, nullptr, false);
    const auto said = [&](const char* member) {
      return metadata.is_object() && metadata.contains(member) && metadata[member].is_string()
                 ? metadata[member].template get<std::string>()
                 : std::string();
    };
    if (const std::string model = said("model"); model != config_->model.name)
      user_error(
          "train.from: {} has a model \"{}\", but model.name is \"{}\". Set model.name to the model "
          "of this state, or remove train.from",
          path, model, config_->model.name);
    for (const Parameter<T>* parameter : parameters()) {
      const bool by_node = parameter->placement != Placement::replicated;
      if (by_node && stored.nodes != domain_.nodes())
        user_error(
            "train.from: {} has {} nodes, but {} has {}. Parameter \"{}\" has values for each node, so train "
            "on the same nodes",
            path, stored.nodes, domain_.info.path, domain_.nodes(), parameter->name);
      if (by_node && !said("node_hash").empty() && said("node_hash") != node_hash(domain_))
        user_error(
            "train.from: {} was trained on other nodes than {} has, or on the same nodes in another order. "
            "Train on the same nodes in the same order, or remove train.from",
            path, domain_.info.path);
      if (parameter->name != "factors") continue;
      if (!said("first_time").empty() && said("first_time") != domain_.info.time.text(0))
        user_error(
            "train.from: {} begins at {}, but {} begins at {}. Latents belong to time steps, so that both "
            "must begin at the same step. Set data.first_step",
            path, said("first_time"), domain_.info.path, domain_.info.time.text(0));
      for (const StoredArray& array : stored.arrays)
        if (array.name == "factors") latents = array.extents[0];
      const Index steps = parameter->split() ? parameter->outer_all : parameter->shape[0];
      if (latents > steps)
        user_error(
            "train.from: {} has latents of {} training steps, but split.train has {}. Lengthen "
            "split.train, or remove train.from",
            path, latents, steps);
      if (latents < steps)
        remark = fmt::format("; latents of {} of {} training steps, the others begin anew", latents, steps);
    }
    std::vector<std::string> other;
    if (!said("config").empty())
      other = config_->differences(Config::parse(said("config"), path, {}), "here", "there");
    const bool same_cycle = said("cycle") == name_of(cycle_) || config_->data.cycle == name_of(cycle_);
    std::erase_if(other, [&](const std::string& difference) {
      return std::none_of(std::begin(meaning_of_weights), std::end(meaning_of_weights),
                          [&](const char* key) { return difference.starts_with(key); }) ||
             difference.starts_with("relation.file:") ||
             (difference.starts_with("data.cycle:") && same_cycle);
    });
    if (!other.empty()) remark += fmt::format("; other settings: {}", fmt::join(other, "; "));
    if (said("first_time") == domain_.info.time.text(0) &&
        metadata.value("training_steps", Index{0}) > domain_.split.train.last)
      remark += fmt::format(
          "\nwarning   {} was trained on steps up to {}, and some of these steps are in the validation or "
          "test part of this run: errors of these parts are too small",
          path,
          domain_.info.time.text(
              std::min(metadata["training_steps"].template get<Index>(), domain_.info.steps) - 1));
  });
  auto all = state_arrays(values());
  for (StateArray<T>& array : all)
    if (array.name == "factors") array.outer = latents;
  agree(grid_.world(), [&] { read_state<T>(grid_.space(), path, domain_.partition, all); });
  return fmt::format("from      {}{}\n", path, remark);
}

#define ROSSBY_INSTANTIATE(T)                                                                               \
  template void ModelRun<T>::write(const std::string&, std::span<const NamedArray<T>>, const std::string&); \
  template void ModelRun<T>::check_room(const std::string&, std::span<const NamedArray<T>>);                \
  template void ModelRun<T>::read(const std::string&, std::span<const NamedArray<T>>);                      \
  template void ModelRun<T>::save(const std::string&, const nlohmann::ordered_json&);                       \
  template void ModelRun<T>::save_record(const std::string&);                                               \
  template std::optional<FittedValues> ModelRun<T>::kept_fit(std::vector<Scaler>) const;                    \
  template DataChanges ModelRun<T>::load(const std::string&, bool, bool);                                   \
  template std::string ModelRun<T>::start_from(const std::string&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
