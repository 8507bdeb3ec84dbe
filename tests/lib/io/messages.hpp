#pragma once

#include <string>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"

namespace rossby::testing_support {

/// Returns the message of the UserError that `call` throws. Fails if there is none or the message has several
/// lines; the message is empty if there is none.
template <class Call>
std::string user_message(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << "a message is one line: " << message;
    return message;
  }
  ADD_FAILURE() << "no UserError was thrown";
  return "";
}

}  // namespace rossby::testing_support

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
