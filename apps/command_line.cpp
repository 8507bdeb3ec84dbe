#include "apps/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// The subcommand that was reached, and the words that name it: "rossby data synth".
struct Reached {
  const CLI::App* app;
  std::string words;
};

Reached reached(const CLI::App& app) {
  Reached place{&app, app.get_name()};
  while (!place.app->get_subcommands().empty()) {
    place.app = place.app->get_subcommands().front();
    place.words += " " + place.app->get_name();
  }
  return place;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) names.push_back(option->get_name());
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(word, names);
  return nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
}

/// Returns a hint for an option that this subcommand does not have: where other programs and subcommands have
/// it.
std::string instead_of(const std::string& word, const CLI::App& app) {
  const std::vector<std::string> names = option_names(app);
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string option = word.substr(0, word.find('='));
  if (has("--run") &&
      (option == "-o" || option == "--output" || option == "--out" || option == "--output-dir"))
    return " (did you mean --run DIR, the directory of all that a training writes?)";
  if (const auto name = option.find_first_not_of('-'); name != std::string::npos)
    for (const CLI::Option* positional : app.get_options())
      if (positional->get_positional() && positional->get_name() == option.substr(name))
        return fmt::format(" (give {} without {})", positional->get_name(), option);
  return did_you_mean(word, names);
}

/// Returns the word that fits nowhere. Prefers an option, because its value may be left over with it.
std::string leftover(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto option =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with('-'); });
  return option != words.end() ? *option : words.empty() ? "" : words.front();
}

}  // namespace

void add_no_measure(CLI::App& app, bool& measures) {
  app.add_flag("!--no-measure", measures,
               "do not measure missing calls: by default, calls of the training that are far from all "
               "measured calls are timed for a moment, and added to the machine file")
      ->needs("--machine");
}

void add_settings(CLI::App& app, std::vector<std::string>& sets, const std::string& help) {
  app.add_option("--set", sets, help)->take_all()->allow_extra_args(false)->type_name("KEY=VALUE");
}

CLI::Validator whole_number(Index least) {
  return {[least](std::string& text) -> std::string {
            Index value = 0;
            const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (code == std::errc() && end == text.data() + text.size() && value >= least) return "";
            return fmt::format("{} is not a whole number of at least {}", text, least);
          },
          "", "whole number"};
}

namespace {

CLI::Validator number_that(bool (*fits)(double), const char* is) {
  return {
      [fits, is](std::string& text) -> std::string {
        double value = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc() && end == text.data() + text.size() && std::isfinite(value) && fits(value))
          return "";
        return fmt::format("{} is not a number {}", text, is);
      },
      "", "number"};
}

}  // namespace

CLI::Validator non_negative_number() {
  return number_that([](double value) { return value >= 0; }, "of at least 0");
}

CLI::Validator positive_number() {
  return number_that([](double value) { return value > 0; }, "above 0");
}

std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const Reached place = reached(app);
  const std::vector<std::string> subcommands = subcommand_names(*place.app);
  std::string word = leftover(app);
  // The first word has to name a subcommand, whatever options follow.
  if (const auto words = app.remaining(true);
      !subcommands.empty() && !words.empty() && !words.front().starts_with('-'))
    word = words.front();
  std::string text = error.what();
  if (word.starts_with('-'))
    text = fmt::format("unknown option {}{}", word, instead_of(word, *place.app));
  else if (!word.empty() && !subcommands.empty())
    text = fmt::format("unknown subcommand {}{}; there are {}", word, did_you_mean(word, subcommands),
                       fmt::join(subcommands, ", "));
  else if (!word.empty())
    text = fmt::format("unexpected argument {}", word);
  else if (!subcommands.empty())
    text = fmt::format("a subcommand is missing; there are {}", fmt::join(subcommands, ", "));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return fmt::format("{}; see {} --help", text, place.words);
}

}  // namespace rossby
