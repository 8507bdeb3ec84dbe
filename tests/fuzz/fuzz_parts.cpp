// A series in several files, and the entries that name them:
//
//     file NAME            begins a NetCDF file, which the next statements make (netcdf_maker.hpp)
//     text NAME LINE       a line of a text file; @ stands for the folder of all files and a slash
//     entry NAME...        entries of data.file, below that folder
//     use NAME...          variables
//     steps FIRST LAST [fill]
//     units FROM TO        a conversion
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rossby/io/inspect.hpp"
#include "rossby/io/series_header.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/io/units.hpp"
#include "tests/fuzz/memory_folder.hpp"
#include "tests/fuzz/netcdf_maker.hpp"
#include "tests/fuzz/use_series.hpp"

using namespace rossby;

namespace {

void convert(const std::string& from, const std::string& to) {
  const auto there = unit_conversion(from, to), back = unit_conversion(to, from);
  fuzz::check(there.has_value() == back.has_value(), "units convert both ways or not at all");
  if (!there) return;
  fuzz::check(!(there->factor <= 0), "a conversion keeps the order of values");
  const double value = (7 * there->factor + there->offset) * back->factor + back->offset;
  const bool sane =
      there->factor > 1e-200 && there->factor < 1e200 && std::abs(there->offset) < 1e6 * there->factor;
  if (sane) fuzz::check(std::abs(value - 7) < 1e-3, "a conversion is undone by the other");
}

/// The values of a part must be those of its file alone.
void compare(const SeriesFile& series, std::span<const std::string> variables) {
  const SeriesInfo& info = series.info();
  const SeriesPartInfo& last = info.parts.back();
  if (!last.conversions.empty() || info.first_step != 0 || !info.present.empty() || info.features > 100)
    return;
  const Index steps = std::min(info.steps - last.first, last.steps);
  if (steps <= 0 || steps > 1000) return;
  const SeriesFile alone = SeriesFile::open(last.path, variables);
  const std::vector<Index> node{info.file_nodes - 1};
  std::vector<float> a(static_cast<std::size_t>(steps * info.features)), b(a.size()), c(a.size());
  series.read_steps(node, last.first, steps, a.data());
  alone.read_steps(node, 0, steps, b.data());
  alone.read_steps(node, 0, steps, c.data());
  const auto same = [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); };
  // For bytes that were never written, the library returns whatever is in memory.
  if (!std::equal(b.begin(), b.end(), c.begin(), same)) return;
  fuzz::check(std::equal(a.begin(), a.end(), b.begin(), same), "parts have the values of their files");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto statements = fuzz::read_statements({reinterpret_cast<const char*>(data), size});
  const fuzz::MemoryFolder folder;
  std::map<std::string, std::vector<fuzz::Statement>> files;
  std::map<std::string, std::string> texts;
  std::vector<std::string> entries, wanted;
  std::string current;
  Index first = 0, last = -1;
  bool fill = false;
  for (const auto& s : statements) {
    const std::string& word = s.words[0];
    if (word == "file") {
      current = s.word(1);  // the library takes some names for addresses
      const auto odd = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.'; };
      std::replace_if(current.begin(), current.end(), odd, '_');
    } else if (word == "text") {
      std::string line = s.word(2);
      if (line.starts_with('@')) line = folder.path() + "/" + line.substr(1);
      texts[s.word(1)] += line + '\n';
    } else if (word == "entry") {
      for (std::size_t k = 1; k < s.words.size(); ++k)
        if (std::string path = folder.in(s.words[k]); !path.empty()) entries.push_back(std::move(path));
    } else if (word == "use") {
      wanted.assign(s.words.begin() + 1, s.words.end());
    } else if (word == "steps") {
      first = s.integer(1), last = s.integer(2), fill = s.word(3) == "fill";
    } else if (word == "units") {
      convert(s.word(1), s.word(2));
    } else if (!current.empty() && files.size() < 6) {
      files[current].push_back(s);
    }
  }
  for (const auto& [name, text] : texts) folder.put(name, text);
  for (const auto& [name, content] : files)
    if (const std::string path = folder.in(name);
        !path.empty() && path.find('/', folder.path().size() + 1) == std::string::npos)
      fuzz::make_netcdf(path, content);
  bool small = false;  // printing the values of a large series takes long
  std::vector<std::string> names;
  if (!fuzz::survives([&] { names = series_names(entries); }) || names.size() > 8) return 0;
  fuzz::survives([&] {
    const SeriesFile series = SeriesFile::open(entries, wanted, first, last, {}, fill);
    if (series.info().steps > 100'000) return;
    small = series.info().steps * series.info().file_nodes < 1'000'000;
    fuzz::use(series);
    fuzz::survives([&] { compare(series, wanted); });
  });
  for (const std::string& name : names)
    fuzz::survives([&] {
      const SeriesHeader header = SeriesHeader::read(name, wanted, {});
      const std::string packed = header.pack();
      fuzz::check(SeriesHeader::unpack(packed).pack() == packed, "a header travels as it is");
    });
  if (small) fuzz::survives([&] { (void)inspect_series(entries, wanted); });
  return 0;
}
