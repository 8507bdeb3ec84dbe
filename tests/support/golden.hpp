#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <netcdf.h>

/// Reads one file of reference numbers: NetCDF-4 with groups, real numbers in double.
class Golden {
 public:
  explicit Golden(const std::string& path) : path_(path) { check(nc_open(path.c_str(), NC_NOWRITE, &file_)); }
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;
  ~Golden() { nc_close(file_); }

  /// True if the file has this array, for example "loss", "init/factors" or "step5/adam_v/factors".
  [[nodiscard]] bool has(const std::string& name) const {
    int group = 0, variable = 0;
    return find(name, group, variable);
  }
  [[nodiscard]] std::vector<double> array(const std::string& name) const {
    int group = 0, variable = 0;
    if (!find(name, group, variable)) throw std::runtime_error(path_ + " has no variable " + name);
    std::size_t size = 1;
    for (const std::size_t extent : shape_of(group, variable)) size *= extent;
    std::vector<double> values(size);
    check(nc_get_var_double(group, variable, values.data()));
    return values;
  }
  [[nodiscard]] std::vector<std::size_t> shape(const std::string& name) const {
    int group = 0, variable = 0;
    if (!find(name, group, variable)) throw std::runtime_error(path_ + " has no variable " + name);
    return shape_of(group, variable);
  }
  [[nodiscard]] double number(const char* attribute) const {
    double value = 0;
    check(nc_get_att_double(file_, NC_GLOBAL, attribute, &value));
    return value;
  }
  [[nodiscard]] long integer(const char* attribute) const { return static_cast<long>(number(attribute)); }
  [[nodiscard]] std::string text(const char* attribute) const {
    std::size_t length = 0;
    check(nc_inq_attlen(file_, NC_GLOBAL, attribute, &length));
    std::string value(length, '\0');
    check(nc_get_att_text(file_, NC_GLOBAL, attribute, value.data()));
    return value;
  }
  [[nodiscard]] std::vector<long> integers(const char* attribute) const {
    std::size_t length = 0;
    check(nc_inq_attlen(file_, NC_GLOBAL, attribute, &length));
    std::vector<long> values(length);
    check(nc_get_att_long(file_, NC_GLOBAL, attribute, values.data()));
    return values;
  }

  /// Returns the files of the folder ROSSBY_GOLDEN (or the default) whose names start with `prefix`. Omits
  /// statistics of whole trainings. Empty if the folder does not exist.
  static std::vector<std::string> files(const std::string& prefix) {
    const char* named = std::getenv("ROSSBY_GOLDEN");
    const std::filesystem::path folder = named ? named : ROSSBY_DEFAULT_GOLDEN;
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix) && name.ends_with(".nc") && name.find("_training") == std::string::npos)
        found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  void check(int status) const {
    if (status != NC_NOERR) throw std::runtime_error(path_ + ": " + nc_strerror(status));
  }
  bool find(const std::string& name, int& group, int& variable) const {
    group = file_;
    const std::size_t slash = name.rfind('/');
    if (slash != std::string::npos &&
        nc_inq_grp_full_ncid(file_, ("/" + name.substr(0, slash)).c_str(), &group) != NC_NOERR)
      return false;
    return nc_inq_varid(group, name.substr(slash == std::string::npos ? 0 : slash + 1).c_str(), &variable) ==
           NC_NOERR;
  }
  [[nodiscard]] std::vector<std::size_t> shape_of(int group, int variable) const {
    int rank = 0;
    check(nc_inq_varndims(group, variable, &rank));
    std::vector<int> ids(static_cast<std::size_t>(rank));
    check(nc_inq_vardimid(group, variable, ids.data()));
    std::vector<std::size_t> shape(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) check(nc_inq_dimlen(group, ids[i], &shape[i]));
    return shape;
  }

  std::string path_;
  int file_ = 0;
};
