#include "rossby/train/config.hpp"

#include "rossby/io/key.hpp"

namespace rossby {
namespace {

KeyTable all_keys() {
  KeyTable keys;
  append(keys, data_keys());
  append(keys, split_keys());
  append(keys, relation_keys());
  keys.insert(keys.end(), model_keys().begin(), model_keys().end());
  append(keys, window_keys());
  append(keys, optimiser_keys());
  append(keys, schedule_keys());
  append(keys, train_keys());
  append(keys, checkpoint_keys());
  append(keys, validation_keys());
  append(keys, evaluate_keys());
  append(keys, parallel_keys());
  append(keys, log_keys());
  return keys;
}

/// STNN's reference has no first moment. Window models are 10 % worse without one.
KeyValues with_defaults_of_model(const KeyValues& values) {
  const bool of_windows = model_named(values.text("model.name")).of_windows;
  return values.with_default("optimiser.beta1", of_windows ? "0.9" : "");
}

}  // namespace

const KeyTable& config_keys() {
  static const KeyTable keys = all_keys();
  return keys;
}

Config::Config(KeyValues values)
    : data(read_settings(values, data_keys())),
      split(read_settings(values, split_keys())),
      relation(read_settings(values, relation_keys())),
      model(model_settings(values)),
      window(read_settings(values, window_keys())),
      optimiser(read_settings(values, optimiser_keys())),
      schedule(read_settings(values, schedule_keys())),
      train(read_settings(values, train_keys())),
      checkpoint(read_settings(values, checkpoint_keys())),
      validation(read_settings(values, validation_keys())),
      evaluate(read_settings(values, evaluate_keys())),
      parallel(read_settings(values, parallel_keys())),
      log(read_settings(values, log_keys())),
      values_(std::move(values)) {}

Config::Config() : Config(with_defaults_of_model(KeyValues(config_keys()))) {}

Config Config::load(const std::string& path, std::span<const std::string> sets) {
  return Config(with_defaults_of_model(KeyValues::load(config_keys(), path, sets)));
}

Config Config::parse(std::string_view toml, const std::string& origin, std::span<const std::string> sets) {
  return Config(with_defaults_of_model(KeyValues::parse(config_keys(), toml, origin, sets)));
}

Config Config::with(std::span<const std::string> sets) const {
  return Config(with_defaults_of_model(values_.with(sets)));
}

std::vector<std::string> Config::idle() const {
  std::vector<std::string> names;
  for (const KeySpec& key : config_keys())
    if (!reads(model.name, key) && !values_.is_default(key.name)) names.emplace_back(key.name);
  return names;
}

}  // namespace rossby
