# Each allocation fails once: the linker redirects those of Shoal's libraries to the test.
shoal_add_test(unit.train.out_of_memory SOURCES unit/out_of_memory.c LINK shoal_train m LABELS unit TIMEOUT 600
               ARGS ${PROJECT_SOURCE_DIR}/checkpoints/golden)
foreach(function malloc calloc realloc posix_memalign strdup strndup free shoal_alloc LAPACKE_sgesdd)
  target_link_options(unit.train.out_of_memory PRIVATE -Wl,--wrap=${function})
endforeach()
# Many processes, and seconds of real time.
shoal_add_test(unit.train.lease SOURCES unit/train_lease.c LINK shoal_train m LABELS unit TIMEOUT 120)
