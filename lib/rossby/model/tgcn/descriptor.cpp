#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"
#include "rossby/model/tgcn/tgcn.hpp"

namespace rossby {
namespace {

struct Settings {
  Index units = 64;
  // These keys are read to be rejected; otherwise a run's configuration would show them without effect.
  Index layers = 1;
  double sampling_decay = 0;
};

constexpr Key<Settings> table[] = {bind<&Settings::units>(shared::units)};
constexpr Key<Settings> refused[] = {bind<&Settings::layers>(shared::layers),
                                     bind<&Settings::sampling_decay>(shared::sampling_decay)};

class TemporalGcn final : public WindowArchitectureOf<TemporalGcn> {
 public:
  explicit TemporalGcn(const KeyValues& values)
      : settings_(read_settings<Settings>(values, table)), embeddings_(shared::embedding_choice(values, 0)) {
    for (const Key<Settings>& key : refused) key.read(settings_, values, key.spec.name);
  }

  [[nodiscard]] std::string_view name() const override { return "tgcn"; }
  [[nodiscard]] double entry_cost(int relations) const override {
    // Same as a DCRNN of two steps both ways, so that the balance of rows stays the same.
    constexpr double hops = 2;
    return 2 * hops / (3 * static_cast<double>(settings_.units) * (2 * relations * hops + 1));
  }
  [[nodiscard]] Supports supports() const override {
    return {.kind = Supports::Kind::symmetric, .one_relation = true};
  }
  [[nodiscard]] ConvolutionShape convolution() const override { return {.channels = settings_.units}; }
  [[nodiscard]] EmbeddingChoice embeddings() const override { return embeddings_; }
  void check(const WindowChecks& checks) const override {
    if (!checks.is_new) return;
    if (settings_.layers != 1)
      user_error("model.layers is not for model.name = \"tgcn\": the model has one layer. Leave the key out");
    if (settings_.sampling_decay > 0)
      user_error(
          "model.sampling_decay is not for model.name = \"tgcn\": the model forecasts all steps at once. "
          "Set model.sampling_decay = 0");
  }

  template <class T>
  [[nodiscard]] std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const {
    return std::make_unique<Tgcn<T>>(TgcnOptions{parts.shape.inputs, parts.shape.outputs, parts.channels,
                                                 parts.features, settings_.units, parts.recompute},
                                     std::move(parts.diffusion), parts.embeddings, parts.global_rows());
  }

 private:
  Settings settings_;
  EmbeddingChoice embeddings_;
};

std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<TemporalGcn>(values);
}

std::vector<CalibrationCase> measured() {
  std::vector<CalibrationCase> cases;
  for (const auto& [windows, units] : recurrent_calibration_sizes())
    cases.push_back(calibration_case("tgcn", windows, fmt::format("units = {}", units)));
  return cases;
}

constexpr std::string_view tgcn_candidates = R"([[candidate]]
name = "small"
expected = 1.15
model.units = 32
relation.graph = "auto"
optimiser.lr = 0.01
[[candidate]]
name = "medium"
expected = 1.15
model.units = 64
relation.graph = "auto"
optimiser.lr = 0.003
)";

}  // namespace

ModelDescriptor tgcn_descriptor() {
  KeyTable keys = keys_of<Settings>(table);
  append<shared::EmbeddingWidths>(keys, shared::embeddings);
  return {.name = "tgcn",
          .keys = std::move(keys),
          .configure = configure,
          .calibration = measured,
          .small = "units = 5",
          .candidates = tgcn_candidates};
}

}  // namespace rossby
