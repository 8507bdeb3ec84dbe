#include "rossby/run/relations.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {

void add_relations(CLI::App& app, Chosen& chosen) {
  struct Arguments : RelationOptions {
    std::string run;
  };
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  a.prints = true;
  auto* r = app.add_subcommand("relations", "write the learned relations between nodes of a run");
  r->add_option("run", a.run, "directory of the run")->required();
  r->add_option("-o,--output", a.output, "NetCDF file to write; default: relations.nc in the run directory");
  r->add_option("--edges", a.edges, "number of strongest weights that are written for each node")
      ->check(whole_number(1))
      ->capture_default_str();
  r->add_option("--place", a.places,
                "node whose influence is mapped: id, number or latitude,longitude; may be repeated; default: "
                "the node with the largest influence")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_settings(*r, a.sets, "set data.file or relation.file if these files have moved");
  choose(*r, chosen, arguments, [](const Communicator& comm, const Arguments& given) {
    write_relations(comm, given.run, given);
    return 0;
  });
}

}  // namespace rossby::commands
