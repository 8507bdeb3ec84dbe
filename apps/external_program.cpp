#include "apps/external_program.hpp"

#include <cstdlib>

namespace rossby {

std::string program_named(const char* variable, const std::string& usual) {
  const char* named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : usual;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace rossby
