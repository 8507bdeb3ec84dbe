#include <fmt/core.h>

#include "apps/commands.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {

int inspect(const Communicator& comm, const Inspect& arguments) {
  agree(comm, [&] {
    if (comm.rank() == 0)
      fmt::print("{}",
                 inspect_series(arguments.file, arguments.variables, parse_null_value(arguments.null_value)));
  });
  return 0;
}

}  // namespace rossby::commands
