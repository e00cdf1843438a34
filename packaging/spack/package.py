# A package of Spack 1.0 or later.  In a repository of your own:
#
#   spack repo create ~/spack-packages mine
#   mkdir ~/spack-packages/spack_repo/mine/packages/shoal && cp package.py ~/spack-packages/spack_repo/mine/packages/shoal/
#   spack repo add ~/spack-packages/spack_repo/mine
#   spack dev-build --source-path CHECKOUT shoal@0.1.0
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Shoal(CMakePackage):
    """Training of neural networks across slow interconnects, as Slurm batch jobs."""

    version("0.1.0")
    variant("cuda", default=False, description="The CUDA backend")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    conflicts("^openmpi@:3")
    depends_on("hdf5@1.10.5: ~mpi +threadsafe")  # the MPI build of HDF5 is not thread-safe
    depends_on("hwloc@2.4:")
    depends_on("pmix")
    depends_on("onednn@2.6:")
    depends_on("lapack")
    requires("^openblas", "^netlib-lapack+lapacke", policy="any_of", msg="LAPACKE is needed")
    depends_on("libfyaml")
    depends_on("jansson")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")
    depends_on("libpng")
    depends_on("libjpeg-turbo")
    depends_on("libzip")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")

    def cmake_args(self):
        onednn = self.spec["onednn"].prefix
        return [
            self.define("SHOAL_TESTS", False),
            self.define("SHOAL_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("DNNL_INCLUDE_DIR", onednn.include),
            self.define("CMAKE_PREFIX_PATH", onednn),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(self.prefix.bin.shoal)("--version")
