// A Zarr store → Series. The contents of its files:
//
//     put FILE TEXT                      .zgroup, .zarray, .zattrs, .zmetadata, or a raw chunk
//     ramp FILE CODEC TYPE FIRST STEP COUNT    a chunk of float, double, short, int or long, compressed
//     poke FILE AT BYTE                  changes a byte of the file
//     use NAME...                        variables
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/inspect.hpp"
#include "tests/fuzz/memory_folder.hpp"
#include "tests/fuzz/statements.hpp"
#include "tests/fuzz/use_series.hpp"
#include "tests/lib/io/zarr_maker.hpp"

using namespace rossby;

namespace {

template <class T>
std::string ramp(double first, double step, std::int64_t count) {
  std::string bytes;
  for (std::int64_t k = 0; k < std::clamp<std::int64_t>(count, 0, 1 << 16); ++k) {
    const double x = first + step * static_cast<double>(k);
    const T value = std::is_floating_point_v<T> || (x > -1e4 && x < 1e4) ? static_cast<T>(x) : T{};
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

std::string chunk(const fuzz::Statement& s) {
  const std::string& type = s.word(3);
  const double first = s.real(4), step = s.real(5);
  const std::int64_t count = s.integer(6);
  const std::string bytes = type == "double"  ? ramp<double>(first, step, count)
                            : type == "short" ? ramp<std::int16_t>(first, step, count)
                            : type == "int"   ? ramp<std::int32_t>(first, step, count)
                            : type == "long"  ? ramp<std::int64_t>(first, step, count)
                                              : ramp<float>(first, step, count);
  return testing_support::compressed(s.word(2), bytes, 4);
}

void poke(const std::string& path, std::int64_t at, std::int64_t byte) {
  if (path.empty() || at < 0 || at > 1 << 20) return;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file.put(static_cast<char>(byte & 0xff));
}

void look_at_all(const std::string& path) {
  const auto file = ArrayFile::open(path);
  for (const NetcdfVariable& variable : file->variables()) {
    fuzz::survives([&] { file->check_claim(variable); });
    if (variable.size() < 1 << 16) fuzz::survives([&] { (void)file->read_names(variable); });
    for (const char* name : {"_FillValue", "scale_factor", "valid_range"})
      (void)file->numbers(variable, name);
    (void)file->bits_of_other_sign(variable);
  }
  for (const std::string& line : file->unreadable()) fuzz::check_message(line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto statements = fuzz::read_statements({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFolder folder;
  std::vector<std::string> wanted;
  for (std::size_t k = 0; k < std::min<std::size_t>(statements.size(), 64); ++k) {
    const fuzz::Statement& s = statements[k];
    if (s.words[0] == "put") folder.put(s.word(1), s.word(2));
    if (s.words[0] == "ramp") folder.put(s.word(1), chunk(s));
    if (s.words[0] == "poke") poke(folder.in(s.word(1)), s.integer(2), s.integer(3));
    if (s.words[0] == "use") wanted.assign(s.words.begin() + 1, s.words.end());
  }
  std::vector<std::string> names;
  fuzz::survives([&] { look_at_all(folder.path()); });
  fuzz::survives([&] { names = SeriesFile::candidates(folder.path()); });
  if (names.size() > 4) names.resize(4);
  for (const std::string& name : names)
    fuzz::survives([&] { fuzz::use(SeriesFile::open(folder.path(), std::vector{name})); });
  fuzz::survives([&] { fuzz::use(SeriesFile::open(folder.path(), wanted)); });
  fuzz::survives([&] { (void)inspect_series(folder.path(), wanted); });
  return 0;
}
