#include "rossby/model/registry.hpp"

#include <algorithm>
#include <deque>
#include <iterator>

#include <fmt/format.h>

#include "rossby/base/error.hpp"

namespace rossby {

std::span<const ModelDescriptor> models() {
#define ROSSBY_DESCRIPTOR(NAME) NAME##_descriptor(),
  static const ModelDescriptor all[] = {ROSSBY_MODELS(ROSSBY_DESCRIPTOR)};
#undef ROSSBY_DESCRIPTOR
  return all;
}

const ModelDescriptor& model_named(std::string_view name) {
  const auto found = std::ranges::find(models(), name, &ModelDescriptor::name);
  require(found != models().end(), "model.name is one of its choices");
  return *found;
}

namespace {

/// Returns the help of model.name: models by name, with window models last.
std::string names_in_words() {
  std::string latent, of_windows;
  for (const ModelDescriptor& model : models()) {
    std::string& list = model.of_windows ? of_windows : latent;
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", model.name,
                        model.remark.empty() ? "" : fmt::format(" ({})", model.remark));
  }
  return fmt::format("model: {}, or a window model: {}", latent, of_windows);
}

std::string names_to_choose() {
  std::string names;
  for (const ModelDescriptor& model : models())
    names += fmt::format("{}{}", names.empty() ? "" : "|", model.name);
  return names;
}

bool has(const ModelDescriptor& model, std::string_view key) {
  return std::ranges::find(model.keys, key, &KeySpec::name) != model.keys.end();
}

/// Returns the models that read a key of model.*, in the form of KeySpec.
std::string readers(std::string_view key) {
  bool every_window = true, latent = false;
  std::string names;
  for (const ModelDescriptor& model : models()) {
    const bool reads = has(model, key);
    if (reads) names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
    if (model.of_windows) every_window = every_window && reads;
    if (!model.of_windows) latent = latent || reads;
  }
  if (every_window) return latent ? "" : "windows";
  return names;
}

}  // namespace

const KeyTable& model_keys() {
  // Texts made from the registry live as long as the table.
  static const std::string words = names_in_words(), choices = names_to_choose();
  static std::deque<std::string> models_of;
  static const KeyTable table = [] {
    KeyTable keys{{.name = "model.name",
                   .type = KeyType::text,
                   .default_value = "\"stnn\"",
                   .unit = "",
                   .meaning = words,
                   .choices = choices},
                  {.name = "model.precision",
                   .type = KeyType::text,
                   .default_value = "\"float\"",
                   .unit = "",
                   .meaning = "floating-point type of parameters and arithmetic",
                   .choices = "float|double"},
                  {.name = "model.base_forecast",
                   .type = KeyType::text,
                   .default_value = "\"none\"",
                   .unit = "",
                   .meaning = "linear baseline. The model adds its outputs, which begin at 0, to the "
                              "forecasts of the baseline, and learns what the baseline misses",
                   .choices = "none|direct_ar|direct_ridge",
                   .added = true,
                   .models = "windows"}};
    const std::size_t general = keys.size();
    for (const ModelDescriptor& model : models())
      for (const KeySpec& key : model.keys) {
        const auto same = std::ranges::find(keys, key.name, &KeySpec::name);
        if (same == keys.end())
          keys.push_back(key);
        else
          require(*same == key, "models share a key as a whole");
      }
    for (std::size_t k = general; k < keys.size(); ++k)
      keys[k].models = models_of.emplace_back(readers(keys[k].name));
    return keys;
  }();
  return table;
}

ModelSettings model_settings(const KeyValues& values) {
  ModelSettings settings{values.text("model.name"), values.text("model.precision"),
                         values.text("model.base_forecast"), nullptr};
  settings.architecture = model_named(settings.name).configure(values);
  return settings;
}

bool reads(std::string_view model, const KeySpec& key) {
  if (key.models.empty()) return true;
  const ModelDescriptor& descriptor = model_named(model);
  if (key.models == "windows") return descriptor.of_windows;
  if (key.name.starts_with("model.")) return has(descriptor, key.name);
  for (std::string_view names = key.models; !names.empty();) {
    const std::size_t end = std::min(names.find(", "), names.size());
    if (names.substr(0, end) == model) return true;
    names.remove_prefix(std::min(end + 2, names.size()));
  }
  return false;
}

std::vector<CalibrationCase> calibration_cases(bool quick) {
  std::vector<CalibrationCase> cases;
  for (const ModelDescriptor& model : models())
    if (const auto measured = quick ? model.quick_calibration : model.calibration) {
      auto some = measured();
      cases.insert(cases.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
  // Some cases validate, with forecasts in different numbers of columns.
  constexpr Index columns[] = {4, 1, 64, 16, 32, 8};
  for (std::size_t k = 0; k < cases.size(); k += 3) {
    CalibrationCase& of = cases[k];
    of.validated = of.horizons - 1 + std::min(columns[k / 3 % std::size(columns)], of.most_columns);
  }
  return cases;
}

}  // namespace rossby
