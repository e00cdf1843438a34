# Tests that check the contents of a file independently link HDF5 itself.
shoal_add_test(unit.h5.data SOURCES unit/h5_data.c LINK shoal_h5 PkgConfig::SHOAL_HDF5 LABELS unit)
shoal_add_test(unit.h5.table SOURCES unit/h5_table.c LINK shoal_h5 PkgConfig::SHOAL_HDF5 LABELS unit)
shoal_add_test(unit.h5.open SOURCES unit/h5_open.c LINK shoal_h5 PkgConfig::SHOAL_HDF5 LABELS unit)
shoal_add_test(unit.h5.foreign SOURCES unit/h5_foreign.c LINK shoal_h5 PkgConfig::SHOAL_HDF5 LABELS unit)
shoal_add_test(unit.h5.filters SOURCES unit/h5_filters.c LINK shoal_h5 PkgConfig::SHOAL_HDF5 ZLIB::ZLIB LABELS unit)

# A preloaded library cannot precede that of the sanitizer, hence noasan.
add_library(nolock MODULE faults/nolock.c)
shoal_add_test(unit.h5.locks SOURCES unit/h5_locks.c LINK shoal_h5 ARGS $<TARGET_FILE:nolock> LABELS unit noasan)
add_dependencies(unit.h5.locks nolock)
