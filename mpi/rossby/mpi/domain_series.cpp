#include <algorithm>
#include <cstddef>

#include "rossby/base/user_error.hpp"
#include "rossby/io/raw_value.hpp"
#include "rossby/io/series_header.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/inputs.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/watchdog.hpp"

// The files of a series: their names, headers that ranks share, and values.

namespace rossby {
namespace {

/// Headers of all files, each read by one rank.
std::vector<SeriesHeader> share_headers(const Communicator& comm, const std::vector<std::string>& variables,
                                        const std::vector<std::string>& names,
                                        std::optional<double> null_value) {
  const RowPartition shares = RowPartition::blocks(static_cast<Index>(names.size()), comm.size());
  const Index first = shares.begin(comm.rank());
  const std::string mine = agree(comm, [&] {
    std::string packed;
    for (Index k = first; k < first + shares.size(comm.rank()); ++k)
      packed += SeriesHeader::read(names[static_cast<std::size_t>(k)], variables, null_value).pack() + '\n';
    return packed;
  });
  std::vector<std::byte> letter(mine.size());
  if (!mine.empty()) std::memcpy(letter.data(), mine.data(), mine.size());
  std::vector<SeriesHeader> headers;
  MpiMailbox mailbox(comm);
  for (const auto& received : mailbox.swap(std::vector(static_cast<std::size_t>(comm.size()), letter))) {
    std::string_view packed(reinterpret_cast<const char*>(received.data()), received.size());
    for (; !packed.empty(); packed.remove_prefix(packed.find('\n') + 1))
      headers.push_back(SeriesHeader::unpack(packed.substr(0, packed.find('\n'))));
  }
  return headers;
}

/// Reopens the series of the run, whose header was read with the domain.
SeriesFile reopen_series(const Config& config, const Domain& domain) {
  return SeriesFile::reopen(domain.info, parse_null_value(config.data.null_value), domain.files);
}

}  // namespace

std::vector<std::string> series_names(const Communicator& comm, const Config& config) {
  const auto& paths = config.data.file.paths;
  const auto names = agree(comm, [&] {
    if (paths.empty())
      user_error("data.file is not set. Name a NetCDF file, for example --set data.file=series.nc");
    return comm.rank() == 0 ? rossby::series_names(paths) : std::vector<std::string>();
  });
  std::string packed;
  for (const std::string& name : names) packed += name + '\0';
  packed = broadcast(comm, std::move(packed));
  std::vector<std::string> all;
  for (std::size_t at = 0; at < packed.size(); at += all.back().size() + 1) all.emplace_back(&packed[at]);
  return all;
}

Config with_series_names(const Communicator& comm, const Config& config) {
  if (config.data.file.empty()) return config;
  const std::vector<std::string> names = series_names(comm, config);
  if (names == config.data.file.paths) return config;
  const std::string setting = "data.file=" + detail::quoted(names);
  return config.with({&setting, 1});
}

SeriesFile open_series(const Communicator& comm, const Config& config) {
  const std::optional<double> null_value =
      agree(comm, [&] { return parse_null_value(config.data.null_value); });
  return open_variables(comm, config, agree(comm, [&] { return forecast_variables(config); }), null_value);
}

SeriesFile open_variables(const Communicator& comm, const Config& config,
                          const std::vector<std::string>& variables, std::optional<double> null_value) {
  const std::vector<std::string> names = series_names(comm, config);
  std::vector<SeriesHeader> headers;
  if (names.size() > 1) headers = share_headers(comm, variables, names, null_value);
  return agree(comm, [&] {
    SeriesFile file = SeriesFile::join(names, std::move(headers), variables, config.data.first_step,
                                       config.data.last_step, null_value, config.data.fill_steps);
    file.begin_with(config.data.earlier);
    return file;
  });
}

void read_steps(const Communicator& comm, const Config& config, const Domain& domain,
                std::span<const Index> steps, std::span<float> out) {
  const Stage stage(comm, "reading the series", patience_with_files);
  agree(comm, [&] {
    const SeriesFile file = reopen_series(config, domain);
    std::vector<Index> nodes;
    for (const GlobalRow row : domain.rows)
      nodes.push_back(domain.file_node[static_cast<std::size_t>(row.value)]);
    const std::size_t width = nodes.size() * static_cast<std::size_t>(domain.info.features);
    require(out.size() == steps.size() * width, "room for the steps that are read");
    const std::vector<double> centers = centers_of_rows(domain);
    for (std::size_t first = 0; first < steps.size();) {
      std::size_t last = first + 1;
      while (last < steps.size() && steps[last] == steps[last - 1] + 1) ++last;
      file.read_steps(nodes, steps[first], static_cast<Index>(last - first), out.data() + first * width,
                      centers);
      first = last;
    }
  });
}

Series read_series(const Communicator& comm, const Config& config, const Domain& domain) {
  const Stage stage(comm, "reading the series", patience_with_files);
  return agree(comm, [&] {
    const SeriesFile file = reopen_series(config, domain);
    Series series(domain.info.steps, static_cast<Index>(domain.rows.size()), domain.info.features);
    std::vector<Index> nodes;
    for (const GlobalRow row : domain.rows)
      nodes.push_back(domain.file_node[static_cast<std::size_t>(row.value)]);
    file.read(nodes, series.values.data(), centers_of_rows(domain));
    return series;
  });
}

}  // namespace rossby
