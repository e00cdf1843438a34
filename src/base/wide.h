/* Function multiversioning for vectorised leaf loops: each is compiled for AVX-512, for AVX2 with FMA and for the
 * baseline, and the dynamic linker selects the best one for this processor.  (The targets are instruction sets, because
 * GCC matches processor names only with exactly that model.)  Where results must not depend on the selection, compile
 * the file with -ffp-contract=off. */
#ifndef SHOAL_BASE_WIDE_H
#define SHOAL_BASE_WIDE_H
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__)
#define SHOAL_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define SHOAL_WIDE __attribute__((noinline))
#endif
#endif
