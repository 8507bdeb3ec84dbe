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
  auto* r = app.add_subcommand("relations", "write the relations between nodes that a run has learned");
  r->add_option("run", a.run, "its directory")->required();
  r->add_option("-o,--output", a.output, "NetCDF file to write; default: relations.nc in the run directory");
  r->add_option("--edges", a.edges,
                "strongest weights of each node that are written of relations between all nodes")
      ->check(whole_number(1))
      ->capture_default_str();
  r->add_option(
       "--place", a.places,
       "node whose influence is mapped: its id, number or latitude,longitude; may be repeated; default: "
       "the one that acts most on others")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_settings(*r, a.sets, "set data.file or relation.file, where these files are now");
  choose(*r, chosen, arguments, [](const Communicator& comm, const Arguments& given) {
    write_relations(comm, given.run, given);
    return 0;
  });
}

}  // namespace rossby::commands
