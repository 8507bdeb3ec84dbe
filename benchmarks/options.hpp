#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/isa.hpp"

namespace rossby::bench {

/// Command line words "--name=value" or "--name value", and "--name" alone. Unknown words stay in `rest`.
class Arguments {
 public:
  Arguments(int count, char** words) : words_(words, words + count) {}

  /// Removes an option with a value from the words; returns `otherwise` if it is missing.
  std::string text(std::string_view name, std::string otherwise) {
    const std::string flag = "--" + std::string(name);
    for (std::size_t i = 1; i < words_.size(); ++i) {
      if (words_[i].starts_with(flag + "=")) {
        otherwise = words_[i].substr(flag.size() + 1);
        words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i--));
      } else if (words_[i] == flag) {
        if (i + 1 >= words_.size()) user_error("{} needs a value", flag);
        otherwise = words_[i + 1];
        words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i),
                     words_.begin() + static_cast<std::ptrdiff_t>(i) + 2);
        --i;
      }
    }
    return otherwise;
  }

  int number(std::string_view name, int otherwise) {
    const std::string value = text(name, std::to_string(otherwise));
    char* end = nullptr;
    const long parsed = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != 0 || parsed < 0 || parsed > 1'000'000)
      user_error("--{} = \"{}\" must be a number of 0 or more", name, value);
    return static_cast<int>(parsed);
  }

  double real(std::string_view name, double otherwise) {
    const std::string value = text(name, "");
    if (value.empty()) return otherwise;
    char* end = nullptr;
    const double parsed = std::strtod(value.c_str(), &end);
    if (*end != 0 || !(parsed >= 0)) user_error("--{} = \"{}\" must be a number of 0 or more", name, value);
    return parsed;
  }

  bool flag(std::string_view name) {
    for (std::size_t i = 1; i < words_.size(); ++i)
      if (words_[i] == "--" + std::string(name)) {
        words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
    return false;
  }

  std::vector<std::string>& rest() { return words_; }

 private:
  std::vector<std::string> words_;
};

/// Returns the comma-separated parts of a text.
inline std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    list.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return list;
}

/// Returns the named instruction sets; "widest" and "all" are names, too. Throws UserError if one is missing
/// here.
inline std::vector<Isa> isas_named(const std::string& text) {
  if (text == "widest") return {widest_isa()};
  if (text == "all") return supported_isas();
  std::vector<Isa> list;
  for (const std::string& name : parts(text)) {
    bool found = false;
    for (const Isa isa : supported_isas())
      if (to_string(isa) == name) {
        list.push_back(isa);
        found = true;
      }
    if (!found)
      user_error("--isa = \"{}\": this build or processor has no such set; widest and all always work", name);
  }
  return list;
}

}  // namespace rossby::bench
