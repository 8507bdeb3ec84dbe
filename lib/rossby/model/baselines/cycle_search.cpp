#include "rossby/model/baselines/cycle_search.hpp"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr double margin = 0.002;  // by which a cycle must beat a simpler one

std::uint64_t input_of(const Series& series, const Split& split) {
  const auto bytes = [](const auto& all) {
    return std::string_view(reinterpret_cast<const char*>(all.data()), std::size(all) * sizeof(all[0]));
  };
  TextHash hash;
  hash.add(bytes(series.values));
  hash.add(bytes(split.role));
  hash.add(bytes(split.breaks));
  hash.add(fmt::format("{} {} {}", split.validation.first, split.validation.last, series.features));
  return hash.value();
}

/// Returns the candidate cycles, simple ones first.
std::vector<AnomalySpec> candidates(const AnomalySpec& form) {
  std::vector<AnomalySpec> all;
  for (const CycleKind kind : all_cycle_kinds)
    for (const Index harmonics :
         kind == CycleKind::day_of_year ? std::vector<Index>{1, 2, 3} : std::vector<Index>{1}) {
      AnomalySpec& spec = all.emplace_back(form);
      spec.cycle.kind = kind;
      spec.cycle.harmonics = harmonics;
    }
  return all;
}

}  // namespace

std::string CycleSearch::text_of(const AnomalySpec& spec) {
  std::string name(name_of(spec.cycle.kind));
  if (spec.cycle.kind == CycleKind::day_of_year) name += fmt::format(" ({} harmonics)", spec.cycle.harmonics);
  return spec.trend ? name + " and a linear trend" : name;
}

void CycleSearch::run(const AnomalySpec& form, bool trend, const Series& series, const Split& split,
                      std::span<const Split> deciding, Reducer& reducer, const ErrorOf& error_of) {
  const std::uint64_t input = input_of(series, split);
  std::vector<double> others{input_ == input ? 0.0 : 1.0};  // ranks with another input
  reducer.sum(std::span<double>(others));
  if (others[0] == 0) return;
  *this = {};
  for (const AnomalySpec& spec : candidates(form)) try_about(spec, deciding, error_of);
  if (trend) try_trend(deciding_split(split), split.validation.empty(), error_of);
  input_ = input;
}

/// Adds a linear trend if it helps after the training part. Between training steps, the trend would be known.
void CycleSearch::try_trend(const Split& behind, bool lent, const ErrorOf& error_of) {
  if (about.trend || behind.validation.first < behind.train.last) return;
  const std::span<const Split> deciding(&behind, 1);
  if (lent) {
    std::vector<OwnChoice> unused;
    best_ = error_of(about, deciding, unused);
  }
  AnomalySpec spec = about;
  spec.trend = true;
  try_about(spec, deciding, error_of);
}

/// Keeps `spec` if its error is clearly below the best one so far.
void CycleSearch::try_about(const AnomalySpec& spec, std::span<const Split> deciding,
                            const ErrorOf& error_of) {
  std::vector<OwnChoice> of_leads;
  double mean = 0;
  try {
    mean = error_of(spec, deciding, of_leads);
  } catch (const UserError&) {  // the axis has no such cycle, on all ranks
    if (tried.empty()) throw;
    return;
  }
  const bool first = tried.empty();
  tried += fmt::format("{}{} {:.4g}", first ? "" : ", ", text_of(spec), mean);
  if (!first && !(mean < (1 - margin) * best_)) return;
  best_ = mean;
  about = spec;
  choices = std::move(of_leads);
}

}  // namespace rossby
