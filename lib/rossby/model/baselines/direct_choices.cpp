#include "rossby/model/baselines/direct_choices.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

[[noreturn]] void refuse_choices(const std::string& text) {
  user_error(
      "model.base_chosen = \"{}\": this version does not know these choices of the linear baseline. Train a "
      "new run with this version",
      text);
}

double next_number(std::istringstream& in, const std::string& text) {
  std::string word;
  char* end = nullptr;
  if (!(in >> word)) refuse_choices(text);
  const double number = std::strtod(word.c_str(), &end);
  if (*end != '\0') refuse_choices(text);
  return number;
}

}  // namespace

std::string DirectChoices::text() const {
  std::string all = fmt::format("{} {} {:d}", name_of(about.cycle.kind), about.cycle.harmonics, about.trend);
  for (std::size_t h = 0; h < own.size(); ++h) {
    all += fmt::format("; {} {:d} {:d} {}", own[h].lags, own[h].slow, own[h].seasonal, own[h].pull);
    if (cross.empty()) continue;
    if (cross[h].form < 0)
      all += " 0";
    else
      all += fmt::format(" {} {:d} {}", cross_forms[cross[h].form].lags,
                         cross_forms[cross[h].form].own_period, cross_ridges[cross[h].ridge]);
  }
  return all;
}

DirectChoices DirectChoices::parse(const std::string& text, Index leads, const AnomalySpec& settings) {
  DirectChoices choices{.about = settings};
  std::istringstream parts(text);
  std::string part, name;
  std::getline(parts, part, ';');
  std::istringstream first(part);
  first >> name;
  const auto kind =
      std::ranges::find_if(all_cycle_kinds, [&](CycleKind one) { return name_of(one) == name; });
  if (kind == std::end(all_cycle_kinds)) refuse_choices(text);
  choices.about.cycle.kind = *kind;
  choices.about.cycle.harmonics = static_cast<Index>(next_number(first, text));
  choices.about.trend = next_number(first, text) != 0;
  while (std::getline(parts, part, ';')) {
    std::istringstream in(part);
    OwnChoice& own = choices.own.emplace_back();
    own.lags = static_cast<Index>(next_number(in, text));
    own.slow = next_number(in, text) != 0;
    own.seasonal = next_number(in, text) != 0;
    own.pull = next_number(in, text);
    const auto is_known = [&](const OwnChoice& one) {
      return one.lags == own.lags && one.slow == own.slow && one.seasonal == own.seasonal &&
             one.pull == own.pull;
    };
    if (std::ranges::none_of(OwnRegression::choices(), is_known)) refuse_choices(text);
    if (in >> std::ws; in.eof()) continue;
    CrossChoice& cross = choices.cross.emplace_back();
    const auto lags = static_cast<Index>(next_number(in, text));
    if (lags == 0) continue;
    const bool own_period = next_number(in, text) != 0;
    const double ridge = next_number(in, text);
    const auto form = std::ranges::find_if(
        cross_forms, [&](const CrossForm& one) { return one.lags == lags && one.own_period == own_period; });
    const auto strength = std::ranges::find(cross_ridges, ridge);
    if (form == std::end(cross_forms) || strength == std::end(cross_ridges)) refuse_choices(text);
    cross = {static_cast<int>(form - std::begin(cross_forms)),
             static_cast<int>(strength - std::begin(cross_ridges))};
  }
  if ((!choices.own.empty() && std::ssize(choices.own) != leads) ||
      (!choices.cross.empty() && std::ssize(choices.cross) != leads))
    refuse_choices(text);
  return choices;
}

}  // namespace rossby
