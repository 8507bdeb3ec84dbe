#include "rossby/run/average_run.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby {
namespace {

/// Reads the average on all ranks. Rank 0 checks that its members are there and unchanged.
Average average_of(const Communicator& comm, const std::string& directory) {
  const Average average = agree(comm, [&] { return read_average(directory); });
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    for (const AverageMember& member : average.members) {
      if (std::error_code code;
          member.kind != AverageMember::Kind::baseline && !std::filesystem::exists(member.name, code))
        user_error(
            "{}: member {} is missing. Restore this member, or make the average again with 'rossby average'",
            average_file_of(directory), member.name);
      if (hash_of(member) != member.hash)
        user_error(
            "{}: {} was {} after the average was made, so that the weights no longer fit. Make the average "
            "again with 'rossby average'",
            average_file_of(directory), member.name,
            member.kind == AverageMember::Kind::run ? "trained again" : "written again");
    }
  });
  return average;
}

}  // namespace

bool averages(const Communicator& comm, const std::string& directory) {
  return !broadcast(comm, comm.rank() == 0 && is_average(directory) ? "average" : "").empty();
}

AverageRun::AverageRun(const Communicator& comm, const std::string& directory,
                       std::span<const std::string> sets, const std::string& device,
                       const std::string& output)
    : directory_(directory),
      output_(output),
      average_(average_of(comm, directory)),
      members_(comm, average_.members, sets, device) {}

std::string AverageRun::text() const {
  std::string names;
  for (const AverageMember& member : average_.members) names += (names.empty() ? "" : ", ") + member.name;
  return fmt::format("average ({}) of {}", average_.weighting, names);
}

std::string AverageRun::remarks() const {
  return members_.remarks() + text() + "\n";
}

std::vector<Index> AverageRun::usable(std::vector<Index> origins, Index horizons) {
  if (horizons > this->horizons())
    user_error("{} horizons are too many: {} has weights for {} steps. Lower evaluate.horizons or --steps",
               horizons, average_file_of(directory_), this->horizons());
  return members_.usable(std::move(origins), horizons, remark_);
}

void AverageRun::add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons, Index as) {
  const Communicator& comm = members_.comm();
  const Index rows = std::ssize(domain().rows), m = domain().info.features, count = std::ssize(origins);
  const std::filesystem::path written = std::filesystem::path(output_).parent_path();
  const std::string folder = output_.empty() ? directory_ : written.empty() ? "." : written.string();
  made_.reset();
  const Index slots = 2 + (keeps_members_ ? members_.size() : 0);
  made_.emplace(agree(comm, [&] { return ForecastStore(folder, slots, horizons, count, rows * m); }));
  made_from_.assign(origins.begin(), origins.end());
  made_horizons_ = horizons;
  ForecastStore& sum = *made_;
  for (Index k = 0; k < members_.size(); ++k) {
    Index needed = horizons;  // the largest lead at which the member has a weight
    while (needed > 0 && weight(needed, k) == 0) --needed;
    if (needed == 0) continue;
    members_.forecast(k, origins, needed, this->horizons(),
                      [&](Index first, Index h, NodeView<const float> x) {
                        const auto w = static_cast<float>(weight(h, k));
                        if (w == 0) return;
                        float before = 0;  // sum of the weights of earlier members
                        for (Index j = 0; j < k; ++j) before += static_cast<float>(weight(h, j));
                        for (Index b = 0; b < x.cols; ++b) {
                          float *to = sum.at(0, h, first + b), *square = sum.at(1, h, first + b);
                          float* own = keeps_members_ ? sum.at(2 + k, h, first + b) : nullptr;
                          for (Index i = 0; i < x.rows; ++i)
                            for (Index f = 0; f < m; ++f) {
                              const float value = x.at(i, b)[f];
                              // West (1979): updates as members come, so that large values do not cancel.
                              const float mean = before > 0 ? *to / before : 0, off = value - mean;
                              *square++ += w * before / (before + w) * off * off;
                              *to++ += w * value;
                              if (own) *own++ = value;
                            }
                        }
                      });
    sum.forget_pages();
  }
  variances_.assign(static_cast<std::size_t>(2 * horizons), 0);
  for (Index h = 1; h <= horizons; ++h)
    for (Index k = 0; k < count * rows * m; ++k) {
      variances_[static_cast<std::size_t>(2 * h - 2)] += static_cast<double>(sum.at(1, h, 0)[k]);
      variances_[static_cast<std::size_t>(2 * h - 1)] += 1;
    }
  truth_ = read_series(comm, config(), domain());
  for (Index h = 1; h <= horizons; ++h)
    errors.add<float>(as, h, {sum.at(0, h, 0), rows, count, m, m, rows * m}, truth_, origins);
  if (keeps_members_) return;
  made_.reset();
  truth_ = {};
}

std::vector<double> AverageRun::dressing(const ConformalQuantiles& quantiles) {
  DressingFit fit(quantiles);
  visit_members([&](const MemberValues& values) { fit.add(values); });
  return fit.reduce(reducer());
}

void AverageRun::visit_members(const std::function<void(const MemberValues&)>& visit) {
  require(keeps_members_ && made_, "members are kept before they are looked at");
  std::vector<const float*> forecasts;
  std::vector<double> weights;
  for (Index h = 1; h <= made_horizons_; ++h)
    for (Index o = 0; o < std::ssize(made_from_); ++o) {
      forecasts.clear();
      weights.clear();
      for (Index k = 0; k < members_.size(); ++k) {
        if (weight(h, k) == 0) continue;
        forecasts.push_back(made_->at(2 + k, h, o));
        weights.push_back(weight(h, k));
      }
      visit({h, std::ssize(domain().rows), forecasts, weights, made_->at(0, h, o),
             truth_.at(made_from_[static_cast<std::size_t>(o)] + h)});
    }
}

std::vector<double> AverageRun::spread() {
  std::vector<double> sums = variances_, spread;
  reducer().sum(std::span<double>(sums));
  for (std::size_t k = 0; k < sums.size(); k += 2) spread.push_back(std::sqrt(sums[k] / sums[k + 1]));
  return spread;
}

std::string AverageRun::output(const std::string& usual) const {
  if (output_.empty()) {
    if (::access(directory_.c_str(), W_OK) != 0)
      user_error("{}: you cannot write into this directory: {}. Name a file with --output", directory_,
                 std::strerror(errno));
    return directory_ + "/" + usual;
  }
  members_.expect_output(output_);
  refuse_to_replace(output_, {average_file_of(directory_)});
  return output_;
}

}  // namespace rossby
