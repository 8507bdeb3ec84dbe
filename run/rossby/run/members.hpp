#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rossby/io/forecast_file.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/average_file.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Returns the origins from which all files have forecasts. Throws UserError that names the file if there are
/// none, or if a file has fewer than `horizons` leads. `remark` becomes a line if some origins are left out.
[[nodiscard]] std::vector<Index> origins_of_files(std::span<const ForecastFile* const> files,
                                                  const TimeAxis& time, std::vector<Index> origins,
                                                  Index horizons, std::string& remark);

/// Receives forecasts of some origins at once, (rows, origins of the group, features): of the origins from
/// number `first` on at horizon 1, 2, …, in original units less the domain's centers. Valid during the call.
using ForecastVisit = std::function<void(Index first, Index horizon, NodeView<const float> forecast)>;

/// Reads this rank's rows of a file's forecasts, one batch of origins after another. Collective.
void forecast_from_file(const Communicator& comm, const ForecastFile& file, const Domain& domain,
                        std::span<const Index> origins, Index horizons, const ForecastVisit& visit);

/// The forecasters of an average: runs, classical baselines and files, all with the same data and split. The
/// first run defines the data and how baselines are fitted. Only one member at a time takes memory.
class Members {
 public:
  /// Whether all members must have the same parts of the time axis.
  enum class Parts { same, any };
  /// Opens the members; runs stay locked while this object lives. `sets` and `device` as for open_run. Throws
  /// UserError if there is no run, or if a member cannot be opened. Collective.
  Members(const Communicator& comm, std::vector<AverageMember> members, std::span<const std::string> sets,
          const std::string& device, Parts parts = Parts::same);

  /// Lets others open the runs too, for a comparison of a run with an average that contains the run.
  void unlock() {
    for (auto& [member, run] : runs_) run.directory.reset();
  }

  [[nodiscard]] Index size() const { return std::ssize(members_); }
  [[nodiscard]] const AverageMember& operator[](Index member) const {
    return members_[static_cast<std::size_t>(member)];
  }
  [[nodiscard]] const std::vector<AverageMember>& all() const { return members_; }
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// Name of the first run.
  [[nodiscard]] const std::string& first_run() const { return (*this)[first_run_].name; }
  [[nodiscard]] const Config& config() const { return run(first_run_).config; }
  [[nodiscard]] const Domain& domain() const { return domain_; }
  [[nodiscard]] Reducer& reducer() { return reducer_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  /// Records the hashes of members (hash_of), which change if a member does. Rank 0 only.
  void hash();
  /// Returns the same members, but replaces each refit run (train.refit) by the run that chose its epochs,
  /// which has not seen the validation part.
  [[nodiscard]] std::vector<AverageMember> before_refit() const;
  /// Returns remarks from opening the members, one line each; rank 0 only.
  [[nodiscard]] std::string remarks() const;

  /// True if a run reads inputs that are known ahead.
  [[nodiscard]] bool read_ahead() const;
  /// Throws UserError that names the member if its data differ, or if its parts differ and must not.
  /// Collective.
  void expect_same_data();
  /// Throws UserError that names `name` if another forecaster, with this configuration and domain, has other
  /// data. Collective.
  void expect_same_data(const std::string& name, const Config& theirs, const Domain& other) const;
  /// Returns the origins in the test parts of all runs, after expect_same_data: no forecast from them reaches
  /// into another part of any run.
  [[nodiscard]] std::vector<Index> test_origins(Index horizons) const;
  /// Returns the steps to average if evaluate.horizons are asked for, at most the outputs of window models.
  /// Throws UserError that names a member that cannot forecast as many.
  [[nodiscard]] Index horizons() const;
  /// Returns the origins from which all members can forecast; `remark` becomes a line if files lack some.
  /// Throws UserError if there are none.
  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index horizons,
                                          std::string& remark) const;

  /// Inputs that runs read ahead of a forecast of the future (ModelRun::know_ahead).
  struct Ahead {
    Index origin = 0, steps = 0;
    std::string inputs;  // file; empty: the data
  };
  /// Forecasts with one member. Baselines are fitted for `fitted` horizons. Collective.
  void forecast(Index member, std::span<const Index> origins, Index horizons, Index fitted,
                const ForecastVisit& visit, const Ahead* ahead = nullptr);

  /// Throws UserError if a requested output file would overwrite an input of members. Rank 0 only.
  void expect_output(const std::string& asked) const;

 private:
  [[nodiscard]] const OpenRun& run(Index member) const { return runs_.at(member); }
  template <class T>
  void forecast_run(Index member, std::span<const Index> origins, Index horizons, const ForecastVisit& visit,
                    const Ahead* ahead);
  void forecast_baseline(const std::string& name, std::span<const Index> origins, Index horizons,
                         Index fitted, const ForecastVisit& visit);

  Communicator comm_;
  std::vector<AverageMember> members_;
  std::map<Index, OpenRun> runs_;        // by member
  std::map<Index, ForecastFile> files_;  // by member
  Index first_run_ = -1;
  Parts parts_;
  Domain domain_;
  std::map<Index, Split> splits_;  // by run, after expect_same_data
  MpiReducer reducer_;
  Exec exec_;
};

}  // namespace rossby
