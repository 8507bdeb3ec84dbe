#pragma once

#include <gtest/gtest.h>
#include <netcdf.h>

namespace rossby::testing_support {

/// Expects that a call of the NetCDF library succeeded.
inline void ok(int status) {
  ASSERT_EQ(status, NC_NOERR) << nc_strerror(status);
}

}  // namespace rossby::testing_support
