#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/edge_table.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/netcdf.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::data_folder;
using testing_support::TemporaryDirectory;
using testing_support::user_message;

GraphLayout layout(Index nodes, std::vector<FileEdge> edges) {
  GraphLayout layout;
  layout.nodes = nodes;
  layout.edges = std::move(edges);
  layout.weight_attributes = {{"meaning", "as given"}};
  return layout;
}

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

TEST(GraphFile, ComesBack) {
  const TemporaryDirectory folder;
  const std::string path = folder / "g.nc";
  GraphLayout graph = layout(5, {{0, 4, 0.5}, {3, 3, 1}, {4, 0, -2}});
  graph.node_lat = {1, 2, 3, 4, 5};
  graph.node_lon = {0, 0, 0, 0, 9};
  write_graph(path, graph);
  EXPECT_EQ(folder.entries(), 1);
  const GraphFile file = GraphFile::open(path);
  EXPECT_EQ(file.nodes(), 5);
  EXPECT_EQ(file.size(), 3);
  const auto edges = file.edges(1, 2);
  EXPECT_EQ(edges[0].source, 3);
  EXPECT_EQ(edges[1].destination, 0);
  EXPECT_EQ(edges[1].weight, -2);
  EXPECT_TRUE(file.edges(3, 0).empty());
  EXPECT_HAS(user_message([&] { (void)file.distances(); }), "g.nc has no variable edge_distance");
  const std::string text = inspect_series(path);
  EXPECT_HAS(text, "nodes     5\nedges     3, 1 of them self-loops\nweights   -2 to 1\nmeaning   as given\n");
  const NetcdfFile raw = NetcdfFile::open(path);
  EXPECT_EQ(raw.text(*raw.find("edge_weight"), "meaning"), "as given");
  EXPECT_EQ(raw.read_all(*raw.find("node_lon"))[4], 9);
}

TEST(GraphFile, NothingIsHalfWritten) {
  const TemporaryDirectory folder;
  EXPECT_HAS(user_message([&] { write_graph(folder / "g.nc", layout(3, {})); }),
             "g.nc: a graph of 3 nodes and 0 edges");
  EXPECT_HAS(user_message([&] {
               write_graph(folder / "none/g.nc", layout(3, {{0, 1, 1}}));
             }),
             "none/g.nc: cannot write");
  std::filesystem::create_directory(folder / "dir.nc");
  EXPECT_HAS(user_message([&] {
               write_graph(folder / "dir.nc", layout(3, {{0, 1, 1}}));
             }),
             "dir.nc: cannot write");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(GraphFile, OfASeriesFile) {
  const auto folder = data_folder();
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no data folder; ROSSBY_DATA names one";
  const GraphFile week = GraphFile::open(folder / "metr_la_week_5min.nc");
  EXPECT_EQ(week.nodes(), 207);
  EXPECT_EQ(week.size(), 1722);
  EXPECT_EQ(GraphFile::open(folder / "irish_wind_daily.nc").distances().size(), 66u);
  EXPECT_HAS(user_message([&] { (void)GraphFile::open(folder / "pacific_sst_2deg_monthly.nc"); }),
             "has no edges");
  const NodeNames ids = NodeNames::read(folder / "metr_la_week_5min.nc", "sensor_id", 207);
  EXPECT_EQ(ids.find("773869"), 0);
  EXPECT_EQ(ids.find("0"), -1);
  const NodeNames names = NodeNames::read(folder / "irish_wind_daily.nc", "node_name", 12);
  EXPECT_EQ(names.nodes(), 12);
  EXPECT_HAS(user_message([&] { (void)NodeNames::read(folder / "irish_wind_daily.nc", "node_nam", 12); }),
             "did you mean node_name?");
  EXPECT_HAS(user_message([&] { (void)NodeNames::read(folder / "irish_wind_daily.nc", "wind_speed", 12); }),
             "one name for each of the 12 nodes");
}

TEST(EdgeTable, LinesAndHeaders) {
  const TemporaryDirectory folder;
  const NodeNames numbers(3);
  const auto read = [&](const std::string& text, EdgeTableOptions options = {}) {
    return read_edge_table(write(folder / "t.csv", text), numbers, options);
  };
  const EdgeTable table = read(
      "\xEF\xBB\xBF"
      "from,to,cost\r\n0,1,2.5\r\n\r\n 2 , \"0\" , 1e3\r\n");
  ASSERT_EQ(table.edges.size(), 2u);
  EXPECT_EQ(table.edges[0].weight, 2.5);
  EXPECT_EQ(table.edges[1].source, 2);
  EXPECT_EQ(table.edges[1].weight, 1000);
  EXPECT_EQ(table.lines, (std::vector<Index>{2, 4}));
  EXPECT_TRUE(table.is_of_distances);
  EXPECT_FALSE(read("Source,Target,weight\n0,1,2\n").is_of_distances);
  EXPECT_EQ(read("0,1\n1,2").edges[1].weight, 1);
  EXPECT_TRUE(read("").edges.empty());
  EXPECT_TRUE(read("src,dst\n").edges.empty());
  const EdgeTable skipped = read("0,1,1\n0,3,1\n9,1,1\n", {false, true});
  EXPECT_EQ(skipped.edges.size(), 1u);
  EXPECT_EQ(skipped.skipped, 2);
}

TEST(EdgeTable, Refusals) {
  const TemporaryDirectory folder;
  const NodeNames numbers(3);
  const auto refuse = [&](const std::string& text, const char* why, bool needs_value = false) {
    EXPECT_HAS(user_message([&] {
                 (void)read_edge_table(write(folder / "t.csv", text), numbers, {needs_value, false});
               }),
               why);
  };
  refuse("0,1,1\n0,3,1\n", "t.csv:2: \"3\" is not a node number from 0 to 2");
  refuse("0,1,1\n-1,0,1\n", "t.csv:2: \"-1\"");
  refuse("0,1,1\n0.5,0,1\n", "t.csv:2: \"0.5\"");
  refuse("0,1,1\n,0,1\n", "t.csv:2: \"\"");
  refuse("0,1,nan\n", "t.csv:1: \"nan\" is not a finite number");
  refuse("0,1,1e999\n", "is not a finite number");
  refuse("0,1,\n", "is not a finite number");
  refuse("0,1\n", "t.csv:1: the line has 2 columns, but needs source,destination,distance", true);
  refuse("0\n", "1 columns, but needs source,destination[,weight]");
  refuse("from;to;weight\n0;1;1,5\n", "separated by commas");
  refuse("cost,from,to\n0,1,2\n",
         "t.csv:1: the columns are cost,from,to, but source,destination,cost is expected");
  refuse("0,1,1,1\n", "4 columns");
  refuse("a,b,c\nd,e,f\n", "t.csv:2: \"d\"");
  refuse("0,b,1\n", "t.csv:1: \"b\"");
  refuse("To,From,weight\n0,1,1\n",
         "t.csv:1: the columns are To,From, but source,destination is expected. Swap the two columns");
  EXPECT_HAS(user_message([&] { (void)read_edge_table(folder / "none.csv", numbers, {}); }), "none.csv");
}

TEST(EdgeTable, Matrices) {
  const TemporaryDirectory folder;
  const auto read = [&](const std::string& text, Index nodes) {
    return read_edge_matrix(write(folder / "m.csv", text), nodes);
  };
  const auto edges = read("0,0.5\n-1,0\n", 2);
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_EQ(edges[0].source, 0);
  EXPECT_EQ(edges[0].destination, 1);
  EXPECT_EQ(edges[1].weight, -1);
  EXPECT_HAS(user_message([&] { read("0,1\n1,0,0\n", 2); }),
             "m.csv:2: there are 3 columns in row 1. Write a matrix of 2 rows");
  EXPECT_HAS(user_message([&] { read("0,1\n", 2); }), "m.csv: there are 1 rows. Write a matrix of 2 rows");
  EXPECT_HAS(user_message([&] { read("0,1\n1,0\n0,0\n", 2); }), "m.csv:3: there are 2 columns in row 2");
  EXPECT_HAS(user_message([&] { read("0,1\n1,nan\n", 2); }), "m.csv:2: \"nan\" in column 1");
}

TEST(NodeNames, Duplicates) {
  const TemporaryDirectory folder;
  const std::string path = folder / "n.nc";
  NetcdfFile file = NetcdfFile::create(path);
  const int node = file.define_dimension("node", 3);
  const int id = file.define_variable("id", NetcdfType::int32, std::span(&node, 1));
  file.end_define();
  const Index start = 0, count = 3;
  const std::vector<double> values{7, 8, 7};
  file.write(id, std::span(&start, 1), std::span(&count, 1), values.data());
  file.close();
  EXPECT_HAS(user_message([&] { (void)NodeNames::read(path, "id", 3); }),
             "gives node 0 and node 2 the same name, \"7\"");
}

}  // namespace
}  // namespace rossby
