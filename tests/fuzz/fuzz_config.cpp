// TOML text and, behind a line "%%", --set settings, one a line → Config.
#include <cstdint>
#include <string>
#include <vector>

#include "rossby/train/config.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace rossby;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view toml(reinterpret_cast<const char*>(data), size), rest;
  if (const auto mark = toml.find("%%\n"); mark != std::string_view::npos) {
    rest = toml.substr(mark + 3);
    toml = toml.substr(0, mark);
  }
  std::vector<std::string> sets;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    sets.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::survives([&] {
    const Config config = Config::parse(toml, "input.toml", sets);
    const std::string written = config.to_toml();
    // What is written into the run directory has to read back as what it was.
    bool reads_back = false;
    std::string again, hash;
    fuzz::survives([&] {
      const Config copy = Config::parse(written, "written.toml", {});
      again = copy.to_toml();
      hash = copy.hash();
      reads_back = copy.differences(config).empty();
    });
    fuzz::check(reads_back, "a written configuration reads back without a difference");
    fuzz::check(again == written && hash == config.hash(), "a written configuration reads back as it was");
  });
  return 0;
}
