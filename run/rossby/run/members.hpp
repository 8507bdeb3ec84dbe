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

/// Those of `origins` that all files have forecasts from. Throws UserError naming the file if there is none,
/// or if one has fewer than `horizons` leads. `remark` becomes a line if some are left out.
[[nodiscard]] std::vector<Index> origins_of_files(std::span<const ForecastFile* const> files,
                                                  const TimeAxis& time, std::vector<Index> origins,
                                                  Index horizons, std::string& remark);

/// Forecasts of some origins at once, (rows, origins of the group, features): those from number `first` on at
/// horizon 1, 2, …, in original units less the domain's centers. Valid during the call.
using ForecastVisit = std::function<void(Index first, Index horizon, NodeView<const float> forecast)>;

/// Forecasts of a file for this rank's rows, a batch of origins after the other. Collective.
void forecast_from_file(const Communicator& comm, const ForecastFile& file, const Domain& domain,
                        std::span<const Index> origins, Index horizons, const ForecastVisit& visit);

/// The forecasters that an average is made of: runs, classical baselines and files, all of the same data with
/// the same split. The first run says which data these are, and how baselines are fitted. One member at a
/// time takes memory.
class Members {
 public:
  /// Whether all have to have the same parts of the time axis.
  enum class Parts { same, any };
  /// Opens them; runs stay locked while this lives. `sets` and `device` as for open_run. Throws UserError if
  /// there is no run among them, or one of them cannot be opened. Collective.
  Members(const Communicator& comm, std::vector<AverageMember> members, std::span<const std::string> sets,
          const std::string& device, Parts parts = Parts::same);

  /// Lets others open the runs, too: of a comparison in which a run takes part by itself and in an average.
  void unlock() {
    for (auto& [member, run] : runs_) run.directory.reset();
  }

  [[nodiscard]] Index size() const { return std::ssize(members_); }
  [[nodiscard]] const AverageMember& operator[](Index member) const {
    return members_[static_cast<std::size_t>(member)];
  }
  [[nodiscard]] const std::vector<AverageMember>& all() const { return members_; }
  [[nodiscard]] const Communicator& comm() const { return comm_; }
  /// Of the first run.
  [[nodiscard]] const std::string& first_run() const { return (*this)[first_run_].name; }
  [[nodiscard]] const Config& config() const { return run(first_run_).config; }
  [[nodiscard]] const Domain& domain() const { return domain_; }
  [[nodiscard]] Reducer& reducer() { return reducer_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  /// Notes what changes if a member does (hash_of). Rank 0's.
  void hash();
  /// The same members, but of each run that was refit (train.refit) the one that chose its epochs, which
  /// knows nothing of the validation part.
  [[nodiscard]] std::vector<AverageMember> before_refit() const;
  /// What openings have to say, a line each; rank 0's.
  [[nodiscard]] std::string remarks() const;

  /// Whether a run reads inputs that are known ahead.
  [[nodiscard]] bool read_ahead() const;
  /// Throws UserError naming the member if one forecasts other data, or in other parts than it may.
  /// Collective.
  void expect_same_data();
  /// Throws UserError naming `name` if another forecaster, of this configuration and domain, does.
  /// Collective.
  void expect_same_data(const std::string& name, const Config& theirs, const Domain& other) const;
  /// Origins of the test parts of all runs, after expect_same_data: those from which no forecast reaches into
  /// another part of one of them.
  [[nodiscard]] std::vector<Index> test_origins(Index horizons) const;
  /// Steps that are averaged if evaluate.horizons are asked for: no more than models of windows put out.
  /// Throws UserError naming the member that cannot forecast so many.
  [[nodiscard]] Index horizons() const;
  /// Those of the origins from which all members can forecast; `remark` becomes a line if files lack some.
  /// Throws UserError if there is none.
  [[nodiscard]] std::vector<Index> usable(std::vector<Index> origins, Index horizons,
                                          std::string& remark) const;

  /// What runs read ahead of a forecast of the future (ModelRun::know_ahead).
  struct Ahead {
    Index origin = 0, steps = 0;
    std::string inputs;  // file; empty: the data
  };
  /// Forecasts of one member. Baselines are fitted for `fitted` horizons. Collective.
  void forecast(Index member, std::span<const Index> origins, Index horizons, Index fitted,
                const ForecastVisit& visit, const Ahead* ahead = nullptr);

  /// Throws UserError where a file that is asked for would replace what members read. Rank 0's.
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
  std::map<Index, ForecastFile> files_;  // likewise
  Index first_run_ = -1;
  Parts parts_;
  Domain domain_;
  std::map<Index, Split> splits_;  // of runs, after expect_same_data
  MpiReducer reducer_;
  Exec exec_;
};

}  // namespace rossby
