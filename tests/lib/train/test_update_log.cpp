#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/user_error.hpp"
#include "rossby/train/update_log.hpp"

// Recordings of asynchronous updates: files are read as written, and damage is reported.

namespace rossby {
namespace {

UpdateLeg small_leg(Index first, Index last) {
  UpdateLeg leg;
  leg.first = first;
  leg.last = last;
  leg.group_batches = {9, 300};
  leg.events = {{{0, first, first}, {3, first, first + 1}, {4, first + 1, -1}, {8, first + 2, last - 1}},
                {{299, first, first}}};
  return leg;
}
std::string packed(const UpdateLeg& leg) {
  return pack_leg(leg, {pack_events(leg.events[0], leg.first), pack_events(leg.events[1], leg.first)});
}

TEST(UpdateLog, KeepsEvents) {
  const std::string text =
      first_line_of_log("{\"a\":1}") + packed(small_leg(5, 1000)) + packed(small_leg(1000, 1004));
  const UpdateLog log = UpdateLog::parse(text, "log");
  EXPECT_EQ(log.head, "{\"a\":1}");
  EXPECT_EQ(log.legs, (std::vector<UpdateLeg>{small_leg(5, 1000), small_leg(1000, 1004)}));
  EXPECT_TRUE(UpdateLog::parse(first_line_of_log(""), "log").legs.empty());
}

TEST(UpdateLog, ATrainingThatWasResumedReplacesWhatCameAfterItsCheckpoint) {
  const std::string text = first_line_of_log("") + packed(small_leg(0, 10)) + packed(small_leg(10, 20)) +
                           packed(small_leg(20, 30)) + packed(small_leg(10, 15));
  EXPECT_EQ(UpdateLog::parse(text, "log").legs,
            (std::vector<UpdateLeg>{small_leg(0, 10), small_leg(10, 15)}));
  const std::string gap = first_line_of_log("") + packed(small_leg(0, 10)) + packed(small_leg(12, 20));
  EXPECT_THROW((void)UpdateLog::parse(gap, "log"), UserError);
}

TEST(UpdateLog, IsCutOffOrRefusedWhereItIsDamaged) {
  const std::string first = first_line_of_log("{}") + packed(small_leg(0, 10)),
                    text = first + packed(small_leg(10, 20));
  for (std::size_t size = 0; size < text.size(); ++size) {
    SCOPED_TRACE(size);
    try {
      EXPECT_EQ(UpdateLog::parse(text.substr(0, size), "log").legs.size(), size < first.size() ? 0U : 1U);
    } catch (const UserError&) {
      EXPECT_LT(size, first_line_of_log("{}").size()) << "only the last leg is left out";
    }
  }
  for (std::size_t at = first.size(); at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 4);
    try {
      EXPECT_LT(UpdateLog::parse(other, "log").legs.size(), 2U) << "byte " << at;
    } catch (const UserError&) {  // it says so
    }
  }
}

}  // namespace
}  // namespace rossby
