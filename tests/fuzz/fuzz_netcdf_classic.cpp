// Raw bytes → the check of classic headers (CDF-1, -2, -5). The reader of the NetCDF library is not called:
// its handling of damaged headers is not under test.
#include <cstdint>

#include "rossby/io/netcdf_classic.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/memory_file.hpp"

using namespace rossby;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile file({reinterpret_cast<const char*>(data), size});
  fuzz::survives([&] { check_classic_size(file.path()); });
  return 0;
}
