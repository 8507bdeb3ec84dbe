#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

struct InspectArguments {
  std::vector<std::string> files;
  std::vector<std::string> variables;
  std::string null_value;  // empty: none
};

int inspect_data(const Communicator& comm, const InspectArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() == 0)
      fmt::print(
          "{}", inspect_series(arguments.files, arguments.variables, parse_null_value(arguments.null_value)));
  });
  return 0;
}

}  // namespace

void add_data_inspect(CLI::App& data, Chosen& chosen) {
  const auto arguments = std::make_shared<InspectArguments>();
  InspectArguments& a = *arguments;
  auto* i = data.add_subcommand("inspect", "describe a NetCDF series");
  i->add_option("file", a.files,
                "NetCDF-4/CF file or Zarr store; several files, a pattern, or a text file (*.txt) with one "
                "path per line")
      ->required();
  i->add_option("--variable", a.variables, "variable to describe; may be repeated; default: all that fit")
      ->take_all()
      ->allow_extra_args(false);
  i->add_option("--null-value", a.null_value, "a number that stands for a missing value");
  choose(*i, chosen, arguments, inspect_data);
}

}  // namespace rossby::commands
