#include "rossby/run/base_forecast.hpp"

#include <algorithm>

#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/run_baselines.hpp"

namespace rossby {
namespace {

constexpr Index origins_at_once = 4096;

}  // namespace

BaseFit make_base_forecasts(const Communicator& comm, const Config& config, const Domain& domain, int threads,
                            const BaseOrigins& origins,
                            const std::function<void(const BaseForecast&)>& take) {
  const Index leads = config.window.outputs, rows = std::ssize(domain.rows), m = domain.info.features;
  Series series = read_series(comm, config, domain);
  TimeAxis axis = domain.info.time;
  Split split = domain.split;
  agree(comm, [&] {
    const Index end = origins.others.empty() ? 0 : origins.others.back() + leads + 1;
    if (end > axis.size()) continue_by(end - axis.size(), axis, split, series);
  });
  const KspSolver solver(comm);
  MpiReducer reducer(comm);
  BaselineSettings settings = baseline_settings(config, domain, leads, threads, solver);
  settings.median = true;  // a model of transformed values corrects their median
  const auto baseline = config.model.base_forecast == "direct_ar" ? make_direct_ar(settings, axis)
                                                                  : make_direct_ridge(settings, axis);
  std::vector<float> values(static_cast<std::size_t>(rows * m));
  const auto forecast = [&](std::span<const Index> from, bool of_training) {
    for (std::size_t first = 0; first < from.size(); first += origins_at_once) {
      const auto some = from.subspan(first, std::min<std::size_t>(origins_at_once, from.size() - first));
      baseline->forecast(series, some, leads, reducer, [&](Index h, NodeView<const float> x) {
        for (Index b = 0; b < x.cols; ++b) {
          for (Index i = 0; i < rows; ++i) std::copy_n(x.at(i, b), m, values.data() + i * m);
          const Index origin = some[static_cast<std::size_t>(b)];
          take({of_training, origin, h, values.data(), series.at(origin + h)});
        }
      });
    }
  };
  if (config.model.base_chosen.empty())
    baseline->fit(series, split, reducer);
  else
    baseline->fit_as(config.model.base_chosen, series, split, reducer);
  forecast(origins.others, false);
  forecast(origins.training, true);
  return {baseline->chosen(), baseline->remark()};
}

}  // namespace rossby
