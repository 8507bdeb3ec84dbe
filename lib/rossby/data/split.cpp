#include "rossby/data/split.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

template <class T>
bool parses(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

/// Number of steps of the part that begins at `begin`, from its text.
Index part_size(std::string_view key, const std::string& text, Index begin, Index steps,
                const DateToStep& date) {
  if (text == "rest") return steps - begin;
  Index count = 0;
  if (parses(text, count)) {
    if (count < 0) user_error("{} = \"{}\" is negative. Give a number of steps of 0 or more", key, text);
    return count;
  }
  double share = 0;
  if (parses(text, share)) {
    if (!(share > 0 && share < 1))
      user_error(
          "{} = \"{}\" is not a share between 0 and 1. Give a share such as \"0.7\", or a number of steps "
          "without a decimal point",
          key, text);
    return static_cast<Index>(std::llround(share * static_cast<double>(steps)));
  }
  if (text.empty() || text.find_first_of("0123456789") == std::string::npos)
    user_error(
        "{} = \"{}\" is not valid. Give a number of steps, a share such as \"0.7\", a date or \"rest\"", key,
        text);
  if (!date)
    user_error("{} = \"{}\" is a date, but the series has no dates. Give a number of steps or a share", key,
               text);
  const Index end = date(text);
  if (end < begin)
    user_error(
        "{} = \"{}\" is step {} of the series, but the part begins later, at step {}. Give a later date", key,
        text, end, begin);
  return end - begin;
}

void assign(Split& split, StepRange range, Role role) {
  for (Index t = range.first; t < range.last; ++t) split.role[static_cast<std::size_t>(t)] = role;
}

void hold_out_fold(Split& split, const SplitSettings& spec) {
  if (!split.validation.empty())
    user_error(
        "split.folds = {} takes the validation part from the training part, but split.validation is \"{}\". "
        "Set split.validation = \"0\"",
        spec.folds, spec.validation);
  if (spec.folds < 2)
    user_error(
        "split.folds = {}: a cross-validation needs at least 2 folds. Raise split.folds, or set split.folds "
        "= 0",
        spec.folds);
  if (spec.fold < 0 || spec.fold >= spec.folds)
    user_error(
        "split.fold = {} does not exist: with split.folds = {}, the folds are 0 to {}. Lower split.fold",
        spec.fold, spec.folds, spec.folds - 1);
  const Index n = split.train.size();
  const bool forward = spec.fold_order == "forward";
  const Index blocks = spec.folds + (forward ? 1 : 0), block = spec.fold + (forward ? 1 : 0);
  if (n < blocks)
    user_error(
        "split.folds = {} is too large: the training part has only {} steps. Lower split.folds, or lengthen "
        "the training part with split.train",
        spec.folds, n);
  const StepRange training = split.train;
  split.validation = {training.first + block * n / blocks, training.first + (block + 1) * n / blocks};
  const StepRange around{std::max(training.first, split.validation.first - spec.gap),
                         std::min(training.last, split.validation.last + spec.gap)};
  assign(split, around, Role::unused);
  if (forward) assign(split, {around.last, training.last}, Role::unused);
  assign(split, split.validation, Role::validation);
}

}  // namespace

std::vector<Index> Split::training_steps() const {
  return training_pairs(0);
}

std::vector<Index> Split::training_pairs(Index lags) const {
  std::vector<Index> pairs;
  Index run = 0;  // consecutive training steps up to t
  for (Index t = train.first; t < train.last; ++t) {
    if (lags > 0 && !follows(t)) run = 0;
    run = is_training(t) ? run + 1 : 0;
    if (run > lags) pairs.push_back(t);
  }
  return pairs;
}

bool Split::reaches_training(Index origin, Index horizons) const {
  for (Index h = 1; h <= horizons; ++h)
    if (is_training(origin + h)) return true;
  return false;
}

std::vector<Index> Split::origins(Role part, Index horizons) const {
  require(part == Role::validation || part == Role::test, "origins lie in the validation or the test part");
  require(horizons >= 1, "a forecast has one horizon or more");
  const StepRange range = part == Role::validation ? validation : test;
  std::vector<Index> result;
  if (range.empty()) return result;
  for (Index o = range.first > 0 ? range.first - 1 : 0; o + horizons < range.last; ++o) result.push_back(o);
  return result;
}

std::vector<Index> Split::test_origins(Index horizons, Index first, Index last) const {
  std::vector<Index> result = origins(Role::test, horizons);
  if (first < 0 && last < 0) {
    if (result.empty())
      user_error(
          "the test part has {} steps, too few for a forecast of {} steps. Lower evaluate.horizons, or "
          "lengthen the test part with split.test",
          test.size(), horizons);
    return result;
  }
  if (first < 0 && test.empty())
    user_error(
        "the test part is empty. Lower split.train or split.validation, or set evaluate.first_origin to the "
        "first forecast origin");
  if (first < 0) first = test.first > 0 ? test.first - 1 : 0;
  if (horizons >= steps)
    user_error("evaluate.horizons = {} is too many for a series of {} steps. Lower evaluate.horizons",
               horizons, steps);
  if (last < 0) last = steps - 1 - horizons;
  if (last < first || last + horizons >= steps)
    user_error(
        "evaluate.first_origin = {} or evaluate.last_origin = {} is out of range: with {} horizons and {} "
        "steps, choose origins from 0 to {}",
        first, last, horizons, steps, steps - 1 - horizons);
  result.clear();
  for (Index o = first; o <= last; ++o) result.push_back(o);
  return result;
}

std::vector<std::string> years_as_counts(const SplitSettings& spec, Index steps,
                                         const DateToStep& date_to_step) {
  std::vector<std::string> found;
  if (!date_to_step) return found;
  for (const auto& [key, text] : {std::pair<const char*, const std::string&>{"split.train", spec.train},
                                  {"split.validation", spec.validation},
                                  {"split.test", spec.test}}) {
    Index count = 0;
    if (text.size() != 4 || !parses(text, count) || count < 1000) continue;
    try {
      const Index place = date_to_step(text + "-01");
      if (place > 0 && place < steps) found.push_back(fmt::format("{} = {}", key, text));
    } catch (const UserError&) {  // not a date of this series
    }
  }
  return found;
}

Split make_split(Index steps, const SplitSettings& spec, const DateToStep& date_to_step) {
  const Index train = part_size("split.train", spec.train, 0, steps, date_to_step);
  if (train < 2)
    user_error("split.train = \"{}\" is {} of {} steps, but training needs at least 2. Raise split.train",
               spec.train, train, steps);
  const auto check = [&](std::optional<Index> validation, std::optional<Index> test) {
    const auto size = [](const std::optional<Index>& part) {
      return part ? fmt::format(" + {}", *part) : std::string();
    };
    if (train + validation.value_or(0) + test.value_or(0) > steps)
      user_error(
          "split.train = \"{}\", split.validation = \"{}\", split.test = \"{}\" ask for {}{}{} steps{}, but "
          "the series has {}{}. Lower one of these keys",
          spec.train, spec.validation, spec.test, train, size(validation), size(test),
          test ? "" : " without the later parts", steps,
          years_as_counts(spec, steps, date_to_step).empty() ? "" : "; a year is written as 2001-01");
  };
  check({}, {});
  const Index validation = part_size("split.validation", spec.validation, train, steps, date_to_step);
  check(validation, {});
  const Index test = part_size("split.test", spec.test, train + validation, steps, date_to_step);
  check(validation, test);

  Split split;
  split.steps = steps;
  split.role.assign(static_cast<std::size_t>(steps), Role::unused);
  split.train = {0, train};
  split.validation = {train, train + validation};
  split.test = {train + validation, train + validation + test};
  assign(split, split.train, Role::train);
  assign(split, split.validation, Role::validation);
  assign(split, split.test, Role::test);
  if (spec.folds > 0)
    hold_out_fold(split, spec);
  else if (spec.gap > 0)
    user_error("split.gap = {}: only folds have a gap. Set split.folds, or leave split.gap out", spec.gap);
  if (split.training_pairs().empty())
    user_error(
        "split.folds = {}, split.fold = {}{}: no two successive steps of the {} training steps are left for "
        "training. Lengthen the training part with split.train{}",
        spec.folds, spec.fold, spec.gap > 0 ? fmt::format(", split.gap = {}", spec.gap) : "", train,
        spec.gap > 0 ? ", or lower split.gap" : "");
  while (!split.is_training(split.train.first)) ++split.train.first;
  while (!split.is_training(split.train.last - 1)) --split.train.last;
  return split;
}

Split deciding_split(const Split& split) {
  if (!split.validation.empty()) return split;
  Split shorter = split;
  const std::vector<Index> training = split.training_steps();
  const std::size_t kept = training.size() - training.size() / 5;
  for (std::size_t k = kept; k < training.size(); ++k)
    shorter.role[static_cast<std::size_t>(training[k])] = Role::validation;
  if (kept < training.size()) shorter.validation = {training[kept], training.back() + 1};
  shorter.train.last = kept > 0 ? training[kept - 1] + 1 : 0;
  return shorter;
}

}  // namespace rossby
