/* Leaf loops over vectors, compiled three times: the loader takes the best one for this processor, AVX-512, AVX2 with
 * FMA, or the baseline.  (Names of processors would not do: GCC compares them with the very model.)  Where results may
 * not depend on that choice, compile the file with -ffp-contract=off. */
#ifndef SHOAL_BASE_WIDE_H
#define SHOAL_BASE_WIDE_H
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__)
#define SHOAL_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define SHOAL_WIDE __attribute__((noinline))
#endif
#endif
