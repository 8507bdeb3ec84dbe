#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/data/settings.hpp"
#include "rossby/io/key_values.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/relation/settings.hpp"
#include "rossby/train/settings.hpp"

namespace rossby {

/// Every key there is, of all rooms and models, in the order in which keys are printed and hashed.
[[nodiscard]] const KeyTable& config_keys();

/// A resolved configuration, parsed once into the settings of the rooms that own the keys. Const once built.
class Config {
 public:
  /// All defaults.
  Config();

  /// From a TOML file and `--set key=value` settings, applied in order; an empty `path` stands for no file.
  /// Throws UserError as KeyValues::parse does.
  static Config load(const std::string& path, std::span<const std::string> sets);
  /// The same from TOML text; `origin` stands for the file in messages.
  static Config parse(std::string_view toml, const std::string& origin, std::span<const std::string> sets);
  /// This one with `--set key=value` settings on top.
  [[nodiscard]] Config with(std::span<const std::string> sets) const;

  DataSettings data;
  SplitSettings split;
  RelationSettings relation;
  ModelSettings model;
  WindowSettings window;
  OptimiserSettings optimiser;
  ScheduleSettings schedule;
  TrainSettings train;
  CheckpointSettings checkpoint;
  ValidationSettings validation;
  EvaluateSettings evaluate;
  ParallelSettings parallel;
  LogSettings log;

  /// The forecaster of windows that model.name asks for; null for other models.
  [[nodiscard]] const WindowArchitecture* windows() const { return model.architecture->windows(); }

  /// True if a file or --set gave the value, false if it is the default.
  [[nodiscard]] bool given(std::string_view key) const { return values_.given(key); }
  /// The whole configuration as TOML: KeyValues::to_toml.
  [[nodiscard]] std::string to_toml() const { return values_.to_toml(); }
  /// 16 hex digits that tell settings from others: KeyValues::hash.
  [[nodiscard]] std::string hash() const { return values_.hash(); }
  /// Keys that model.name does not read and that have another value than the default.
  [[nodiscard]] std::vector<std::string> idle() const;
  /// KeyValues::differences.
  [[nodiscard]] std::vector<std::string> differences(const Config& other, std::string_view this_is = "here",
                                                     std::string_view other_is = {}) const {
    return values_.differences(other.values_, this_is, other_is);
  }
  /// KeyValues::changes.
  [[nodiscard]] std::vector<std::string> changes(const Config& before) const {
    return values_.changes(before.values_);
  }

 private:
  explicit Config(KeyValues values);
  KeyValues values_;
};

}  // namespace rossby
