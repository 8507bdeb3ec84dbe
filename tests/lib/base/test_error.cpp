#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/base/plain_text.hpp"

namespace rossby {
namespace {

TEST(Error, NearestNameFindsTheTypoAndNothingElse) {
  const std::vector<std::string> names{"train.epochs", "train.seed", "model.latent"};
  EXPECT_EQ(nearest_name("train.epoch", names), "train.epochs");
  EXPECT_EQ(nearest_name("trian.seed", names), "train.seed");
  EXPECT_EQ(nearest_name("zzzzzzzz", names), "");
}

TEST(Error, BugNamesItsPlace) {
  try {
    require(false, "shapes agree");
    FAIL() << "require(false) must throw";
  } catch (const BugError& error) {
    EXPECT_NE(std::string(error.what()).find("test_error.cpp"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("shapes agree"), std::string::npos);
  }
}

TEST(Error, MessagesOfUsersAreOneLineWhateverFilesHold) {
  const UserError error("units \"days\nsince\r\x1b[2J\x7f\" of é");
  EXPECT_EQ(std::string(error.what()), "units \"days since  [2J \" of é");
}

TEST(Error, PlainTextsLackTheCodesOfTheJsonLibrary) {
  EXPECT_EQ(plain_text(std::runtime_error("[json.exception.out_of_range.403] key 'x' not found")),
            "key 'x' not found");
  EXPECT_EQ(plain_text(std::runtime_error("line [3] is empty")), "line [3] is empty");
}

TEST(Error, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace rossby
