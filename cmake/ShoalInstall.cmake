# `cmake --install BUILD --prefix DIR` installs the program, the manual, completions, the Python package that `shoal report` runs, the
# documentation with run files and batch scripts to copy, and a modulefile for MODULEPATH.  `cmake --build BUILD --target uninstall`
# removes what the last installation from BUILD wrote.
#
# Everything finds its parts from where it lies, so the tree can be moved; only the modulefile names the prefix.
install(TARGETS shoal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# documents lie as in the source tree, so that their links work
install(FILES README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs jobs packaging DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES checkpoints/README.md checkpoints/format.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/checkpoints)
install(FILES src/read/shoalread.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/src/read)
install(FILES analysis/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/analysis)
install(DIRECTORY analysis/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal/analysis PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} PATTERN made EXCLUDE)

# The library for C programs, found by pkg-config and by CMake from where these files lie.  The components are named as their Debian
# packages: programs that use the library need the first one only.
set(library libshoalread0)
set(library_dev libshoalread-dev)
install(TARGETS shoalread EXPORT shoalread
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${library} NAMELINK_COMPONENT ${library_dev}
        PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${library_dev})
include(CMakePackageConfigHelpers)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/shoalread)
install(EXPORT shoalread NAMESPACE shoalread:: FILE shoalreadConfig.cmake DESTINATION ${config} COMPONENT ${library_dev})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shoalreadConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shoalreadConfigVersion.cmake DESTINATION ${config} COMPONENT ${library_dev})
file(RELATIVE_PATH SHOAL_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" SHOAL_PC_TO_PREFIX ${SHOAL_PC_TO_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/shoalread.pc.in ${PROJECT_BINARY_DIR}/shoalread.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/shoalread.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${library_dev})

# The modulefile is written while installing: only then is the prefix known.
configure_file(${PROJECT_SOURCE_DIR}/cmake/at-install.cmake.in ${PROJECT_BINARY_DIR}/at-install.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/at-install.cmake)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/shoal RENAME ${PROJECT_VERSION})

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D BUILD=${PROJECT_BINARY_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
                  VERBATIM)

# Copies for elsewhere: docs/install.md.  They are put together as a component, so that `uninstall` still knows the last installation.
set(bundle shoal-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
set(parts shoal ${library} ${library_dev})
foreach(part IN LISTS parts)
  list(APPEND put COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --component ${part} --prefix ${PROJECT_BINARY_DIR}/bundle)
endforeach()
add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${PROJECT_BINARY_DIR}/bundle
  ${put}
  COMMAND ${PROJECT_SOURCE_DIR}/cmake/bundle.sh ${PROJECT_BINARY_DIR}/bundle ${bundle} ${PROJECT_BINARY_DIR}/${bundle}.tar.gz
  VERBATIM)
add_dependencies(bundle shoal shoalread pages)

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL ${parts})
set(CPACK_COMPONENTS_GROUPING IGNORE) # a package for each
foreach(part IN LISTS parts)
  string(TOUPPER ${part} PART)
  set(CPACK_DEBIAN_${PART}_PACKAGE_NAME ${part})
  set(CPACK_DEBIAN_${PART}_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_${PART}_PACKAGE_SHLIBDEPS ON)
endforeach()
set(CPACK_SET_DESTDIR ON) # the modulefile is to have the prefix, not the folder where the package is put together
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian.cmake)
set(CPACK_SHOAL_WITH_CUDA ${SHOAL_WITH_CUDA})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training of neural networks across slow interconnects")
set(CPACK_PACKAGE_CONTACT "Shoal maintainers <shoal@example.org>")

set(CPACK_DEBIAN_SHOAL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_SHOAL_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_DEBIAN_SHOAL_PACKAGE_RECOMMENDS "python3-h5py, python3-pandas, python3-matplotlib")
set(CPACK_DEBIAN_SHOAL_DESCRIPTION "Shoal trains neural networks on clusters where the network, not the
processor, is the bottleneck. The training method is one word in the run
file; runs stop and resume bitwise, and record where the time of every step
went.")
set(CPACK_DEBIAN_LIBSHOALREAD0_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBSHOALREAD0_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/shlibs ${PROJECT_SOURCE_DIR}/packaging/triggers)
set(CPACK_DEBIAN_LIBSHOALREAD0_DESCRIPTION "Programs linked with this library read what the training program Shoal
stores, verified as it does, without MPI.")
set(CPACK_DEBIAN_LIBSHOALREAD-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBSHOALREAD-DEV_PACKAGE_DEPENDS "libshoalread0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_LIBSHOALREAD-DEV_DESCRIPTION "What a program in C or C++ is compiled with to read what Shoal stores: the
header shoalread.h, and files for pkg-config and CMake.")
include(CPack)
