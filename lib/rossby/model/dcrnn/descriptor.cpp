#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"

namespace rossby {
namespace {

struct Settings {
  Index layers = 1;
  Index units = 64;
  std::string diffusion;
  Index diffusion_steps = 2;
  std::string supports;
  double sampling_decay = 0;
};

constexpr Key<Settings> table[] = {
    bind<&Settings::layers>(shared::layers),       bind<&Settings::units>(shared::units),
    bind<&Settings::diffusion>(shared::diffusion), bind<&Settings::diffusion_steps>(shared::diffusion_steps),
    bind<&Settings::supports>(shared::supports),   bind<&Settings::sampling_decay>(shared::sampling_decay),
};

/// DCRNN; without a graph, a GRU for each node.
class Recurrent final : public WindowArchitectureOf<Recurrent> {
 public:
  Recurrent(bool on_graph, const KeyValues& values)
      : on_graph_(on_graph),
        settings_(read_settings<Settings>(values, table)),
        embeddings_(shared::embedding_choice(values, 0)) {}

  [[nodiscard]] std::string_view name() const override { return on_graph_ ? "dcrnn" : "gru"; }
  [[nodiscard]] double entry_cost(int relations) const override {
    const auto hops = static_cast<double>(settings_.diffusion_steps);
    const double matrices = (both_ways() ? 2.0 : 1.0) * relations * hops + 1;
    return 2 * hops / (3 * static_cast<double>(settings_.units) * matrices);
  }
  [[nodiscard]] Supports supports() const override {
    using enum Supports::Kind;
    return {!on_graph_ ? none : both_ways() ? dual_random_walk : random_walk};
  }
  [[nodiscard]] ConvolutionShape convolution() const override {
    return {settings_.units, static_cast<int>(settings_.diffusion_steps),
            settings_.diffusion == "legacy" ? DiffusionVariant::legacy : DiffusionVariant::paper};
  }
  [[nodiscard]] PipelineLayers pipeline_layers() const override {
    // Encoder and decoder share the tables, which one stage must hold.
    return embeddings_.any() ? PipelineLayers{} : PipelineLayers{2 * settings_.layers, true};
  }
  [[nodiscard]] EmbeddingChoice embeddings() const override { return embeddings_; }
  [[nodiscard]] bool reads_calendar_ahead() const override { return embeddings_.any_calendar(); }
  [[nodiscard]] double sampling_decay() const override { return settings_.sampling_decay; }

  template <class T>
  [[nodiscard]] std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const {
    if (settings_.layers > Dcrnn<T>::most_layers)
      user_error("model.layers = {} is out of range: a {} has 1 to {} layers", settings_.layers, name(),
                 Dcrnn<T>::most_layers);
    return std::make_unique<Dcrnn<T>>(
        DcrnnOptions{parts.shape.inputs, parts.channels, parts.features, static_cast<int>(settings_.layers),
                     settings_.units, parts.recompute, parts.pipeline, parts.stage_of, parts.known,
                     parts.levels, parts.middle},
        std::move(parts.diffusion), parts.embeddings, parts.global_rows());
  }

 private:
  [[nodiscard]] bool both_ways() const { return settings_.supports == "dual_random_walk"; }

  bool on_graph_;
  Settings settings_;
  EmbeddingChoice embeddings_;
};

std::vector<CalibrationCase> measured_dcrnn() {
  std::vector<CalibrationCase> cases;
  for (const auto& [windows, units] : recurrent_calibration_sizes())
    cases.push_back(calibration_case("dcrnn", windows, fmt::format("units = {}", units)));
  cases.push_back(
      calibration_case("dcrnn", {10, 20, 8, 4}, "units = 32\nlayers = 1\n[train]\nrecompute = \"cell\""));
  cases.push_back(calibration_case("dcrnn", {18, 28, 10, 6}, "units = 28\nlayers = 3"));
  return cases;
}

std::vector<CalibrationCase> quickly_measured_dcrnn() {
  return {calibration_case("dcrnn", {4, 5, 4, 2}, "units = 8")};
}

std::vector<CalibrationCase> measured_gru() {
  std::vector<CalibrationCase> cases;
  for (const auto& [windows, units] : recurrent_calibration_sizes())
    cases.push_back(calibration_case("gru", windows, fmt::format("units = {}", units), "none"));
  return cases;
}

constexpr std::string_view dcrnn_candidates = R"([[candidate]]
name = "small"
expected = 1.09
model.units = 16
relation.graph = "auto"
optimiser.lr = 0.01
[[candidate]]
name = "medium"
expected = 1.09
model.units = 32
relation.graph = "auto"
optimiser.lr = 0.005
[[candidate]]
name = "medium-slow"
expected = 1.09
model.units = 32
relation.graph = "auto"
optimiser.lr = 0.002
)";

constexpr std::string_view gru_candidates = R"([[candidate]]
name = "small"
expected = 1.07
model.units = 16
optimiser.lr = 0.01
[[candidate]]
name = "medium"
expected = 1.07
model.units = 32
optimiser.lr = 0.005
[[candidate]]
name = "medium-nodes"
expected = 1.07
model.units = 32
model.node_embedding = 8
optimiser.lr = 0.005
[[candidate]]
name = "large"
expected = 1.07
model.units = 64
optimiser.lr = 0.002
)";

template <bool on_graph>
std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<Recurrent>(on_graph, values);
}

KeyTable all_keys() {
  KeyTable keys = keys_of<Settings>(table);
  append<shared::EmbeddingWidths>(keys, shared::embeddings);
  return keys;
}

}  // namespace

ModelDescriptor dcrnn_descriptor() {
  return {.name = "dcrnn",
          .of_layers = true,
          .reads_known = true,
          .keys = all_keys(),
          .configure = configure<true>,
          .calibration = measured_dcrnn,
          .quick_calibration = quickly_measured_dcrnn,
          .small = "layers = 2\nunits = 5",
          .candidates = dcrnn_candidates};
}

ModelDescriptor gru_descriptor() {
  return {.name = "gru",
          .remark = "each node on its own",
          .of_layers = true,
          .reads_known = true,
          .keys = all_keys(),
          .configure = configure<false>,
          .calibration = measured_gru,
          .small = "layers = 2\nunits = 5",
          .candidates = gru_candidates};
}

}  // namespace rossby
