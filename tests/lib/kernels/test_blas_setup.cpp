#include <cmath>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/kernels/isa.hpp"
#include "rossby/kernels/product.hpp"

extern "C" {
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace rossby {
namespace {

/// Makes OpenBLAS choose its kernels for the processor `core`, as at load time.
void take_for(const char* core) {
  ASSERT_EQ(::setenv("OPENBLAS_CORETYPE", core, 1), 0);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  ASSERT_EQ(::unsetenv("OPENBLAS_CORETYPE"), 0);
}

/// Largest error of a product whose sizes no tile divides.
double product_error() {
  const Index m = 67, n = 131, k = 83;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  const Random random(1, "blas");
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(random.uniform(i)) - 0.5F;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(random.uniform(a.size() + i)) - 0.5F;
  matrix_product<float>(Exec{}, {c.data(), m, n}, Operand::plain, {a.data(), m, k}, Operand::plain,
                        {b.data(), k, n}, false);
  double worst = 0;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index q = 0; q < k; ++q) sum += double{a[i * k + q]} * b[q * n + j];
      worst = std::max(worst, std::abs(sum - c[i * n + j]));
    }
  return worst;
}

TEST(BlasSetup, KernelsOfOldProcessorsAreReplaced) {
  const bool wide = supported(Isa::avx512), narrow = !wide && supported(Isa::avx2);
  for (const char* core : {"Prescott", "Nehalem", "Sandybridge"})
    EXPECT_EQ(wanted_blas_core(core), wide ? "SkylakeX" : narrow ? "Haswell" : core);
  for (const char* core : {"Haswell", "Zen"}) EXPECT_EQ(wanted_blas_core(core), wide ? "SkylakeX" : core);
  // Processors with the widest vectors, and unknown ones, stay as they are.
  for (const char* core : {"SkylakeX", "Cooperlake", "SapphireRapids", "unknown", "ZenNext", "neoversev1"})
    EXPECT_EQ(wanted_blas_core(core), core);
}

TEST(BlasSetup, AnOpenBlasThatDoesNotKnowTheProcessorIsToldAnother) {
  if (!gotoblas_dynamic_init || !gotoblas_dynamic_quit)
    GTEST_SKIP() << "not an OpenBLAS that chooses kernels at run time";
  if (!supported(Isa::avx2)) GTEST_SKIP() << "no processor that has more than Prescott";
  take_for("Prescott");
  ASSERT_EQ(blas_core(), "Prescott");
  set_up_blas();
  EXPECT_EQ(blas_core_found(), "Prescott");
  EXPECT_EQ(blas_core(), wanted_blas_core("Prescott"));
  EXPECT_LT(product_error(), 1e-5);
  EXPECT_EQ(std::getenv("OPENBLAS_CORETYPE"), nullptr);
  // An explicit request of the user stays.
  take_for("Nehalem");
  ASSERT_EQ(::setenv("OPENBLAS_CORETYPE", "Nehalem", 1), 0);
  set_up_blas();
  EXPECT_EQ(blas_core(), "Nehalem");
  EXPECT_STREQ(std::getenv("OPENBLAS_CORETYPE"), "Nehalem");
  EXPECT_LT(product_error(), 1e-5);
  ASSERT_EQ(::unsetenv("OPENBLAS_CORETYPE"), 0);
  set_up_blas();
  EXPECT_EQ(blas_core(), wanted_blas_core("Nehalem"));
}

}  // namespace
}  // namespace rossby
