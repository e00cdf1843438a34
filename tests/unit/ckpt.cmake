foreach(topic roundtrip damage folder)
  shoal_add_test(unit.ckpt.${topic} SOURCES unit/ckpt_${topic}.c LINK shoal_ckpt LABELS unit)
endforeach()
shoal_add_test(mpi.ckpt.replica SOURCES unit/ckpt_replica.c LINK shoal_ckpt RANKS 1 2 3 4 LABELS mpi)
shoal_add_test(unit.ckpt.golden SOURCES unit/ckpt_golden.c LINK shoal_ckpt ARGS ${PROJECT_SOURCE_DIR}/checkpoints/golden
               LABELS unit)
# Makes the golden files, by hand and once per format version.
add_executable(ckpt_make EXCLUDE_FROM_ALL golden/ckpt_make.c)
target_include_directories(ckpt_make PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(ckpt_make PRIVATE shoal_ckpt shoal_warnings)
