#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/stopwatch.hpp"

namespace rossby {

/// Wall-clock time by named region. One object a rank, handed down by reference; regions nest, and a region's
/// time includes that of the regions inside it.
class Profiler {
 public:
  struct Entry {
    std::string name;
    double seconds = 0;
    std::int64_t calls = 0;
  };

  /// Ends its region when it goes out of scope.
  class Region {
   public:
    Region(Profiler* profiler, std::size_t entry);
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region();

   private:
    Profiler* profiler_;
    std::size_t entry_;
    Stopwatch since_;
  };

  /// Starts a region; the name is copied at its first use.
  [[nodiscard]] Region region(std::string_view name);

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  void clear() { entries_.clear(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace rossby
