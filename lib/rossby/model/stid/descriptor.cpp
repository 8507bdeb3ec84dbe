#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/model/architecture.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"
#include "rossby/model/stid/stid.hpp"

namespace rossby {
namespace {

struct Settings {
  Index width = 32;
  Index layers = 3;
  double dropout = 0.15;
  std::string relate = "inputs";
  [[nodiscard]] bool deep() const { return relate == "layers"; }
};

constexpr Key<Settings> table[] = {
    key<&Settings::width>("model.input_embedding", "32", "",
                          "width of the embedding of the inputs of a window")
        .range(1, 65536)
        .added(),
    key<&Settings::layers>("model.residual_layers", "3", "", "number of residual layers after the embeddings")
        .range(0, 64)
        .added(),
    key<&Settings::dropout>("model.residual_dropout", "0.15", "", "dropout inside the residual layers")
        .range(0, 0.999)
        .added(),
    key<&Settings::relate>(
        "model.relate", "\"inputs\"", "",
        "part of the model that reads relations. inputs: the embedding of the inputs reads a learned "
        "relation; layers: every residual layer reads a learned relation and relation.graph")
        .one_of("inputs|layers")
        .added(),
};

class SpatialTemporalIdentity final : public WindowArchitectureOf<SpatialTemporalIdentity> {
 public:
  explicit SpatialTemporalIdentity(const KeyValues& values)
      : settings_(read_settings<Settings>(values, table)),
        embeddings_(shared::embedding_choice(values, 32)) {}

  [[nodiscard]] std::string_view name() const override { return "stid"; }
  /// In a layer, a row costs 2 products of width², and an entry costs width.
  [[nodiscard]] double entry_cost(int relations) const override {
    return settings_.deep() && relations > 0 ? 1.0 / static_cast<double>(2 * settings_.width) : 0;
  }
  [[nodiscard]] Supports supports() const override {
    if (!settings_.deep()) return {};
    return {.kind = Supports::Kind::dual_random_walk, .optional = true};
  }
  [[nodiscard]] ConvolutionShape convolution() const override { return {.channels = settings_.width}; }
  [[nodiscard]] std::vector<std::string_view> recompute_modes() const override { return {"none", "cell"}; }
  [[nodiscard]] EmbeddingChoice embeddings() const override { return embeddings_; }
  [[nodiscard]] bool learns_low_rank() const override { return true; }
  void check(const WindowChecks& checks) const override {
    if (checks.recompute == Recompute::step)
      user_error(
          "train.recompute = \"step\" is not for model.name = \"stid\": the model has no recurrent steps. "
          "Set train.recompute = \"cell\" to compute the layers again");
  }

  template <class T>
  [[nodiscard]] std::unique_ptr<WindowModel<T>> build(WindowParts<T> parts) const {
    StidOptions options;
    options.inputs = parts.shape.inputs;
    options.outputs = parts.shape.outputs;
    options.channels = parts.channels;
    options.features = parts.features;
    options.width = settings_.width;
    options.layers = settings_.layers;
    options.dropout = settings_.dropout;
    options.seed = parts.seed;
    options.recompute = parts.recompute;
    options.rank = parts.low_rank;
    options.nodes = parts.partition->rows();
    options.deep = settings_.deep();
    return std::make_unique<Stid<T>>(options, parts.embeddings, parts.global_rows(), parts.row_blocks,
                                     std::move(parts.diffusion));
  }

 private:
  Settings settings_;
  EmbeddingChoice embeddings_;
};

std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<SpatialTemporalIdentity>(values);
}

std::vector<CalibrationCase> measured() {
  std::vector<CalibrationCase> cases;
  for (const auto& [windows, width] : recurrent_calibration_sizes())
    cases.push_back(calibration_case(
        "stid", windows, fmt::format("input_embedding = {0}\nnode_embedding = {0}", width), "none"));
  return cases;
}

constexpr std::string_view stid_candidates = R"([[candidate]]
name = "small"
expected = 1.02
model.input_embedding = 16
model.node_embedding = 16
optimiser.lr = 0.005
[[candidate]]
name = "medium"
expected = 1.02
optimiser.lr = 0.002
[[candidate]]
name = "medium-fast"
expected = 1.02
optimiser.lr = 0.006
[[candidate]]
name = "large"
expected = 1.02
model.input_embedding = 64
model.node_embedding = 32
optimiser.lr = 0.002
)";

}  // namespace

ModelDescriptor stid_descriptor() {
  KeyTable keys = keys_of<Settings>(table);
  append<shared::EmbeddingWidths>(keys, shared::embeddings);
  return {.name = "stid",
          .remark = "each node on its own, with learned vectors of nodes and times",
          .keys = std::move(keys),
          .configure = configure,
          .calibration = measured,
          .small = "input_embedding = 4\nnode_embedding = 3\nresidual_layers = 2\nresidual_dropout = 0.3",
          .candidates = stid_candidates};
}

}  // namespace rossby
