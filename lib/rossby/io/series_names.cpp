#include "rossby/io/series_names.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"

namespace rossby {
namespace {

constexpr std::size_t longest_list = std::size_t{1} << 26;

bool is_there(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> names;
  if (result == 0) names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result != 0 && result != GLOB_NOMATCH)
    user_error("{}: cannot look for the files of this pattern: {}. Check the folder and the permissions",
               pattern, result == GLOB_NOSPACE ? "out of memory" : std::strerror(errno));
  if (names.empty()) user_error("{}: no file matches this pattern. Correct data.file", pattern);
  return names;
}

/// Adds the files of an entry that is no text file.
void add_entry(const std::string& entry, std::vector<std::string>& names) {
  if (entry.empty()) user_error("data.file has an empty name in its list. Remove this name");
  if (entry.find_first_of("*?[") == std::string::npos || is_there(entry)) {
    names.push_back(entry);
    return;
  }
  for (std::string& name : files_of_pattern(entry)) names.push_back(std::move(name));
}

void add_list(const std::string& list, std::vector<std::string>& names) {
  std::istringstream text(read_text(list, longest_list));
  const std::size_t before = names.size();
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const std::string entry = line.find('\0') == std::string::npos ? clean_text(line) : "";
    if (line.find('\0') != std::string::npos)
      user_error("{}:{}: the line is not text. Write a list of files with one path per line (data.file)",
                 list, number);
    if (entry.empty() || entry.starts_with('#')) continue;
    const auto folder = std::filesystem::path(list).parent_path();
    if (entry.find_first_of("*?[") == std::string::npos && !is_there(entry)) {
      const std::string beside = (folder / entry).string();
      user_error("{}:{}: {}: no such file{}. Correct this line of the list", list, number, entry,
                 !folder.empty() && is_there(beside)
                     ? fmt::format("; {} exists, but relative paths start at the working directory", beside)
                     : "");
    }
    add_entry(entry, names);
  }
  if (names.size() == before)
    user_error("{}: the list names no file. Write one path per line (data.file)", list);
}

/// Refuses a file named twice, which its times alone would not reveal.
void refuse_twins(const std::vector<std::string>& names) {
  std::map<std::pair<dev_t, ino_t>, const std::string*> seen;
  for (const std::string& name : names) {
    struct stat status {};
    if (::stat(name.c_str(), &status) != 0) continue;  // opening it reports why
    const auto [place, is_new] = seen.emplace(std::pair(status.st_dev, status.st_ino), &name);
    if (is_new) continue;
    if (*place->second == name)
      user_error("{}: the file is named twice in data.file. Name each file once", name);
    user_error("{} and {} are the same file. Name each file once in data.file", *place->second, name);
  }
}

}  // namespace

std::vector<std::string> series_names(std::span<const std::string> entries) {
  std::vector<std::string> names;
  for (const std::string& entry : entries)
    entry.ends_with(".txt") && is_there(entry) ? add_list(entry, names) : add_entry(entry, names);
  if (names.size() > 1) refuse_twins(names);
  for (const std::string& name : names)  // names are written into the run's configuration
    if (names.size() > 1 && utf8_text(name) != name)
      user_error("{}: the name of this file is not valid UTF-8. Rename the file", utf8_text(name));
  return names;
}

}  // namespace rossby
