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

// One descriptor a model, each defined in the model's folder and listed in registry.cpp.
[[nodiscard]] ModelDescriptor stnn_descriptor();
[[nodiscard]] ModelDescriptor dcrnn_descriptor();
[[nodiscard]] ModelDescriptor gru_descriptor();
[[nodiscard]] ModelDescriptor tgcn_descriptor();
[[nodiscard]] ModelDescriptor graph_wavenet_descriptor();

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
