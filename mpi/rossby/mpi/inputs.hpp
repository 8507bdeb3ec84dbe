#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"

namespace rossby {

/// data.variables or, if that is empty and inputs are named, the only variable that fits and is no input.
/// Throws UserError if an input is a variable that is forecast, or is named twice.
[[nodiscard]] std::vector<std::string> forecast_variables(const Config& config);

/// The headers of data.inputs and data.known_inputs. Throws UserError if they do not lie on the nodes and
/// times of the series. Collective.
[[nodiscard]] InputVariables input_variables(const Communicator& comm, const Config& config);

/// Throws UserError if float32 would lose the variations of an input. Collective.
void check_input_precision(const Communicator& comm, const Domain& domain);

/// data.static of the rows, (rows, inputs.fixed), in original units. Throws UserError naming the node that
/// has no value. A rank's own.
[[nodiscard]] std::vector<double> read_fixed(const Config& config, const Domain& domain);

/// The values of the rank's rows at some steps (ascending) as a StepStore with inputs.channels() further
/// values holds them: for each step (rows, features) as read_steps gives them, then (rows, past) and (rows,
/// known), in original units. Collective.
void read_with_inputs(const Communicator& comm, const Config& config, const Domain& domain,
                      std::span<const Index> steps, std::span<float> out);

/// data.known_inputs of the rank's rows at the stamps `times`, out (steps, rows, known), from the file
/// `path`, whose nodes are matched by their ids if both files have them. Throws UserError if it has other
/// nodes or units, or a variable has no value of any node at one of the stamps. Collective.
void read_known_ahead(const Communicator& comm, const Config& config, const Domain& domain,
                      const std::string& path, const TimeAxis& times, std::span<float> out);

}  // namespace rossby
