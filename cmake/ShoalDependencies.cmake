# Finds all libraries, or stops with one clear message.  Each becomes an imported target, which carries its include
# paths and flags.
include(FeatureSummary)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)

set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS C)

# The serial build of HDF5: the MPI build is not thread-safe, and both prefetch and trace use HDF5.
pkg_check_modules(SHOAL_HDF5 IMPORTED_TARGET hdf5-serial)
if(NOT SHOAL_HDF5_FOUND)
  pkg_check_modules(SHOAL_HDF5 REQUIRED IMPORTED_TARGET hdf5)
endif()
if(SHOAL_HDF5_VERSION VERSION_LESS 1.10.5)
  message(FATAL_ERROR "HDF5 ${SHOAL_HDF5_VERSION} is too old: Shoal needs 1.10.5 or later")
endif()
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::SHOAL_HDF5)
check_c_source_compiles("#include <hdf5.h>
#ifndef H5_HAVE_THREADSAFE
#error
#endif
int main(void) { return 0; }" SHOAL_HDF5_THREADSAFE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT SHOAL_HDF5_THREADSAFE)
  message(FATAL_ERROR "this HDF5 is not thread-safe: install the serial build of your distribution (Debian: libhdf5-dev) "
                      "or build HDF5 with --enable-threadsafe")
endif()

pkg_check_modules(SHOAL_HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.4)
pkg_check_modules(SHOAL_FYAML REQUIRED IMPORTED_TARGET libfyaml)
pkg_check_modules(SHOAL_JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(SHOAL_XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(SHOAL_LAPACKE IMPORTED_TARGET lapacke)
if(NOT SHOAL_LAPACKE_FOUND)
  pkg_check_modules(SHOAL_LAPACKE REQUIRED IMPORTED_TARGET openblas) # which has LAPACKE in it, on most clusters
endif()
pkg_check_modules(SHOAL_PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(SHOAL_JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(SHOAL_ZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(SHOAL_PMIX IMPORTED_TARGET pmix)
add_feature_info(pmix SHOAL_PMIX_FOUND "checks the world against PMIx before MPI starts")

# Not by oneDNN's CMake package: Debian's requires OpenCL, which is not needed here.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN was not found: install it (Debian: libdnnl-dev) or set DNNL_INCLUDE_DIR and DNNL_LIBRARY")
endif()
add_library(DNNL::dnnl UNKNOWN IMPORTED)
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                            INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
