// TOML text and, after a line "%%", --set settings, one per line → values of keys. The table has every key
// except those of models, which would link the kernels.
#include <cstdint>
#include <string>
#include <vector>

#include "rossby/data/settings.hpp"
#include "rossby/io/key_values.hpp"
#include "rossby/relation/settings.hpp"
#include "rossby/train/settings.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace rossby;

namespace {

struct ModelText {
  std::string name;
};

const KeyTable& keys() {
  static constexpr Key<ModelText> model[] = {
      key<&ModelText::name>("model.name", "\"stnn\"", "", "stands for the keys of models"),
  };
  static const KeyTable table = [] {
    KeyTable all;
    append(all, data_keys());
    append(all, split_keys());
    append(all, relation_keys());
    append(all, std::span<const Key<ModelText>>(model));
    append(all, window_keys());
    append(all, optimiser_keys());
    append(all, schedule_keys());
    append(all, train_keys());
    append(all, checkpoint_keys());
    append(all, validation_keys());
    append(all, evaluate_keys());
    append(all, parallel_keys());
    append(all, log_keys());
    return all;
  }();
  return table;
}

}  // namespace

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
    const KeyValues values = KeyValues::parse(keys(), toml, "input.toml", sets);
    const std::string written = values.to_toml();
    // The configuration in the run directory must read back unchanged.
    bool reads_back = false;
    std::string again, hash;
    fuzz::survives([&] {
      const KeyValues copy = KeyValues::parse(keys(), written, "written.toml", {});
      again = copy.to_toml();
      hash = copy.hash();
      reads_back = copy.differences(values).empty();
    });
    fuzz::check(reads_back, "a written configuration reads back without a difference");
    fuzz::check(again == written && hash == values.hash(), "a written configuration reads back as it was");
  });
  return 0;
}
