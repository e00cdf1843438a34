foreach(topic augment import labels loader shards synth)
  shoal_add_test(unit.data.${topic} SOURCES unit/data_${topic}.c LINK shoal_data LABELS unit)
endforeach()
# Needs the folder of real data sets (SHOAL_TEST_DATA or ../shared/data); skipped without it.
shoal_add_test(unit.data.real SOURCES unit/data_real.c LINK shoal_data ARGS ${PROJECT_SOURCE_DIR}/../shared/data LABELS unit)
# These also test how the file is shown (report/data.h).
shoal_add_test(unit.data.dataset SOURCES unit/data_dataset.c LINK shoal_report PkgConfig::SHOAL_HDF5 LABELS unit)
shoal_add_test(unit.data.full SOURCES unit/data_full.c LINK shoal_report LABELS unit)
