#include <filesystem>

#include <gtest/gtest.h>

#include "rossby/run/forecast_store.hpp"

namespace rossby {
namespace {

TEST(ForecastStore, HoldsTheSameInMemoryAndInAFile) {
  for (const Index most : {Index{1} << 20, Index{0}}) {
    ForecastStore store(std::filesystem::temp_directory_path().string(), 2, 3, 5, 7, most);
    EXPECT_EQ(store.in_file(), most == 0);
    float number = 0;
    for (Index slot = 0; slot < 2; ++slot) {
      for (Index h = 1; h <= 3; ++h)
        for (Index o = 0; o < 5; ++o)
          for (Index i = 0; i < 7; ++i) store.at(slot, h, o)[i] += ++number;
      store.forget_pages();
    }
    number = 0;
    for (Index slot = 0; slot < 2; ++slot)
      for (Index h = 1; h <= 3; ++h)
        for (Index o = 0; o < 5; ++o)
          for (Index i = 0; i < 7; ++i) ASSERT_EQ(store.at(slot, h, o)[i], ++number);
  }
}

TEST(ForecastStore, MayBeEmpty) {
  for (const Index most : {Index{1}, Index{0}}) {
    ForecastStore store(".", 2, 3, 5, 0, most);
    EXPECT_FALSE(store.in_file());
    store.forget_pages();
  }
}

}  // namespace
}  // namespace rossby
