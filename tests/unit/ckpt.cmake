# Reading, verifying and writing by one process link only shoal_ckpt; writing by all ranks is another library.
shoal_add_test(unit.ckpt.folder SOURCES unit/ckpt_folder.c LINK shoal_ckpt LABELS unit)
shoal_add_test(unit.ckpt.damage SOURCES unit/ckpt_damage.c LINK shoal_ckpt PkgConfig::SHOAL_HDF5 LABELS unit)
add_test(NAME unit.ckpt.no_mpi COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint/no_mpi $<TARGET_FILE:unit.ckpt.folder>
                                       $<TARGET_FILE:unit.ckpt.damage>)
set_tests_properties(unit.ckpt.no_mpi PROPERTIES LABELS unit TIMEOUT 60)
# A checkpoint in several files; the program splits one for tests of whole runs.
shoal_add_test(unit.ckpt.shards SOURCES unit/ckpt_shards.c LINK shoal_report LABELS unit)
target_link_options(unit.ckpt.shards PRIVATE -Wl,--wrap=link,--wrap=rename,--wrap=unlink)
add_executable(ckpt_split unit/ckpt_split.c)
target_include_directories(ckpt_split PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(ckpt_split PRIVATE shoal_ckpt shoal_warnings)
shoal_add_test(unit.ckpt.roundtrip SOURCES unit/ckpt_roundtrip.c LINK shoal_ckpt_together LABELS unit)
shoal_add_test(unit.ckpt.copies SOURCES unit/ckpt_copies.c LINK shoal_ckpt_together LABELS unit)
shoal_add_test(mpi.ckpt.replica SOURCES unit/ckpt_replica.c LINK shoal_ckpt_together RANKS 1 2 3 4 LABELS mpi)
shoal_add_test(unit.ckpt.golden SOURCES unit/ckpt_golden.c LINK shoal_ckpt ARGS ${PROJECT_SOURCE_DIR}/checkpoints/golden
               LABELS unit)
# Makes the golden files; run by hand, once per format version.
add_executable(ckpt_make EXCLUDE_FROM_ALL golden/ckpt_make.c)
target_include_directories(ckpt_make PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(ckpt_make PRIVATE shoal_ckpt_together shoal_warnings)
