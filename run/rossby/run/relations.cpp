#include "rossby/run/relations.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/relation_file.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/gather_nodes.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/relation/sensor_graph.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/relation_survey.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

/// Parses a number; false if the text holds more or something else.
template <class V>
bool parse_whole(std::string_view text, V& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns the node that --place names: an id, latitude,longitude, or its place in the data file.
Index node_at(const Domain& domain, const std::string& text) {
  const auto& labels = domain.info.node_labels;
  const auto of_file = [&](Index place) {
    const auto at = std::lower_bound(domain.file_node.begin(), domain.file_node.end(), place);
    if (at == domain.file_node.end() || *at != place)
      user_error("--place {}: this node has no values in {}. Name another node", text, domain.info.path);
    return at - domain.file_node.begin();
  };
  if (const auto label = std::find(labels.begin(), labels.end(), text); label != labels.end())
    return of_file(label - labels.begin());
  const std::size_t comma = text.find(',');
  double lat = 0, lon = 0;
  if (comma != std::string::npos && !domain.latitude.empty() &&
      parse_whole(std::string_view(text).substr(0, comma), lat) &&
      parse_whole(std::string_view(text).substr(comma + 1), lon)) {
    Index nearest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (Index i = 0; i < domain.nodes(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double km = great_circle_km(lat, lon, domain.latitude[at], domain.longitude[at]);
      if (km < least) least = km, nearest = i;
    }
    return nearest;
  }
  Index place = 0;
  if (parse_whole(text, place) && place >= 0 && place < domain.info.file_nodes) return of_file(place);
  user_error("--place {}: no such node in {}. Give an id, a number below {}{}", text, domain.info.path,
             domain.info.file_nodes, domain.latitude.empty() ? "" : " or latitude,longitude");
}

RelationLayout nodes_layout(const Domain& domain) {
  RelationLayout layout;
  layout.nodes = domain.nodes();
  layout.file_node = domain.file_node;
  layout.node_lat = domain.latitude;
  layout.node_lon = domain.longitude;
  if (!domain.info.node_labels.empty())
    for (const Index node : domain.file_node)
      layout.node_ids.push_back(domain.info.node_labels[static_cast<std::size_t>(node)]);
  return layout;
}

std::vector<double> self_weights(const Communicator& comm, const Domain& domain,
                                 const LearnedRelation& relation) {
  std::vector<float> mine;
  for (Index i = 0; i < std::ssize(domain.rows); ++i) mine.push_back(static_cast<float>(relation.self(i)));
  const std::vector<float> all = gather_nodes(comm, domain.partition, mine, 1);
  return {all.begin(), all.end()};
}

std::string node_text(const RelationLayout& layout, Index node) {
  const auto at = static_cast<std::size_t>(node);
  if (!layout.node_ids.empty()) return layout.node_ids[at];
  if (layout.node_lat.empty()) return fmt::format("node {}", layout.file_node[at]);
  return fmt::format("{:g},{:g}", layout.node_lat[at], layout.node_lon[at]);
}

/// Prints a line for each relation, with its strongest edge.
void print_relations(const RelationLayout& layout) {
  for (std::size_t k = 0; k < layout.relations.size(); ++k) {
    Index count = 0, at = -1;
    for (Index e = 0; e < std::ssize(layout.edges); ++e) {
      const RelationEdge& edge = layout.edges[static_cast<std::size_t>(e)];
      if (edge.relation != static_cast<int>(k)) continue;
      ++count;
      if (edge.source != edge.target &&
          (at < 0 || std::abs(edge.weight) > std::abs(layout.edges[static_cast<std::size_t>(at)].weight)))
        at = e;
    }
    fmt::print("{}: {} edges", layout.relations[k], count);
    if (at >= 0) {
      const RelationEdge& edge = layout.edges[static_cast<std::size_t>(at)];
      fmt::print(", the strongest from {} to {}", node_text(layout, edge.source),
                 node_text(layout, edge.target));
      if (!layout.edge_distance.empty())
        fmt::print(" ({:.0f} km)", layout.edge_distance[static_cast<std::size_t>(at)]);
      fmt::print(": {:.4g}", edge.weight);
    }
    fmt::print("{}\n", layout.searched[k] < layout.nodes
                           ? fmt::format("; weights of {} of {} nodes were searched", layout.searched[k],
                                         layout.nodes)
                           : "");
  }
  if (!layout.self_weight.empty()) fmt::print("self: {} weights\n", layout.self_weight.size());
  for (const Index place : layout.places) fmt::print("influence of and on {}\n", node_text(layout, place));
}

template <class T>
std::string relations_of_run(const Communicator& comm, const OpenRun& open, const RelationOptions& options) {
  const std::string path = agree(comm, [&] {
    return comm.rank() == 0 ? open.output(options.output, open.directory->path() + "/relations.nc")
                            : std::string();
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", open.remark);
  const auto run = make_run<T>(comm, open.config, Purpose::forecasting);
  run->load(open.state, open.other_file);
  const Domain& domain = run->domain();
  const std::vector<LearnedRelation> learned = run->learned_relations();
  if (learned.empty() && options.may_lack) return "";
  RelationLayout layout = agree(comm, [&] {
    if (learned.empty())
      user_error(
          "this run (model.name = \"{}\") has no learned relations between nodes that can be written. Such "
          "relations are learned by stnn with relation.discover, relation.mode = \"refine\" or "
          "relation.self, "
          "and by graph_wavenet with model.adaptive",
          open.config.model.name);
    return nodes_layout(domain);
  });
  RelationSurvey survey(comm, domain, options.edges);
  std::vector<const LearnedRelation*> between;
  for (const LearnedRelation& relation : learned) {
    if (relation.self) {
      layout.self_weight = self_weights(comm, domain, relation);
      continue;
    }
    survey.add(relation, layout);
    between.push_back(&relation);
  }
  agree(comm, [&] {
    for (const std::string& place : options.places) layout.places.push_back(node_at(domain, place));
  });
  if (layout.places.empty())
    if (const Index node = survey.strongest_node(); node >= 0) layout.places.push_back(node);
  for (const LearnedRelation* relation : between) survey.add_places(*relation, layout);
  const Stage stage(comm, "writing the relations", patience_with_files);
  const std::string written = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    layout.title = fmt::format("Relations that {} has learned", open.config.model.name);
    layout.attributes = {{"source", fmt::format("rossby {}, run {}, {} epochs", version_short(),
                                                open.directory->path(), open.epochs)}};
    write_relations(path, layout);
    if (options.prints) print_relations(layout), fmt::print("written to {}\n", path);
    return path;
  });
  return broadcast(comm, written);
}

}  // namespace

std::string write_relations(const Communicator& comm, const std::string& run,
                            const RelationOptions& options) {
  return with_run(comm, run, options.sets, "cpu", false,
                  [&]<class T>(const Communicator& ranks, const OpenRun& open) {
                    return relations_of_run<T>(ranks, open, options);
                  });
}

}  // namespace rossby
