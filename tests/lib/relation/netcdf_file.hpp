#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <netcdf.h>

#include "rossby/base/index.hpp"

namespace rossby::test {

/// The folder that an environment variable names, or `otherwise`; empty if it does not exist.
inline std::string folder(const char* variable, const std::string& otherwise) {
  const char* named = std::getenv(variable);
  const std::string path = named ? named : otherwise;
  return std::filesystem::is_directory(path) ? path : std::string{};
}

/// A minimal NetCDF reader that reads whole variables as double, independent of the reader under test.
class NetcdfFile {
 public:
  explicit NetcdfFile(const std::string& path) { check(nc_open(path.c_str(), NC_NOWRITE, &id_), path); }
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile() { nc_close(id_); }

  [[nodiscard]] Index dimension(const std::string& name) const {
    int dimension = 0;
    std::size_t length = 0;
    check(nc_inq_dimid(id_, name.c_str(), &dimension), name);
    check(nc_inq_dimlen(id_, dimension, &length), name);
    return static_cast<Index>(length);
  }

  [[nodiscard]] std::vector<double> read(const std::string& name, Index count) const {
    int variable = 0;
    check(nc_inq_varid(id_, name.c_str(), &variable), name);
    std::vector<double> values(static_cast<std::size_t>(count));
    check(nc_get_var_double(id_, variable, values.data()), name);
    return values;
  }

 private:
  static void check(int status, const std::string& what) {
    if (status != NC_NOERR) throw std::runtime_error(what + ": " + nc_strerror(status));
  }
  int id_ = 0;
};

}  // namespace rossby::test
