#include "rossby/model/registry.hpp"
#include "rossby/model/shared_keys.hpp"
#include "rossby/model/stnn/architecture.hpp"
#include "rossby/model/stnn/calibration.hpp"

namespace rossby {
namespace {

constexpr Key<StnnSettings> table[] = {
    key<&StnnSettings::latent>("model.latent", "1", "", "number d of latents of each node").range(1, 4096),
    key<&StnnSettings::activation>("model.activation", "\"identity\"", "", "activation φ of the dynamics")
        .one_of("identity|tanh"),
    bind<&StnnSettings::layers>(shared::layers),
    key<&StnnSettings::hidden>("model.hidden", "32", "", "width of the hidden layers of the dynamics")
        .range(1, 65536),
    key<&StnnSettings::dropout_z>("model.dropout_z", "0", "", "dropout on latents").range(0, 0.999),
    key<&StnnSettings::dropout_dynamics>("model.dropout_dynamics", "0", "",
                                         "dropout between layers of the dynamics")
        .range(0, 0.999),
    key<&StnnSettings::lambda>("model.lambda", "0.1", "", "weight of the dynamics loss").at_least(0),
    key<&StnnSettings::l2_z>("model.l2_z", "0", "",
                             "weight of the mean squared difference of successive latents")
        .at_least(0),
    key<&StnnSettings::l1_rel>("model.l1_rel", "0", "",
                               "weight of the mean absolute value of relation weights, the identity included")
        .at_least(0),
    key<&StnnSettings::decoder>(
        "model.decoder", "\"learned\"", "",
        "decoder. learned: linear; identity: x = z, needs model.latent = number of features")
        .one_of("learned|identity"),
    key<&StnnSettings::start>("model.start", "\"uniform\"", "",
                              "initial values of Z: uniform in ±model.z_range, or the data (needs "
                              "model.latent = number of features)")
        .one_of("uniform|data"),
    key<&StnnSettings::z_range>("model.z_range", "0.1", "", "half width of the uniform initial values of Z")
        .at_least(0),
    key<&StnnSettings::dynamics_start>("model.dynamics_start", "\"uniform\"", "",
                                       "initial values of the dynamics: uniform in ±1/√inputs, or "
                                       "persistence (1 for the identity block, else 0; needs one layer)")
        .one_of("uniform|persistence"),
};

std::shared_ptr<const Architecture> configure(const KeyValues& values) {
  return std::make_shared<StnnArchitecture>(values);
}

constexpr std::string_view stnn_candidates = R"([[candidate]]
name = "given"
expected = 1.11
model.decoder = "identity"
model.start = "data"
model.dynamics_start = "persistence"
model.lambda = 0.3
optimiser.lr = 0.003
optimiser.lr_z = 0.02
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
relation.graph = "auto"
relation.self = true
[[candidate]]
name = "given-hops"
expected = 1.11
model.decoder = "identity"
model.start = "data"
model.dynamics_start = "persistence"
model.lambda = 0.3
optimiser.lr = 0.003
optimiser.lr_z = 0.02
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
relation.graph = "auto"
relation.self = true
relation.hops = [1, 2, 4]
[[candidate]]
name = "refine"
expected = 1.11
model.decoder = "identity"
model.start = "data"
model.dynamics_start = "persistence"
model.lambda = 0.3
optimiser.lr = 0.003
optimiser.lr_z = 0.02
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
relation.graph = "auto"
relation.mode = "refine"
[[candidate]]
name = "discover"
expected = 1.11
model.decoder = "identity"
model.start = "data"
model.dynamics_start = "persistence"
model.lambda = 0.3
optimiser.lr = 0.003
optimiser.lr_z = 0.02
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
relation.graph = "none"
relation.discover = "dense"
[[candidate]]
name = "low-rank"
expected = 1.11
model.decoder = "identity"
model.start = "data"
model.dynamics_start = "persistence"
model.lambda = 0.3
optimiser.lr = 0.003
optimiser.lr_z = 0.02
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
relation.self = true
relation.discover = "low_rank"
relation.rank = 8
optimiser.decay_low_rank = 1e-2
[[candidate]]
name = "latent"
expected = 1.17
model.latent = 4
relation.graph = "auto"
relation.self = true
optimiser.lr = 0.003
optimiser.beta1 = 0.9
optimiser.decay = 1e-2
train.joint = true
)";

}  // namespace

StnnArchitecture::StnnArchitecture(const KeyValues& values)
    : settings_(read_settings<StnnSettings>(values, table)) {}

ModelDescriptor stnn_descriptor() {
  return {.name = "stnn",
          .of_windows = false,
          .keys = keys_of<StnnSettings>(table),
          .configure = configure,
          .calibration = stnn_calibration,
          .quick_calibration = quick_stnn_calibration,
          .candidates = stnn_candidates};
}

}  // namespace rossby
