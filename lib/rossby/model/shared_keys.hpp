#pragma once

#include "rossby/io/key.hpp"

// Keys of model.* that several models read.

namespace rossby::shared {

inline constexpr SharedKey layers =
    shared_key<Index>("model.layers", "1", "",
                      "layers: of the dynamics, ReLU between them; of recurrent cells in encoder and decoder")
        .range(1, 64);
inline constexpr SharedKey units =
    shared_key<Index>("model.units", "64", "", "width of a recurrent cell's state").range(1, 65536);
inline constexpr SharedKey diffusion =
    shared_key<std::string>("model.diffusion", "\"paper\"", "",
                            "how a second support's recursion starts: from the signal (paper), or where the "
                            "first one was (legacy)")
        .one_of("paper|legacy");
inline constexpr SharedKey diffusion_steps =
    shared_key<Index>("model.diffusion_steps", "2", "",
                      "steps K of a diffusion convolution; graph_wavenet: powers of each support")
        .range(0, 64);
inline constexpr SharedKey supports =
    shared_key<std::string>(
        "model.supports", "\"dual_random_walk\"", "",
        "what it sums over: random walks along the edges (random_walk), and against them too")
        .one_of("random_walk|dual_random_walk");
inline constexpr SharedKey sampling_decay =
    shared_key<double>(
        "model.sampling_decay", "0", "steps",
        "scheduled sampling: truth is fed to the decoder with probability τ / (τ + exp(step / τ)); 0: never")
        .range(0, 1e12);

}  // namespace rossby::shared
