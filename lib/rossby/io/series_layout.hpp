#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/cf_time.hpp"

namespace rossby::detail {

/// How a variable of a file matches var(time, lat, lon), var(time, row, column) of a curvilinear grid, or
/// var(time, node[, feature]). Station files (CF-1.8, chapter 9) may have var(node, time[, feature]).
struct VariableLayout {
  const NetcdfVariable* variable = nullptr;
  bool gridded = false;  // lat and lon are axes
  // Positions among the variable's dimensions; −1 if absent. Further dimensions have length 1.
  int time = 0;
  int row = -1;      // lat or a curvilinear grid's row, or −1
  int column = -1;   // lon, a curvilinear grid's column, or node
  int feature = -1;  // feature
  Index features = 1;
  // For a curvilinear grid: (row, column), or (time, row, column) and equal at all times.
  const NetcdfVariable *latitude = nullptr, *longitude = nullptr;

  [[nodiscard]] const NetcdfDimension& dimension(int place) const {
    return variable->dimensions[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] Index length(int place) const { return place < 0 ? 1 : dimension(place).length; }
};

/// Returns the layout of a variable, or nothing, with the reason in `reason` ("has no time axis", …).
std::optional<VariableLayout> fit(const ArrayFile& file, const NetcdfVariable& variable, std::string& reason);

/// Variables that `open` finds by itself: those that fit, are real or packed numbers and do not describe
/// others (auxiliary_variables). If there are none, integers that are no flags.
std::vector<VariableLayout> fitting(const ArrayFile& file);

/// The layouts of the named variables (or of the only one that fits). Throws UserError.
std::vector<VariableLayout> choose(const ArrayFile& file, const std::vector<std::string>& names);

/// By units or standard_name (CF-1.8, sections 4.1 and 4.2).
[[nodiscard]] bool is_latitude(const ArrayFile& file, const NetcdfVariable& variable);
[[nodiscard]] bool is_longitude(const ArrayFile& file, const NetcdfVariable& variable);

/// A file's stamps before TimeAxis::parse makes a time axis of them.
struct Stamps {
  std::vector<double> values;
  std::string units, calendar;
  std::string origin;    // file and variable
  std::string variable;  // its name

  [[nodiscard]] TimeAxis axis() const { return TimeAxis::parse(values, units, calendar, origin); }
};

/// Returns the stamps of a layout. They are the coordinate variable of its dimension, a variable along it
/// that `coordinates` names or that has a reference date, or dates as text. Guesses are added to `remarks`.
/// Throws UserError if there are none.
[[nodiscard]] Stamps read_stamps(const ArrayFile& file, const VariableLayout& layout,
                                 std::vector<std::string>& remarks);

/// True if a dimension without a coordinate variable has stamps: a variable with a reference date that
/// `coordinates` of the data names, or that says it is the time.
[[nodiscard]] bool has_auxiliary_time(const ArrayFile& file, const NetcdfVariable& data,
                                      const NetcdfDimension& dimension);

/// True if a dimension is the time, by its coordinate variable or its name.
[[nodiscard]] bool is_time(const ArrayFile& file, const NetcdfDimension& dimension);

/// The coordinate variable of a dimension, or null.
const NetcdfVariable* coordinate(const ArrayFile& file, const NetcdfDimension& dimension);

}  // namespace rossby::detail
