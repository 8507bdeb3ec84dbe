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

/// All keys of all rooms and models, in the order in which they are printed and hashed.
[[nodiscard]] const KeyTable& config_keys();

/// A resolved configuration, parsed once into the settings of the rooms that own the keys. Immutable.
class Config {
 public:
  /// All defaults.
  Config();

  /// Reads a TOML file, then applies `--set key=value` settings in order. An empty `path` stands for no file.
  /// Throws UserError as KeyValues::parse does.
  static Config load(const std::string& path, std::span<const std::string> sets);
  /// The same from TOML text; messages name `origin` instead of the file.
  static Config parse(std::string_view toml, const std::string& origin, std::span<const std::string> sets);
  /// Returns a copy with `--set key=value` settings on top.
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

  /// Returns the window model that model.name selects; null for other models.
  [[nodiscard]] const WindowArchitecture* windows() const { return model.architecture->windows(); }

  /// True if a file or --set gave the value, false if it is the default.
  [[nodiscard]] bool given(std::string_view key) const { return values_.given(key); }
  /// Returns the whole configuration as TOML: KeyValues::to_toml.
  [[nodiscard]] std::string to_toml() const { return values_.to_toml(); }
  /// Returns 16 hex digits that identify the settings: KeyValues::hash.
  [[nodiscard]] std::string hash() const { return values_.hash(); }
  /// Returns the keys that model.name does not read and whose value is not the default.
  [[nodiscard]] std::vector<std::string> idle() const;
  /// See KeyValues::differences.
  [[nodiscard]] std::vector<std::string> differences(const Config& other, std::string_view this_is = "here",
                                                     std::string_view other_is = {}) const {
    return values_.differences(other.values_, this_is, other_is);
  }
  /// See KeyValues::changes.
  [[nodiscard]] std::vector<std::string> changes(const Config& before) const {
    return values_.changes(before.values_);
  }

 private:
  explicit Config(KeyValues values);
  KeyValues values_;
};

}  // namespace rossby
