#include "tests/fuzz/netcdf_maker.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <netcdf.h>

#include "tests/fuzz/fuzz.hpp"

namespace rossby::fuzz {
namespace {

/// Largest number of values that one statement writes, and that a contiguous variable has.
constexpr std::size_t most_written = 4096, most_contiguous = std::size_t{1} << 20;

int format_of(const std::vector<Statement>& statements) {
  int mode = NC_NETCDF4;
  for (const Statement& s : statements) {
    if (s.words[0] != "kind") continue;
    if (s.word(1) == "classic") mode = 0;
    if (s.word(1) == "offset64") mode = NC_64BIT_OFFSET;
    if (s.word(1) == "cdf5") mode = NC_64BIT_DATA;
  }
  return mode;
}

nc_type type_named(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, nc_type>, 12> types{{{"byte", NC_BYTE},
                                                                        {"char", NC_CHAR},
                                                                        {"short", NC_SHORT},
                                                                        {"int", NC_INT},
                                                                        {"float", NC_FLOAT},
                                                                        {"double", NC_DOUBLE},
                                                                        {"ubyte", NC_UBYTE},
                                                                        {"ushort", NC_USHORT},
                                                                        {"uint", NC_UINT},
                                                                        {"int64", NC_INT64},
                                                                        {"uint64", NC_UINT64},
                                                                        {"string", NC_STRING}}};
  for (const auto& [known, type] : types)
    if (name == known) return type;
  return NC_NAT;
}

/// Product of a variable's lengths, saturated.
std::size_t size_of(int file, int variable) {
  int rank = 0, ids[NC_MAX_VAR_DIMS];
  nc_inq_varndims(file, variable, &rank);
  nc_inq_vardimid(file, variable, ids);
  std::size_t size = 1;
  for (int d = 0; d < rank; ++d) {
    std::size_t length = 0;
    nc_inq_dimlen(file, ids[d], &length);
    if (__builtin_mul_overflow(size, length, &size)) return ~std::size_t{0};
  }
  return size;
}

void define_variable(int file, const Statement& s, bool netcdf4) {
  std::vector<int> ids;
  for (std::size_t i = 3; i < s.words.size() && ids.size() < 8; ++i) {
    int id = -1;
    if (nc_inq_dimid(file, s.word(i).c_str(), &id) != NC_NOERR) return;
    ids.push_back(id);
  }
  int variable = -1;
  if (nc_def_var(file, s.word(1).c_str(), type_named(s.word(2)), static_cast<int>(ids.size()), ids.data(),
                 &variable) != NC_NOERR)
    return;
  if (netcdf4 && size_of(file, variable) > most_contiguous) {
    // In a contiguous variable, writing one value would allocate the whole variable.
    const std::vector<std::size_t> lengths(ids.size(), 16);
    nc_def_var_chunking(file, variable, NC_CHUNKED, lengths.data());
  }
}

void define_chunks(int file, int variable, const Statement& s) {
  int rank = 0;
  nc_inq_varndims(file, variable, &rank);
  std::vector<std::size_t> lengths;
  std::size_t size = 1;
  for (int d = 0; d < rank; ++d) {
    lengths.push_back(static_cast<std::size_t>(
        std::clamp<std::int64_t>(s.integer(2 + static_cast<std::size_t>(d)), 1, 1 << 16)));
    size *= std::min<std::size_t>(lengths.back(), most_contiguous);
    if (size > most_contiguous) return;
  }
  if (rank > 0) nc_def_var_chunking(file, variable, NC_CHUNKED, lengths.data());
}

void put_attribute(int file, int variable, const Statement& s) {
  const nc_type type = type_named(s.word(3));
  if (type == NC_CHAR) {
    nc_put_att_text(file, variable, s.word(2).c_str(), s.word(4).size(), s.word(4).data());
  } else if (type == NC_STRING) {
    std::vector<const char*> texts;
    for (std::size_t i = 4; i < s.words.size(); ++i) texts.push_back(s.word(i).c_str());
    nc_put_att_string(file, variable, s.word(2).c_str(), texts.size(), texts.data());
  } else {
    std::vector<double> values;
    for (std::size_t i = 4; i < s.words.size(); ++i) values.push_back(s.real(i));
    nc_put_att_double(file, variable, s.word(2).c_str(), type, values.size(), values.data());
  }
}

void put_data(int file, int variable, const Statement& s) {
  std::vector<double> values;
  if (s.words[0] == "ramp") {
    const auto count = std::clamp<std::int64_t>(s.integer(4), 0, most_written);
    for (std::int64_t i = 0; i < count; ++i) values.push_back(s.real(2) + static_cast<double>(i) * s.real(3));
  } else {
    for (std::size_t i = 2; i < s.words.size(); ++i) values.push_back(s.real(i));
  }
  int rank = 0, ids[NC_MAX_VAR_DIMS], unlimited = -1;
  nc_inq_varndims(file, variable, &rank);
  nc_inq_vardimid(file, variable, ids);
  nc_inq_unlimdim(file, &unlimited);
  // Writes whole lines along the last dimension, one after another, until the values end.
  std::vector<std::size_t> start(static_cast<std::size_t>(rank), 0), count(start.size(), 1),
      length(start.size(), 0);
  for (std::size_t d = 0; d < start.size(); ++d) {
    nc_inq_dimlen(file, ids[d], &length[d]);
    if (ids[d] == unlimited) length[d] = d == 0 ? 256 : std::min<std::size_t>(length[d], 256);
  }
  std::size_t at = 0;
  for (int lines = 0; at < values.size() && lines < 1024; ++lines) {
    std::size_t take = 1;
    if (rank > 0) take = std::min(length.back(), values.size() - at);
    if (take == 0) return;
    if (rank > 0) count.back() = take;
    nc_put_vara_double(file, variable, start.data(), count.data(), values.data() + at);
    at += take;
    std::size_t d = start.size() < 2 ? 0 : start.size() - 1;
    while (d > 0 && ++start[d - 1] >= length[d - 1]) start[--d] = 0;
    if (d == 0) return;  // the variable is full
  }
}

void put_texts(int file, int variable, const Statement& s) {
  int rank = 0, ids[NC_MAX_VAR_DIMS];
  nc_type type = NC_NAT;
  nc_inq_varndims(file, variable, &rank);
  nc_inq_vardimid(file, variable, ids);
  nc_inq_vartype(file, variable, &type);
  if (rank != (type == NC_CHAR ? 2 : 1) || (type != NC_CHAR && type != NC_STRING)) return;
  std::size_t width = 1;
  if (type == NC_CHAR) nc_inq_dimlen(file, ids[1], &width);
  for (std::size_t i = 2; i < s.words.size(); ++i) {
    const std::size_t start[] = {i - 2, 0};
    std::size_t count[] = {1, width};
    std::string line = s.word(i);
    const char* text = line.c_str();
    if (type == NC_STRING) nc_put_var1_string(file, variable, start, &text);
    if (width > 4096) return;
    line.resize(width, ' ');
    if (type == NC_CHAR) nc_put_vara_text(file, variable, start, count, line.data());
  }
}

}  // namespace

void make_netcdf(const std::string& path, const std::vector<Statement>& statements) {
  const int mode = format_of(statements);
  const bool netcdf4 = mode == NC_NETCDF4;
  int file = -1, before = 0;
  check(nc_create(path.c_str(), mode | NC_CLOBBER, &file) == NC_NOERR, "the library makes a file");
  nc_set_fill(file, NC_NOFILL, &before);
  for (const Statement& s : statements) {
    const std::string& kind = s.words[0];
    int id = -1;
    if (kind == "dim") {
      const bool unlimited = s.word(2) == "unlimited";
      nc_def_dim(file, s.word(1).c_str(),
                 unlimited ? NC_UNLIMITED : static_cast<std::size_t>(std::max<std::int64_t>(1, s.integer(2))),
                 &id);
    }
    if (kind == "var") define_variable(file, s, netcdf4);
    if (kind == "att" && s.word(1) == "-") put_attribute(file, NC_GLOBAL, s);
    if (nc_inq_varid(file, s.word(1).c_str(), &id) != NC_NOERR) continue;
    if (kind == "chunk" && netcdf4) define_chunks(file, id, s);
    if (kind == "deflate" && netcdf4) nc_def_var_deflate(file, id, 1, 1, 1);
    if (kind == "att") put_attribute(file, id, s);
  }
  nc_enddef(file);
  for (const Statement& s : statements) {
    int id = -1;
    if ((s.words[0] == "data" || s.words[0] == "ramp") &&
        nc_inq_varid(file, s.word(1).c_str(), &id) == NC_NOERR)
      put_data(file, id, s);
    if (s.words[0] == "texts" && nc_inq_varid(file, s.word(1).c_str(), &id) == NC_NOERR)
      put_texts(file, id, s);
  }
  nc_close(file);
}

}  // namespace rossby::fuzz
