#include "rossby/run/profile_question.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/raw_value.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/default_settings.hpp"
#include "rossby/run/profile.hpp"

namespace rossby {
namespace {

using detail::RawValue;
using detail::Setting;

std::string key_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

/// True if a key belongs to a candidate, or is decided by a profile.
bool is_of_model(const std::string& key) {
  static constexpr const char* of_model[] = {
      "relation.discover",       "relation.self", "relation.mode", "relation.hops",  "relation.rank",
      "relation.low_rank_start", "train.joint",   "optimiser.lr",  "optimiser.lr_z", "optimiser.lr_relation"};
  return (key.starts_with("model.") && key != "model.precision") ||
         std::find(std::begin(of_model), std::end(of_model), key) != std::end(of_model);
}

ProfiledCandidate candidate_of(const std::vector<Setting>& settings, const std::string& origin) {
  ProfiledCandidate candidate;
  for (const Setting& setting : settings) {
    const bool text = setting.value.kind == RawValue::Kind::text;
    if (setting.key == "name" && text) {
      candidate.name = setting.value.text;
    } else if (setting.key == "ranks" && text && setting.value.text == "all") {
      candidate.all_ranks = true;
    } else if (setting.key == "expected") {
      candidate.expected = setting.value.real;
      if (!(candidate.expected > 0) || !std::isfinite(candidate.expected))
        user_error("{}:{}: expected must be a number above 0, for example 1.05", origin, setting.line);
    } else if (setting.key.find('.') == std::string::npos) {
      user_error(
          "{}:{}: {} is not a key of a candidate. Candidates have name = \"…\", ranks = \"all\", expected = "
          "1.05 "
          "and settings such as model.name = \"gru\"",
          origin, setting.line, setting.key);
    } else {
      candidate.settings.push_back(fmt::format("{}={}", setting.key, detail::literal_of(setting.value)));
      if (setting.key == "model.name") candidate.model = setting.value.text;
    }
  }
  return candidate;
}

std::vector<ProfiledCandidate> candidates_of(const std::string& toml, const std::string& origin) {
  std::vector<ProfiledCandidate> all;
  for (const auto& settings : detail::read_toml_tables(toml, origin, "candidate"))
    all.push_back(candidate_of(settings, origin));
  return all;
}

std::vector<ProfiledCandidate> built_in() {
  std::vector<ProfiledCandidate> all;
  for (const ModelDescriptor& model : models()) {
    const std::string name(model.name);
    auto some = candidates_of(std::string(model.candidates), name);
    if (some.empty()) some.emplace_back().name = "default";
    for (ProfiledCandidate& candidate : some) {
      candidate.model = name;
      candidate.name = name + "-" + candidate.name;
      candidate.settings.insert(candidate.settings.begin(), "model.name=" + name);
      all.push_back(std::move(candidate));
    }
  }
  return all;
}

std::vector<ProfiledCandidate> from_file(const std::string& path) {
  const std::vector<ProfiledCandidate> all = candidates_of(read_text(path), path);
  if (all.empty()) user_error("{}: there is no table [[candidate]]. Add a table for each candidate", path);
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::string& name = all[k].name;
    if (name.empty() || name.front() == '.' || name.find_first_not_of(letters) != std::string::npos)
      user_error(
          "{}: candidate {} has no valid name. Use letters, digits, '.', '_' and '-', like name = "
          "\"gru-wide\"",
          path, k + 1);
    for (std::size_t j = 0; j < k; ++j)
      if (all[j].name == name)
        user_error("{}: two candidates have the name {}. Give each candidate a different name", path, name);
  }
  return all;
}

std::vector<ProfiledCandidate> from_list(const std::string& list) {
  const std::vector<ProfiledCandidate> all = built_in();
  std::vector<ProfiledCandidate> chosen;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    const std::size_t before = chosen.size();
    for (const ProfiledCandidate& one : all)
      if (one.model == word || one.name == word) chosen.push_back(one);
    if (chosen.size() == before) {
      std::vector<std::string> names;
      for (const ProfiledCandidate& one : all) names.push_back(one.name);
      user_error(
          "--candidates: \"{}\" is neither a model nor a candidate. Choose from {}, or name a file, *.toml",
          word, fmt::join(names, ", "));
    }
    begin = end + 1;
  }
  for (std::size_t k = 0; k < chosen.size(); ++k)
    for (std::size_t j = 0; j < k; ++j)
      if (chosen[j].name == chosen[k].name)
        user_error("--candidates: {} is named twice. Name each candidate once", chosen[k].name);
  return chosen;
}

/// The settings of a configuration: `own` of its model, `base` the others.
struct OfFile {
  std::vector<std::string> base, own;
};

OfFile settings_of(const std::string& path) {
  OfFile of;
  for (const Setting& setting : detail::read_toml(read_text(path), path))
    (is_of_model(setting.key) ? of.own : of.base)
        .push_back(fmt::format("{}={}", setting.key, detail::literal_of(setting.value)));
  return of;
}

bool sets_key(const std::vector<std::string>& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const std::string& setting) { return key_of(setting) == key; });
}

/// Adds suitable windows if the configuration has none.
void add_windows(std::vector<std::string>& base, const std::vector<std::string>& suiting) {
  for (const char* key : {"window.inputs", "window.outputs", "window.batch"})
    for (const std::string& setting : suiting)
      if (key_of(setting) == key && !sets_key(base, key)) base.push_back(setting);
}

}  // namespace

std::vector<ProfiledCandidate> candidates_named(const std::string& asked) {
  if (asked == "all") return built_in();
  return asked.ends_with(".toml") ? from_file(asked) : from_list(asked);
}

std::vector<std::string> ProfileQuestion::fold_settings(Index fold) const {
  if (folds == 0) return {};
  return {"split.validation=0", fmt::format("split.folds={}", folds), fmt::format("split.fold={}", fold)};
}

Config ProfileQuestion::config_of(const ProfiledCandidate& candidate) const {
  std::vector<std::string> sets = base;
  for (const std::string& setting : candidate.settings)
    if (!(has_graph && setting == "relation.graph=\"auto\"")) sets.push_back(setting);
  return Config::load("", sets);
}

Config ProfileQuestion::config_of(const ProfiledCandidate& candidate, Index fold) const {
  std::vector<std::string> sets = {"checkpoint.keep=1", "checkpoint.every_minutes=0",
                                   "checkpoint.every_steps=0"};
  if (!candidate.all_ranks)
    sets.insert(sets.end(), {"parallel.time_groups=1", "parallel.stages=1", "parallel.stage_layers=[]"});
  for (const std::string& setting : fold_settings(fold)) sets.push_back(setting);
  return config_of(candidate).with(sets);
}

Config ProfileQuestion::base_config(Index fold) const {
  std::vector<std::string> sets = base;
  // A model of single nodes, without a graph.
  sets.insert(sets.end(), {"model.name=gru", "relation.graph=none"});
  for (const std::string& setting : fold_settings(fold)) sets.push_back(setting);
  return Config::load("", sets);
}

std::string ProfileQuestion::text(int ranks) const {
  std::string all = fmt::format("ranks {}\nfolds {}\n{}\n", ranks, folds, fmt::join(base, "\n"));
  for (const ProfiledCandidate& one : candidates)
    all += fmt::format("[{}]{}\n{}\n", one.name, one.all_ranks ? " on all ranks" : "",
                       fmt::join(one.settings, "\n"));
  return all;
}

ProfileQuestion ask(const Communicator& comm, const ProfileOptions& options) {
  const bool series = names_series(options.config);
  ProfileQuestion question;
  question.seed = options.seed;
  std::vector<std::string> data = options.sets;
  OfFile of;
  if (series) {
    data.insert(data.begin(), "data.file=" + options.config);
  } else {
    of = agree(comm, [&] {
      (void)Config::load(options.config, options.sets);  // reports errors with their lines
      return settings_of(options.config);
    });
    data.insert(data.begin(), of.base.begin(), of.base.end());
  }
  const std::vector<std::string> suiting = settings_suiting(comm, data, series);
  agree(comm, [&] {
    std::vector<std::string>& base = question.base;
    if (series) base = suiting;
    base.insert(base.end(), data.begin(), data.end());
    if (!series) add_windows(base, suiting);
    std::erase_if(base, [](const std::string& setting) { return is_of_model(key_of(setting)); });
    const Config config = Config::load("", base).with(std::vector<std::string>{"model.name=gru"});
    base.insert(base.end(),
                {"validation.metric=rmse", "validation.kind=origins", "schedule.metric=validation",
                 "train.refit=false", "train.max_seconds=0", "train.stop_after=\"\"",
                 fmt::format("evaluate.horizons={}", config.window.outputs),
                 fmt::format("train.seed={}", options.seed)});
    question.has_graph = config.relation.graph != "none";
    question.folds = options.folds > 0 ? options.folds : config.split.folds;
    question.candidates = candidates_named(options.candidates);
    if (!of.own.empty() && options.candidates == "all") {
      ProfiledCandidate& own = question.candidates.emplace_back();
      own.name = "config";
      own.settings = of.own;
    }
    for (ProfiledCandidate& one : question.candidates) {
      try {
        one.model = question.config_of(one).model.name;
      } catch (const UserError& error) {
        user_error("{}: candidate {}: {}", options.candidates, one.name, error.what());
      }
      one.folds.resize(static_cast<std::size_t>(std::max<Index>(question.folds, 1)));
    }
  });
  return question;
}

bool for_all_ranks(const Config& config, const Domain& domain) {
  constexpr double many = 4e6;
  const auto nodes = static_cast<double>(domain.nodes());
  const double steps = config.windows() ? static_cast<double>(config.window.batch * config.window.inputs)
                                        : static_cast<double>(std::max<Index>(config.train.slab_steps, 1));
  const double learned = config.relation.discover == "dense" ? nodes * nodes : 0;
  return std::max(nodes * steps, learned) * static_cast<double>(domain.info.features) > many;
}

}  // namespace rossby
