#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rossby/model/architecture.hpp"

namespace rossby {

/// Every model there is, in the order in which help and tables name them.
[[nodiscard]] std::span<const ModelDescriptor> models();
/// The model of that name. Throws BugError if there is none: model.name has been checked.
[[nodiscard]] const ModelDescriptor& model_named(std::string_view name);

// One line a model. <name>_descriptor() is defined in the model's folder.
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

/// Keys model.name and model.precision, and the model that they name.
struct ModelSettings {
  std::string name;
  std::string precision;
  std::shared_ptr<const Architecture> architecture;
};
/// Keys model.*: those of all models, each with the models that read it.
[[nodiscard]] const KeyTable& model_keys();
[[nodiscard]] ModelSettings model_settings(const KeyValues& values);
/// Whether the model of this name reads a key.
[[nodiscard]] bool reads(std::string_view model, const KeySpec& key);

/// What `rossby calibrate` trains to measure a machine; `quick`: few of them, for tests.
[[nodiscard]] std::vector<CalibrationCase> calibration_cases(bool quick);

}  // namespace rossby
