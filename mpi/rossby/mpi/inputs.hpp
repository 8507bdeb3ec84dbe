#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// Returns data.variables or, if it is empty and there are inputs, the only suitable variable that is not an
/// input. Throws UserError if an input is also forecast, or is listed twice.
[[nodiscard]] std::vector<std::string> forecast_variables(const Config& config);

/// Returns the headers of data.inputs and data.known_inputs. Throws UserError if their nodes and times are
/// not those of the series. Collective.
[[nodiscard]] InputVariables input_variables(const Communicator& comm, const Config& config);

/// Throws UserError if float32 would lose the variations of an input. Collective.
void check_input_precision(const Communicator& comm, const Domain& domain);

/// Returns data.static of the rows, (rows, inputs.fixed), in original units. Throws UserError with the node
/// if a value is missing. Not collective.
[[nodiscard]] std::vector<double> read_fixed(const Config& config, const Domain& domain);

/// Reads the values of the rank's rows at some steps (ascending) in the layout of a StepStore with
/// inputs.channels() further values. Each step has (rows, features) as in read_steps, then (rows, past) and
/// (rows, known), in original units. Collective.
void read_with_inputs(const Communicator& comm, const Config& config, const Domain& domain,
                      std::span<const Index> steps, std::span<float> out);

/// Reads data.known_inputs of the rank's rows at the stamps `times`, out (steps, rows, known), from the file
/// `path`. Nodes are matched by their ids if both files have ids. Throws UserError if the file has other
/// nodes or units, or if a variable has no value at any node for one of the stamps. Returns a warning if
/// nodes that have ids in the series are matched by position. Collective.
[[nodiscard]] std::string read_known_ahead(const Communicator& comm, const Config& config,
                                           const Domain& domain, const std::string& path,
                                           const TimeAxis& times, std::span<float> out);

}  // namespace rossby
