#include "rossby/base/profile.hpp"

namespace rossby {

Profiler::Region::Region(Profiler* profiler, std::size_t entry) : profiler_(profiler), entry_(entry) {}

Profiler::Region::~Region() {
  if (entry_ >= profiler_->entries_.size()) return;  // cleared while the region was open
  Entry& entry = profiler_->entries_[entry_];
  entry.seconds += since_.seconds();
  ++entry.calls;
}

Profiler::Region Profiler::region(std::string_view name) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].name == name) return {this, i};
  entries_.push_back({std::string(name), 0, 0});
  return {this, entries_.size() - 1};
}

}  // namespace rossby
