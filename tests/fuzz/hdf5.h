/* HDF5 1.10 crashes on some damaged files and never returns from others.  Those faults are the library's: an input that
 * HDF5 alone does not survive, in a process of its own and within a second, is skipped; on any other our readers must
 * keep their promises. */
#ifndef SHOAL_TESTS_FUZZ_HDF5_H
#define SHOAL_TESTS_FUZZ_HDF5_H
#include <stdbool.h>

bool fuzz_hdf5_survives(const char *path);
#endif
