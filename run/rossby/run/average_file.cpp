#include "rossby/run/average_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "rossby/base/plain_text.hpp"
#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/run_baselines.hpp"
#include "rossby/run/run_files.hpp"

namespace rossby {
namespace {

using Kind = AverageMember::Kind;

constexpr std::array<std::pair<Kind, const char*>, 3> member_kinds{
    {{Kind::run, "run"}, {Kind::baseline, "baseline"}, {Kind::file, "file"}}};

/// Resolves a path of average.json, which is relative to the directory.
std::string found(const std::string& directory, const std::string& path) {
  if (std::filesystem::path(path).is_absolute()) return path;
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

std::vector<double> weights_of(const nlohmann::json& json, std::size_t members) {
  const auto weights = json.at("weights").get<std::vector<double>>();
  const bool negative = std::any_of(weights.begin(), weights.end(), [](double w) { return !(w >= 0); });
  if (weights.size() != members || negative ||
      !(std::abs(std::accumulate(weights.begin(), weights.end(), 0.0) - 1) < 1e-6))
    user_error(
        "each horizon needs one weight per member, and these weights must be at least 0 with the sum 1");
  return weights;
}

AverageMember member_of(const nlohmann::json& json, const std::string& directory) {
  const auto kind = json.at("kind").get<std::string>();
  for (const auto& [value, name] : member_kinds) {
    if (kind != name) continue;
    if (value == Kind::baseline) return {value, json.at("name").get<std::string>(), ""};
    return {value, found(directory, json.at("path").get<std::string>()), json.at("hash").get<std::string>()};
  }
  user_error("\"{}\" is not a kind of member", kind);
}

std::string hash_of_bytes(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) user_error("{}: this file cannot be read. Check the permissions of this file", path);
  TextHash hash;
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::size_t count = 1; count > 0;) {
    count = std::fread(piece.data(), 1, piece.size(), file.get());
    hash.add({piece.data(), count});
  }
  if (std::ferror(file.get()) != 0)
    user_error(
        "{}: reading failed before the end of the file. Check the disk, or copy the file to another one",
        path);
  return fmt::format("{:016x}", hash.value());
}

/// Hashes the values alone, so that equal trainings have equal hashes.
std::string hash_of_state(const std::string& path) {
  const StoredState state = list_state(path);
  TextHash hash;
  for (const StoredArray& array : state.arrays)
    hash.add_format("{} {} {} {} {:x}\n", array.name, array.extents[0], array.extents[1], array.extents[2],
                    array.checksum);
  const auto metadata = nlohmann::json::parse(state.metadata, nullptr, false);
  if (metadata.is_object()) hash.add(metadata.value("training_hash", ""));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace

std::string average_file_of(const std::string& directory) {
  return directory + "/average.json";
}

bool is_average(const std::string& directory) {
  std::error_code code;
  return std::filesystem::exists(average_file_of(directory), code);
}

Average read_average(const std::string& directory) {
  const std::string path = average_file_of(directory);
  const std::string text = read_text(path);
  try {
    const auto json = nlohmann::json::parse(text);
    Average average;
    average.weighting = json.at("weighting").get<std::string>();
    for (const auto& member : json.at("members")) average.members.push_back(member_of(member, directory));
    for (const auto& horizon : json.at("horizons"))
      average.weights.push_back(weights_of(horizon, average.members.size()));
    if (average.members.size() < 2 || average.weights.empty())
      user_error("an average needs at least two members and weights of at least one horizon");
    return average;
  } catch (const nlohmann::json::exception& error) {
    user_error("{}: not a file of 'rossby average' ({}). Make the average again with 'rossby average'", path,
               plain_text(error));
  } catch (const UserError& error) {
    user_error("{}: not a file of 'rossby average' ({}). Make the average again with 'rossby average'", path,
               error.what());
  }
}

nlohmann::ordered_json members_json(const std::vector<AverageMember>& members, const std::string& directory) {
  auto json = nlohmann::ordered_json::array();
  const std::filesystem::path from = std::filesystem::weakly_canonical(std::filesystem::absolute(directory));
  for (const AverageMember& member : members) {
    const auto kind = std::find_if(member_kinds.begin(), member_kinds.end(),
                                   [&](const auto& known) { return known.first == member.kind; });
    nlohmann::ordered_json one{{"kind", kind->second}};
    if (member.kind == Kind::baseline) {
      one["name"] = member.name;
    } else {
      const auto to = std::filesystem::weakly_canonical(std::filesystem::absolute(member.name));
      one["path"] = to.lexically_relative(from).string();
      one["hash"] = member.hash;
    }
    json.push_back(std::move(one));
  }
  return json;
}

std::string hash_of(const AverageMember& member) {
  if (member.kind == Kind::baseline) return "";
  return member.kind == Kind::file ? hash_of_bytes(member.name) : hash_of_state(state_file_of(member.name));
}

AverageMember member_named(const std::string& word) {
  if (std::find(baseline_names.begin(), baseline_names.end(), word) != baseline_names.end())
    return {Kind::baseline, word, ""};
  std::error_code code;
  std::string path = word;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (std::filesystem::is_directory(path, code)) {
    if (is_average(path))
      user_error("{}: an average cannot be a member of an average. Name the members of this average instead",
                 path);
    return {Kind::run, path, ""};
  }
  if (std::filesystem::exists(path, code)) return {Kind::file, path, ""};
  user_error(
      "{}: not a run directory, a file of forecasts or a baseline. Name one of these; baselines are {}", word,
      fmt::join(baseline_names, ", "));
}

}  // namespace rossby
