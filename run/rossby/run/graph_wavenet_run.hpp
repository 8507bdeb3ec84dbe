#pragma once

#include <memory>

#include "rossby/data/windows.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/config.hpp"
#include "rossby/model/graph_wavenet.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Throws UserError where settings do not make a Graph WaveNet, or are for other models.
void check_graph_wavenet(const Config& config, const WindowShape& shape);

/// The Graph WaveNet of a configuration, on part `part` of the rows. `supports` may have none. `all_rows` has
/// all positions as its ghosts; null where one rank owns them.
template <class T>
[[nodiscard]] std::unique_ptr<WindowModel<T>> make_graph_wavenet(
    const Config& config, const WindowShape& shape, const SeriesReader<T>& reader, Diffusion<T> supports,
    const RowPartition& partition, int part, Exchange* all_rows, Reducer& everyone, const Pipeline& pipeline,
    const std::vector<int>& stage_of);

}  // namespace rossby
