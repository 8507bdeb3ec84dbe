#pragma once

#include "rossby/io/key.hpp"
#include "rossby/model/embeddings.hpp"

// Keys of model.* that several models read.

namespace rossby::shared {

inline constexpr SharedKey layers =
    shared_key<Index>("model.layers", "1", "",
                      "number of layers. stnn: layers of the dynamics, with ReLU between two layers; "
                      "recurrent models: cells of the encoder and of the decoder")
        .range(1, 64);
inline constexpr SharedKey units =
    shared_key<Index>("model.units", "64", "", "width of a recurrent cell's state").range(1, 65536);
inline constexpr SharedKey diffusion =
    shared_key<std::string>("model.diffusion", "\"paper\"", "",
                            "how the recursion of the second support starts: paper: from the signal; legacy: "
                            "from the last result of the first support, as in the published code")
        .one_of("paper|legacy");
inline constexpr SharedKey diffusion_steps =
    shared_key<Index>("model.diffusion_steps", "2", "",
                      "steps K of a diffusion convolution; graph_wavenet: powers of each support")
        .range(0, 64);
inline constexpr SharedKey supports =
    shared_key<std::string>(
        "model.supports", "\"dual_random_walk\"", "",
        "diffusion along the edges (random_walk), or along and against them (dual_random_walk)")
        .one_of("random_walk|dual_random_walk");
inline constexpr SharedKey sampling_decay =
    shared_key<double>("model.sampling_decay", "0", "steps",
                       "scheduled sampling with τ = this value: the decoder reads the truth with probability "
                       "τ / (τ + exp(step / τ)); 0: never")
        .range(0, 1e12);

/// Widths of learned vectors; −1: the model's own.
struct EmbeddingWidths {
  Index node = -1;
  Index time_of_day = -1;
  Index day_of_week = -1;
  Index month = -1;
};

inline constexpr Key<EmbeddingWidths> embeddings[] = {
    key<&EmbeddingWidths::node>(
        "model.node_embedding", "-1", "",
        "length of the learned vector of each node; 0: none; -1: the default of the model (stid: 32)")
        .range(-1, 65536)
        .added(),
    key<&EmbeddingWidths::time_of_day>(
        "model.time_of_day_embedding", "-1", "",
        "length of the learned vector of each time of day, for series with several steps a day; 0: none; -1: "
        "the default of the model, if the series allows it")
        .range(-1, 65536)
        .added(),
    key<&EmbeddingWidths::day_of_week>(
        "model.day_of_week_embedding", "-1", "",
        "length of the learned vector of each day of the week, for series with steps of at most a day; 0: "
        "none; -1: the default of the model, if the series allows it")
        .range(-1, 65536)
        .added(),
    key<&EmbeddingWidths::month>(
        "model.month_embedding", "-1", "",
        "length of the learned vector of each month, for series with steps of a day to half a year; 0: none; "
        "-1: the default of the model, if the series allows it")
        .range(-1, 65536)
        .added(),
};

/// Returns the choice of a configuration; `own` is the width if the model decides.
[[nodiscard]] inline EmbeddingChoice embedding_choice(const KeyValues& values, Index own) {
  const auto widths = read_settings<EmbeddingWidths>(values, embeddings);
  const auto width = [own](Index asked) {
    return EmbeddingChoice::Width{asked < 0 ? own : asked, asked < 0};
  };
  return {.node = width(widths.node).value,
          .calendar = {width(widths.time_of_day), width(widths.day_of_week), width(widths.month)}};
}

}  // namespace rossby::shared
