#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rossby/model/architecture.hpp"

namespace rossby {

/// Returns all models, in the order of help and tables.
[[nodiscard]] std::span<const ModelDescriptor> models();
/// Returns the model of that name. Throws BugError if there is none, because model.name was checked before.
[[nodiscard]] const ModelDescriptor& model_named(std::string_view name);

// One line per model. <name>_descriptor() is defined in the model's folder.
#define ROSSBY_MODELS(MODEL) \
  MODEL(stnn)                \
  MODEL(dcrnn)               \
  MODEL(gru)                 \
  MODEL(tgcn)                \
  MODEL(graph_wavenet)       \
  MODEL(stgcn)               \
  MODEL(stid)

#define ROSSBY_DECLARE(NAME) [[nodiscard]] ModelDescriptor NAME##_descriptor();
ROSSBY_MODELS(ROSSBY_DECLARE)
#undef ROSSBY_DECLARE

/// Keys model.name, model.precision and model.base_forecast, and the selected model.
struct ModelSettings {
  std::string name;
  std::string precision;
  std::string base_forecast;
  std::shared_ptr<const Architecture> architecture;
  std::string base_chosen = {};  // no key: Baseline::chosen() at the start of the run; empty: unknown
  [[nodiscard]] bool corrects() const { return base_forecast != "none"; }
};
/// Returns the keys model.* of all models, each with the models that read it.
[[nodiscard]] const KeyTable& model_keys();
[[nodiscard]] ModelSettings model_settings(const KeyValues& values);
/// True if the model of this name reads a key.
[[nodiscard]] bool reads(std::string_view model, const KeySpec& key);

/// Returns the trainings by which `rossby calibrate` measures a machine; `quick`: few of them, for tests.
[[nodiscard]] std::vector<CalibrationCase> calibration_cases(bool quick);

}  // namespace rossby
