#include "rossby/train/update_log.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <utility>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"

namespace rossby {
namespace {

constexpr std::string_view mark = "rossby updates 1 ";
constexpr std::size_t checksum_bytes = 8;

void put(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>(value % 128 + 128));
  bytes.push_back(static_cast<char>(value));
}
void put(std::string& bytes, Index value) {
  put(bytes, static_cast<std::uint64_t>(value));
}

std::uint64_t checksum(std::string_view bytes) {
  TextHash hash;
  hash.add(bytes);
  return hash.value();
}

/// Reads numbers from the front and never reads past the end.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  [[nodiscard]] bool ended() const { return bytes_.empty(); }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  Index number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      if (bytes_.empty()) damaged();
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte % 128U} << shift;
      if (byte < 128) return static_cast<Index>(value & 0x7FFFFFFFFFFFFFFFULL);
    }
    damaged();
  }
  /// Reads a count of items that take at least a byte each.
  std::size_t count() {
    const auto n = static_cast<std::size_t>(number());
    if (n > bytes_.size()) damaged();
    return n;
  }
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) damaged();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void damaged() const {
    user_error("{}: this recording is damaged. Record the training again with rossby train --record FILE",
               path_);
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
};

std::vector<UpdateEvent> unpack_events(Reader reader, Index first) {
  std::vector<UpdateEvent> events;
  Index batch = -1, update = first;
  while (!reader.ended()) {
    batch += 1 + reader.number();
    const Index taken = reader.number();
    if (taken == 0) {
      events.push_back({batch, first + reader.number(), -1});
      continue;
    }
    update += taken - 1;
    const Index staleness = reader.number();
    if (staleness > update - first) reader.damaged();
    events.push_back({batch, update - staleness, update});
  }
  return events;
}

UpdateLeg unpack_leg(Reader reader) {
  UpdateLeg leg;
  leg.epoch = reader.number();
  leg.first = reader.number();
  leg.last = leg.first + reader.number();
  const std::size_t groups = reader.count();
  for (std::size_t g = 0; g < groups; ++g) leg.group_batches.push_back(reader.number());
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t size = reader.count();
    leg.events.push_back(unpack_events(Reader(reader.take(size), reader.path()), leg.first));
    for (const UpdateEvent& event : leg.events.back())
      if (event.update >= leg.last || event.version > leg.last || event.batch >= leg.group_batches[g])
        reader.damaged();
  }
  if (!reader.ended()) reader.damaged();
  return leg;
}

}  // namespace

std::string pack_events(const std::vector<UpdateEvent>& events, Index first) {
  std::string bytes;
  Index batch = -1, update = first;
  for (const UpdateEvent& event : events) {
    put(bytes, event.batch - std::exchange(batch, event.batch) - 1);
    if (event.update < 0) {
      put(bytes, Index{0});
      put(bytes, event.version - first);
      continue;
    }
    put(bytes, event.update - std::exchange(update, event.update) + 1);
    put(bytes, event.update - event.version);
  }
  return bytes;
}

bool is_update_log(const std::string& path) {
  std::string begin(mark.size(), ' ');
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == mark;
}

std::string first_line_of_log(const std::string& head) {
  return std::string(mark) + head + "\n";
}

std::string pack_leg(const UpdateLeg& leg, const std::vector<std::string>& packed) {
  std::string bytes;
  for (const Index value : {leg.epoch, leg.first, leg.last - leg.first, std::ssize(packed)})
    put(bytes, value);
  for (const Index done : leg.group_batches) put(bytes, done);
  for (const std::string& events : packed) {
    put(bytes, std::ssize(events));
    bytes += events;
  }
  std::string whole;
  put(whole, std::ssize(bytes));
  whole += bytes;
  const std::uint64_t sum = checksum(bytes);
  for (std::size_t i = 0; i < checksum_bytes; ++i) whole.push_back(static_cast<char>(sum >> (8 * i) & 255));
  return whole;
}

UpdateLog UpdateLog::parse(std::string_view bytes, const std::string& path) {
  const std::size_t end = bytes.find('\n');
  if (!bytes.starts_with(mark) || end == std::string_view::npos)
    user_error("{}: not a recording of a training. Write one with rossby train --record FILE", path);
  UpdateLog log;
  log.head = bytes.substr(mark.size(), end - mark.size());
  Reader reader(bytes.substr(end + 1), path);
  while (!reader.ended()) {
    const auto size = static_cast<std::size_t>(reader.number());
    if (reader.left() < checksum_bytes || size > reader.left() - checksum_bytes) break;  // the leg is cut off
    const std::string_view leg = reader.take(size), sum = reader.take(checksum_bytes);
    std::uint64_t written = 0;
    for (std::size_t i = 0; i < checksum_bytes; ++i)
      written |= std::uint64_t{static_cast<unsigned char>(sum[i])} << (8 * i);
    if (written != checksum(leg)) reader.damaged();
    UpdateLeg next = unpack_leg(Reader(leg, path));
    std::erase_if(log.legs, [&](const UpdateLeg& earlier) {
      return earlier.epoch > next.epoch || earlier.first > next.first ||
             (earlier.first == next.first && earlier.last > next.first);
    });
    if (!log.legs.empty() && log.legs.back().last != next.first)
      user_error(
          "{}: updates {} to {} are missing, because the training went on without --record. Record the "
          "training again with rossby train --record FILE",
          path, log.legs.back().last, next.first);
    log.legs.push_back(std::move(next));
  }
  return log;
}

UpdateLog UpdateLog::read(const std::string& path) {
  return parse(read_text(path), path);
}

}  // namespace rossby
