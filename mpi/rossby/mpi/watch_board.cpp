#include "rossby/mpi/watch_board.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

namespace rossby {
namespace {

constexpr std::size_t slot_bytes = 256;
constexpr std::chrono::seconds moment{2};

/// Returns the result of `work`, which runs in another thread; nullopt if it does not finish within a moment.
template <class Work>
auto within_a_moment(Work work) -> std::optional<std::invoke_result_t<Work>> {
  try {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    std::thread(std::move(task)).detach();
    if (result.wait_for(moment) != std::future_status::ready) return std::nullopt;
    return result.get();
  } catch (const std::exception&) {  // no thread or no memory: the watch continues without
    return std::nullopt;
  }
}

std::string slot_text(const Sighting& sighting, std::uint64_t job) {
  // Tabs separate the fields. The texts come from this program and contain none.
  std::string text = fmt::format("{:016x}\t{}\t{}\t{:.1f}\t{}\t{}", job, sighting.moves, sighting.step,
                                 sighting.since, sighting.wait, sighting.stage);
  text.resize(slot_bytes - 1, ' ');
  return text + "\n";
}

template <class Number>
bool number(std::string_view text, Number& value, int base = 10) {
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<Number>)
    result = std::from_chars(text.data(), text.data() + text.size(), value);
  else
    result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

/// Parses a slot; nullopt if it is empty, damaged or from another job.
std::optional<Sighting> parse_slot(std::string_view slot, std::uint64_t job) {
  const std::size_t last = slot.find_last_not_of(" \n");
  if (last == std::string_view::npos) return std::nullopt;
  slot = slot.substr(0, last + 1);
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at <= slot.size();) {
    const std::size_t end = std::min(slot.find('\t', at), slot.size());
    fields.push_back(slot.substr(at, end - at));
    at = end + 1;
  }
  fields.resize(std::max<std::size_t>(fields.size(), 6));  // texts at the end may be empty
  Sighting sighting;
  std::uint64_t of_job = 0;
  if (!number(fields[0], of_job, 16) || of_job != job || !number(fields[1], sighting.moves) ||
      !number(fields[2], sighting.step) || !number(fields[3], sighting.since))
    return std::nullopt;
  sighting.wait = fields[4];
  sighting.stage = fields[5];
  return sighting;
}

std::optional<std::string> read_all(const std::string& path, std::size_t bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string text(bytes, ' ');
  std::size_t at = 0;
  ssize_t done = 0;
  while (at < bytes && (done = ::read(descriptor, text.data() + at, bytes - at)) > 0)
    at += static_cast<std::size_t>(done);
  close(descriptor);
  text.resize(at);
  return text;
}

bool write_slot(const std::string& path, const std::string& slot, off_t offset) {
  const int descriptor = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (descriptor < 0) return false;
  const ssize_t done = pwrite(descriptor, slot.data(), slot.size(), offset);
  // Close at once, because network file systems publish data on close.
  return close(descriptor) == 0 && done == static_cast<ssize_t>(slot.size());
}

}  // namespace

WatchBoard::WatchBoard(const std::string& folder, std::uint64_t job, int ranks)
    : path_(folder + "/.watchdog"), job_(job), ranks_(ranks) {}

bool WatchBoard::write(const Sighting& sighting) const {
  return within_a_moment([path = path_, slot = slot_text(sighting, job_),
                          offset = static_cast<off_t>(sighting.rank) * static_cast<off_t>(slot_bytes)] {
           return write_slot(path, slot, offset);
         })
      .value_or(false);
}

std::optional<std::vector<Sighting>> WatchBoard::read() const {
  const auto text = within_a_moment([path = path_, bytes = static_cast<std::size_t>(ranks_) * slot_bytes] {
                      return read_all(path, bytes);
                    }).value_or(std::nullopt);
  if (!text) return std::nullopt;
  std::vector<Sighting> found;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::size_t at = static_cast<std::size_t>(rank) * slot_bytes;
    if (at >= text->size()) break;
    auto sighting = parse_slot(std::string_view(*text).substr(at, slot_bytes), job_);
    if (!sighting) continue;
    sighting->rank = rank;
    found.push_back(std::move(*sighting));
  }
  return found;
}

void WatchBoard::remove() const {
  (void)within_a_moment([path = path_] { return unlink(path.c_str()); });
}

}  // namespace rossby
