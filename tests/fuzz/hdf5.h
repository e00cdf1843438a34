/* HDF5 1.10 crashes on some damaged files, never returns from others, and believes sizes of gigabytes.  Those faults are
 * the library's: an input that HDF5 alone cannot read within limits of time and memory, in a process of its own, is
 * passed over; on any other our readers must do well. */
#ifndef SHOAL_TESTS_FUZZ_HDF5_H
#define SHOAL_TESTS_FUZZ_HDF5_H
#include <stdbool.h>

bool fuzz_hdf5_survives(const char *path);
#endif
