#include "rossby/run/average.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/forecast_store.hpp"
#include "rossby/run/members.hpp"
#include "rossby/train/average_weights.hpp"
#include "rossby/train/evaluation.hpp"

namespace rossby {
namespace {

using Kind = AverageMember::Kind;
using Weights = std::vector<std::vector<double>>;  // [horizon][member]

bool is_same(const AverageMember& a, const AverageMember& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::baseline) return a.name == b.name;
  std::error_code code;
  return std::filesystem::equivalent(a.name, b.name, code);
}

/// Returns the folder that contains, or will contain, a directory.
std::string folder_of(const std::string& directory) {
  const std::string folder = std::filesystem::absolute(directory).parent_path().string();
  return folder.empty() ? "." : folder;
}

void check_output(const std::string& directory) {
  std::error_code code;
  if (directory.empty()) user_error("the directory for the average is missing. Give -o DIR");
  if (is_average(directory))
    user_error("{}: this file already exists. Name another directory with -o, or remove this file",
               average_file_of(directory));
  if (std::filesystem::exists(directory, code) && !std::filesystem::is_directory(directory, code))
    user_error("{}: cannot make this directory: a file has that name. Name another directory with -o",
               directory);
  if (std::filesystem::exists(directory + "/config.toml", code))
    user_error("{}: this is a run directory. Name another directory with -o", directory);
  const std::string place = std::filesystem::exists(directory, code) ? directory : folder_of(directory);
  if (::access(place.c_str(), W_OK) != 0)
    user_error("{}: cannot write into the folder {}: {}. Name another directory with -o", directory, place,
               std::strerror(errno));
}

/// Finds the members that the command line names. All ranks see the same files.
std::vector<AverageMember> members_of(const Communicator& comm, const AverageOptions& options) {
  std::vector<AverageMember> members = agree(comm, [&] {
    std::vector<AverageMember> found;
    for (const std::string& word : options.members) {
      found.push_back(member_named(word));
      for (std::size_t k = 0; k + 1 < found.size(); ++k)
        if (is_same(found[k], found.back()))
          user_error("{}: this member is named twice. Name each member once", word);
    }
    if (found.size() < 2)
      user_error(
          "an average needs two members or more, but {} named. Name run directories, baselines or files of "
          "forecasts",
          found.empty() ? "none is" : fmt::format("only {} is", found.front().name));
    if (comm.rank() == 0) check_output(options.output);
    return found;
  });
  return members;
}

/// Errors of all members in the validation part.
struct Validated {
  std::vector<Index> origins;
  ErrorGram gram;
  bool scaled = false;  // errors are scaled, so that variables of different units count alike
  ForecastStore store;  // forecasts of all members
  Series truth;
  Weights mae = {};  // mean absolute errors of each horizon: of the members, then of their average

  [[nodiscard]] std::vector<double> of(Index horizon) const { return gram.mean(horizon, scaled); }
};

Validated validate(Members& members, Index horizons, const AverageOptions& options, std::string& remark) {
  const Communicator& comm = members.comm();
  const Domain& domain = members.domain();
  const Index m = domain.info.features, rows = std::ssize(domain.rows);
  std::vector<Index> origins = agree(comm, [&] {
    std::vector<Index> all = domain.split.origins(Role::validation, horizons);
    if (all.empty())
      user_error(
          "--weights {} needs errors in the validation part, but its {} steps are too few for {} horizons. "
          "Train the members with a longer split.validation, or set --weights equal",
          options.weighting, domain.split.validation.size(), horizons);
    return members.usable(std::move(all), horizons, remark);
  });
  const Index count = std::ssize(origins);
  auto store = agree(comm, [&] {
    return ForecastStore(folder_of(options.output), members.size(), horizons, count, rows * m);
  });
  for (Index k = 0; k < members.size(); ++k) {
    members.forecast(k, origins, horizons, horizons, [&](Index first, Index h, NodeView<const float> x) {
      for (Index b = 0; b < x.cols; ++b) {
        float* to = store.at(k, h, first + b);
        for (Index i = 0; i < x.rows; ++i, to += m) std::copy_n(x.at(i, b), m, to);
      }
    });
    store.forget_pages();
  }
  Series truth = read_series(comm, members.config(), domain);
  std::vector<Index> features;
  for (const SeriesVariable& variable : domain.info.variables) features.push_back(variable.features);
  Validated found{std::move(origins), ErrorGram(members.size(), horizons, features),
                  units_of(domain.info) == "mixed", std::move(store), std::move(truth)};
  std::vector<const float*> forecasts(static_cast<std::size_t>(members.size()));
  for (Index h = 1; h <= horizons; ++h)
    for (Index o = 0; o < count; ++o) {
      for (Index k = 0; k < members.size(); ++k)
        forecasts[static_cast<std::size_t>(k)] = found.store.at(k, h, o);
      found.gram.add(h, forecasts, found.truth.at(found.origins[static_cast<std::size_t>(o)] + h), rows);
    }
  found.gram.reduce(members.reducer());
  agree(comm, [&] {
    for (Index k = 0; k < members.size(); ++k)
      if (found.gram.lost(k) > 0)
        user_error(
            "{}: {:.0f} forecasts of observed values in the validation part are {}. Leave this member out{}",
            members[k].name, found.gram.lost(k), members[k].kind == Kind::file ? "missing" : "not finite",
            members[k].kind == Kind::file ? ", or complete this file" : ", or train this run anew");
    for (Index h = 1; h <= horizons; ++h)
      if (found.gram.count(h) == 0)
        user_error(
            "{}: the validation part has no observed target {} steps ahead. Give --weights equal, or fewer "
            "lead times with --set evaluate.horizons=N",
            domain.info.path, h);
  });
  return found;
}

/// Scores, for a run that was refit, the run that chose its epochs: the refit saw the validation part.
Validated validate_before_refit(Members& members, Index horizons, const AverageOptions& options,
                                std::string& remark) {
  const std::vector<AverageMember> before = agree(members.comm(), [&] { return members.before_refit(); });
  bool any = false;
  for (Index k = 0; k < members.size(); ++k) {
    const std::string& scored = before[static_cast<std::size_t>(k)].name;
    if (scored == members[k].name) continue;
    any = true;
    remark += fmt::format(
        "{}: the weights of this member are computed with {}, because its final training has seen the "
        "validation part\n",
        members[k].name, scored);
  }
  if (!any) return validate(members, horizons, options, remark);
  Members scored(members.comm(), before, options.sets, options.device);
  scored.expect_same_data();
  return validate(scored, horizons, options, remark);
}

Weights weights_of(const AverageOptions& options, const Validated* validated, Index members, Index horizons) {
  Weights weights;
  for (Index h = 1; h <= horizons; ++h)
    if (!validated)
      weights.emplace_back(static_cast<std::size_t>(members), 1.0 / static_cast<double>(members));
    else
      weights.push_back(options.weighting == "stacking" ? stacking_weights(validated->of(h))
                                                        : inverse_error_weights(validated->of(h)));
  return weights;
}

/// Computes Validated::mae. Collective.
void add_absolute_errors(Validated& validated, const Weights& weights, Reducer& reducer) {
  const std::size_t members = weights.front().size();
  const Index width = validated.truth.rows * validated.truth.features;
  for (Index h = 1; h <= std::ssize(weights); ++h) {
    const std::vector<double>& w = weights[static_cast<std::size_t>(h - 1)];
    std::vector<double> sums(members + 2);  // of the members, of their average, number of targets
    for (Index o = 0; o < std::ssize(validated.origins); ++o) {
      const float* truth = validated.truth.at(validated.origins[static_cast<std::size_t>(o)] + h);
      for (Index i = 0; i < width; ++i) {
        if (std::isnan(truth[i])) continue;
        double average = 0;
        for (std::size_t k = 0; k < members; ++k) {
          const auto forecast = static_cast<double>(validated.store.at(static_cast<Index>(k), h, o)[i]);
          sums[k] += std::abs(forecast - static_cast<double>(truth[i]));
          average += w[k] * forecast;
        }
        sums[members] += std::abs(average - static_cast<double>(truth[i]));
        sums.back() += 1;
      }
    }
    reducer.sum(std::span<double>(sums));
    for (std::size_t k = 0; k <= members; ++k) sums[k] /= sums.back();
    sums.pop_back();
    validated.mae.push_back(std::move(sums));
  }
}

/// Returns root mean squared errors in the validation part: of the members, then of their average.
std::vector<double> rmse_of(const Validated& validated, Index horizon, std::span<const double> weights) {
  const std::vector<double> gram = validated.gram.mean(horizon, false);
  std::vector<double> rmse;
  for (std::size_t k = 0; k < weights.size(); ++k) rmse.push_back(std::sqrt(gram[k * weights.size() + k]));
  rmse.push_back(std::sqrt(mean_square(gram, weights)));
  return rmse;
}

/// The average, in the forms in which it is written.
struct Made {
  const AverageOptions& options;
  const Members& members;
  const Weights& weights;
  const Validated* validated;  // null: weights are equal
  std::vector<Lead> leads;

  [[nodiscard]] nlohmann::ordered_json json() const {
    const SeriesInfo& info = members.domain().info;
    nlohmann::ordered_json json{{"weighting", options.weighting},
                                {"members", members_json(members.all(), options.output)}};
    json["horizons"] = nlohmann::ordered_json::array();
    for (std::size_t h = 0; h < weights.size(); ++h) {
      nlohmann::ordered_json one{{"step", h + 1}};
      if (h < leads.size() && !leads[h].text.empty()) one["lead"] = leads[h].text;
      if (h < leads.size() && leads[h].seconds) one["lead_seconds"] = *leads[h].seconds;
      one["weights"] = weights[h];
      if (validated) {
        for (auto& [name, errors] :
             {std::pair{"validation_rmse", rmse_of(*validated, static_cast<Index>(h) + 1, weights[h])},
              {"validation_mae", validated->mae[h]}}) {
          one[name]["average"] = errors.back();
          one[name]["members"] = std::vector<double>(errors.begin(), errors.end() - 1);
        }
      }
      json["horizons"].push_back(std::move(one));
    }
    std::vector<std::string> variables;
    for (const SeriesVariable& variable : info.variables) variables.push_back(variable.name);
    json["data"] = {{"file", info.path},
                    {"variables", variables},
                    {"units", units_of(info)},
                    {"nodes", members.domain().nodes()}};
    if (validated) {
      json["data"]["first_origin"] = info.time.text(validated->origins.front());
      json["data"]["last_origin"] = info.time.text(validated->origins.back());
      json["data"]["origins"] = validated->origins.size();
    }
    return json;
  }

  /// Returns a table with a line for each horizon and a number for each column.
  [[nodiscard]] std::string table(
      const std::string& title, std::span<const std::string> names, std::span<const Index> report, int digits,
      const std::function<double(Index horizon, std::size_t column)>& number) const {
    std::string text = fmt::format("{}\n{:>8}", title, "horizon");
    for (const std::string& name : names)
      text += fmt::format("  {:>{}}", name, std::max<std::size_t>(name.size(), 8));
    text += '\n';
    for (const Index h : report) {
      const std::string& lead = leads[static_cast<std::size_t>(h - 1)].text;
      text += fmt::format("{:>8}", lead.empty() ? std::to_string(h) : lead);
      for (std::size_t k = 0; k < names.size(); ++k)
        text += fmt::format("  {:>{}.{}f}", number(h, k), std::max<std::size_t>(names[k].size(), 8), digits);
      text += '\n';
    }
    return text;
  }

  [[nodiscard]] std::string text(std::span<const Index> report) const {
    std::vector<std::string> names;
    for (const AverageMember& member : members.all()) names.push_back(member.name);
    const auto of = [&](Index h) -> const std::vector<double>& {
      return weights[static_cast<std::size_t>(h - 1)];
    };
    std::string text = table("weights", names, report, 3, [&](Index h, std::size_t k) { return of(h)[k]; });
    if (!validated) return text;
    names.emplace_back("average");
    const TimeAxis& time = members.domain().info.time;
    const std::string units = units_of(members.domain().info);
    return text + "\n" +
           table(fmt::format("RMSE{}, {} origins of the validation part from {} to {}",
                             units == "1" ? "" : fmt::format(" ({})", units), validated->origins.size(),
                             time.text(validated->origins.front()), time.text(validated->origins.back())),
                 names, report, 4, [&](Index h, std::size_t k) { return rmse_of(*validated, h, of(h))[k]; });
  }
};

/// Writes average.json. If that fails, removes the directory again if it is new.
void write_average(const std::string& directory, const std::string& text) {
  std::error_code code;
  const bool is_new = std::filesystem::create_directory(directory, code);
  if (!std::filesystem::is_directory(directory))
    user_error("{}: cannot make this directory: {}. Name another directory with -o", directory,
               code.message());
  try {
    atomic_write(average_file_of(directory), text);
  } catch (...) {
    if (is_new) std::filesystem::remove(directory, code);
    throw;
  }
}

std::string average_with(const Communicator& comm, std::vector<AverageMember> named,
                         const AverageOptions& options) {
  Members members(comm, std::move(named), options.sets, options.device);
  const Watch watching(comm, members.config().parallel.watchdog_seconds, folder_of(options.output));
  if (options.prints && comm.rank() == 0) fmt::print("{}", members.remarks());
  members.expect_same_data();
  const Index horizons = agree(comm, [&] { return members.horizons(); });
  const TimeAxis& time = members.domain().info.time;
  const auto report =
      agree(comm, [&] { return reported_horizons(members.config().evaluate.report, time, horizons); });
  std::string remark;
  std::optional<Validated> validated;
  if (options.weighting != "equal") validated = validate_before_refit(members, horizons, options, remark);
  const Weights weights = weights_of(options, validated ? &*validated : nullptr, members.size(), horizons);
  if (validated) add_absolute_errors(*validated, weights, members.reducer());
  const std::vector<Index> origins = validated ? validated->origins : std::vector<Index>();
  const Made made{options, members, weights, validated ? &*validated : nullptr,
                  horizon_leads(time, origins, horizons)};
  const Stage stage(comm, "writing the average", patience_with_files);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    members.hash();
    write_average(options.output, made.json().dump(2) + "\n");
    if (options.prints)
      fmt::print("{}{}\nwritten to {}\n", remark, made.text(report), average_file_of(options.output));
  });
  return average_file_of(options.output);
}

}  // namespace

std::string average(const Communicator& comm, const AverageOptions& options) {
  return as_run(comm, [&](const Communicator& ranks) {
    std::vector<AverageMember> members = members_of(ranks, options);
    return or_on_the_cores([&] { return average_with(ranks, std::move(members), options); });
  });
}

}  // namespace rossby
