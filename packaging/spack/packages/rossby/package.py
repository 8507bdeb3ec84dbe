# Rossby for Spack. There is no public archive yet: `spack dev-build rossby@0.2.0` builds the source tree that it is
# started in (docs/howto/install_cluster.md).
from spack.package import *


class Rossby(CMakePackage, CudaPackage):
    """Trains spatio-temporal forecasters on clusters. Every MPI rank owns a block of nodes."""

    license("Apache-2.0")
    version("0.2.0")

    variant("openmp", default=True, description="Use OpenMP threads inside a rank")
    variant("report", default=True, description="Draw pages of runs (matplotlib)")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-matplotlib", type="run", when="+report")
    depends_on("py-netcdf4", type="run", when="+report")

    depends_on("mpi@3:")
    depends_on("petsc+mpi+ptscotch~int64~complex")
    depends_on("scotch+mpi")
    depends_on("hdf5+mpi")
    depends_on("netcdf-c")
    depends_on("c-blosc")
    depends_on("lz4")
    depends_on("zstd")
    depends_on("zlib-api")
    depends_on("blas")
    depends_on("lapack")
    depends_on("cli11")
    depends_on("fmt")
    depends_on("tomlplusplus")
    depends_on("nlohmann-json")
    depends_on("nccl", when="+cuda")

    def cmake_args(self):
        return [
            self.define("ROSSBY_BUILD_TESTS", False),
            self.define_from_variant("ROSSBY_WITH_OPENMP", "openmp"),
            self.define("ROSSBY_WITH_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
        ]
