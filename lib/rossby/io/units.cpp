#include "rossby/io/units.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <string>

namespace rossby {
namespace {

/// factor · Π symbol^power; a scale with an offset (temperatures) cannot be part of a product.
struct Unit {
  double factor = 1, offset = 0;
  std::map<std::string, int, std::less<>> powers = {};
};

struct Known {
  std::string_view name;
  double factor;
  std::string_view symbols;  // "kg m -1 s -2": a symbol has power 1 unless a number follows
  bool prefixed = false;     // accepts SI prefixes
  double offset = 0;
};

constexpr Known known[] = {
    {"m", 1, "m", true},
    {"meter", 1, "m", true},
    {"metre", 1, "m", true},
    {"g", 1e-3, "kg", true},
    {"gram", 1e-3, "kg", true},
    {"s", 1, "s", true},
    {"sec", 1, "s"},
    {"second", 1, "s", true},
    {"min", 60, "s"},
    {"minute", 60, "s"},
    {"h", 3600, "s"},
    {"hr", 3600, "s"},
    {"hour", 3600, "s"},
    {"d", 86400, "s"},
    {"day", 86400, "s"},
    {"K", 1, "K", true},
    {"kelvin", 1, "K"},
    {"Kelvin", 1, "K"},
    {"degK", 1, "K"},
    {"deg_K", 1, "K"},
    {"degree_K", 1, "K"},
    {"degree_Kelvin", 1, "K"},
    {"C", 1, "K", false, 273.15},
    {"degC", 1, "K", false, 273.15},
    {"deg_C", 1, "K", false, 273.15},
    {"degree_C", 1, "K", false, 273.15},
    {"degree_celsius", 1, "K", false, 273.15},
    {"degree_Celsius", 1, "K", false, 273.15},
    {"celsius", 1, "K", false, 273.15},
    {"Celsius", 1, "K", false, 273.15},
    {"\xC2\xB0"
     "C",
     1, "K", false, 273.15},
    {"degF", 5.0 / 9, "K", false, 459.67 * 5 / 9},
    {"Fahrenheit", 5.0 / 9, "K", false, 459.67 * 5 / 9},
    {"Pa", 1, "kg m -1 s -2", true},
    {"pascal", 1, "kg m -1 s -2", true},
    {"bar", 1e5, "kg m -1 s -2", true},
    {"atm", 101325, "kg m -1 s -2"},
    {"N", 1, "kg m s -2", true},
    {"J", 1, "kg m 2 s -2", true},
    {"W", 1, "kg m 2 s -3", true},
    {"Wh", 3600, "kg m 2 s -2", true},
    {"Hz", 1, "s -1", true},
    {"A", 1, "A", true},
    {"V", 1, "kg m 2 s -3 A -1", true},
    {"mol", 1, "mol", true},
    {"L", 1e-3, "m 3", true},
    {"l", 1e-3, "m 3", true},
    {"liter", 1e-3, "m 3"},
    {"litre", 1e-3, "m 3"},
    {"ft", 0.3048, "m"},
    {"foot", 0.3048, "m"},
    {"inch", 0.0254, "m"},
    {"mile", 1609.344, "m"},
    {"mph", 1609.344 / 3600, "m s -1"},
    {"knot", 1852.0 / 3600, "m s -1"},
    {"kt", 1852.0 / 3600, "m s -1"},
    {"%", 0.01, ""},
    {"percent", 0.01, ""},
    {"fraction", 1, ""},
    {"ppm", 1e-6, ""},
    {"ppb", 1e-9, ""},
};

struct Prefix {
  std::string_view name;
  double factor;
};
constexpr Prefix prefixes[] = {{"milli", 1e-3}, {"micro", 1e-6}, {"nano", 1e-9},     {"centi", 1e-2},
                               {"hecto", 100},  {"kilo", 1e3},   {"mega", 1e6},      {"giga", 1e9},
                               {"n", 1e-9},     {"u", 1e-6},     {"\xC2\xB5", 1e-6}, {"\xCE\xBC", 1e-6},
                               {"m", 1e-3},     {"c", 1e-2},     {"d", 0.1},         {"h", 100},
                               {"k", 1e3},      {"M", 1e6},      {"G", 1e9}};

void multiply(Unit& unit, std::string_view symbols, int power) {
  std::string symbol;
  while (!symbols.empty()) {
    const auto space = symbols.find(' ');
    const std::string_view word = symbols.substr(0, space);
    symbols = space == std::string_view::npos ? "" : symbols.substr(space + 1);
    if (std::isalpha(static_cast<unsigned char>(word.front())) != 0) {
      symbol = word;
      unit.powers[symbol] += power;
      continue;
    }
    int given = 0;
    std::from_chars(word.data(), word.data() + word.size(), given);
    unit.powers[symbol] += (given - 1) * power;
  }
}

const Known* find(std::string_view name) {
  for (const Known& one : known)
    if (one.name == name) return &one;
  // "meters", "hours", "degrees_C"
  const std::string text(name);
  const auto degrees = text.find("degrees_");
  if (degrees == 0) return find("degree_" + text.substr(8));
  return name.size() > 3 && name.ends_with('s') ? find(name.substr(0, name.size() - 1)) : nullptr;
}

void multiply_by_word(Unit& unit, std::string_view word, int power) {
  double factor = 1;
  const Known* found = find(word);
  if (found == nullptr)
    for (const Prefix& prefix : prefixes) {
      if (!word.starts_with(prefix.name)) continue;
      found = find(word.substr(prefix.name.size()));
      if (found != nullptr && !found->prefixed) found = nullptr;
      factor = prefix.factor;
      if (found != nullptr) break;
    }
  if (found == nullptr) {  // vehicles, individuals: a unit of its own
    unit.powers[std::string(word)] += power;
    return;
  }
  unit.factor *= std::pow(factor * found->factor, power);
  unit.offset += found->offset;
  multiply(unit, found->symbols, power);
}

/// Reads the power after a word: "m2", "m^2", "m**-2", "s-1". Moves `text` past it; none if it is no number.
std::optional<int> take_power(std::string_view& text) {
  if (text.starts_with("**")) text.remove_prefix(2);
  if (text.starts_with('^')) text.remove_prefix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int power = 1;
  if (text.empty() || (text.front() != '-' && std::isdigit(static_cast<unsigned char>(text.front())) == 0))
    return power;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), power);
  if (error != std::errc() || std::abs(power) > 9) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return power;
}

bool is_word_end(char c) {
  return c == ' ' || c == '*' || c == '.' || c == '/' || c == '^' || c == '-' || c == '+' ||
         std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::optional<Unit> parse(std::string_view text) {
  Unit unit;
  int words = 0, sign = 1;
  while (!text.empty()) {
    const char c = text.front();
    if (c == '/') sign = -1;
    if (c == ' ' || c == '*' || c == '.' || c == '/') {
      text.remove_prefix(1);
      continue;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      double number = 1;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || !(number > 0) || !std::isfinite(number)) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      const auto power = take_power(text);
      if (!power) return std::nullopt;
      unit.factor *= std::pow(number, sign * *power);
    } else {
      std::size_t length = 0;
      while (length < text.size() && !is_word_end(text[length])) ++length;
      if (length == 0) return std::nullopt;
      const std::string_view word = text.substr(0, length);
      text.remove_prefix(length);
      const auto power =
          text.starts_with("*") && !text.starts_with("**") ? std::optional(1) : take_power(text);
      if (!power) return std::nullopt;
      multiply_by_word(unit, word, sign * *power);
      if (unit.offset != 0 && sign * *power != 1) unit.offset = 0;  // per degree: a difference
    }
    sign = 1;
    ++words;
  }
  if (words == 0 || !(unit.factor > 0) || !std::isfinite(unit.factor)) return std::nullopt;
  if (words > 1) unit.offset = 0;
  std::erase_if(unit.powers, [](const auto& power) { return power.second == 0; });
  return unit;
}

}  // namespace

std::optional<UnitConversion> unit_conversion(std::string_view from, std::string_view to) {
  if (from == to) return UnitConversion{};
  const auto a = parse(from), b = parse(to);
  if (!a || !b || a->powers != b->powers) return std::nullopt;
  return UnitConversion{a->factor / b->factor, (a->offset - b->offset) / b->factor};
}

}  // namespace rossby
