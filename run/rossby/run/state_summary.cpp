#include "rossby/run/state_summary.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/mpi/state_file.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

std::string_view placement_text(Placement placement) {
  switch (placement) {
    case Placement::replicated:
      return "replicated";
    case Placement::rows:
      return "rows";
    case Placement::entries:
      return "entries";
  }
  return "";
}

Json array_json(const StoredArray& array) {
  Json json;
  json["name"] = array.name;
  json["placement"] = std::string(placement_text(array.placement));
  json["shape"] = array.extents;
  json["value_bytes"] = array.value_bytes;
  json["checksum"] = fmt::format("{:016x}", array.checksum);
  return json;
}

/// Returns everything but the arrays.
Json summary(const std::string& file, const StoredState& state) {
  const Json metadata = Json::parse(state.metadata, nullptr, false);
  Json json;
  json["file"] = file;
  json["file_bytes"] = state.bytes;
  if (metadata.is_object())
    for (const auto& [key, value] : metadata.items())
      if (key != "config" && key != "training") json[key] = value;
  json["nodes"] = state.nodes;
  const auto training = metadata.is_object() ? metadata.find("training") : metadata.end();
  if (metadata.is_object() && training != metadata.end() && training->is_object())
    for (const char* name : {"epoch", "batch", "best_epoch", "has_best", "rollbacks", "seconds"})
      if (training->contains(name)) json["training"][name] = training->at(name);
  return json;
}

}  // namespace

Json state_summary(const std::string& file) {
  const StoredState state = list_state(file);
  Json json = summary(file, state);
  json["arrays"] = Json::array();
  for (const StoredArray& array : state.arrays) json["arrays"].push_back(array_json(array));
  return json;
}

std::string state_summary_text(const std::string& file) {
  const StoredState state = list_state(file);
  const Json head = summary(file, state);  // items() keeps a reference
  std::string text;
  for (const auto& [key, value] : head.items())
    text += fmt::format("{:<16} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  for (const StoredArray& array : state.arrays)
    text += fmt::format("array            {:<28} {:<10} ({}, {}, {}) {}, checksum {:016x}\n", array.name,
                        placement_text(array.placement), array.extents[0], array.extents[1], array.extents[2],
                        array.value_bytes == 8 ? "double" : "float", array.checksum);
  return text;
}

}  // namespace rossby
