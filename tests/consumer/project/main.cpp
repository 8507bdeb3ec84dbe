#include <cstdio>
#include <string>

#include "rossby/base/random.hpp"
#include "rossby/train/config.hpp"

// Uses a header, a compiled function and a table of the installed libraries.
int main() {
  const rossby::Random random(7, "consumer");
  const double value = random.uniform(0);
  const auto keys = rossby::config_keys();
  std::printf("%zu keys, first %s, value %.3f\n", keys.size(), std::string(keys[0].name).c_str(), value);
  return !keys.empty() && value >= 0 && value < 1 ? 0 : 1;
}
