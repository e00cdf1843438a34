/* What the kernel tells of a process of this PID namespace. */
#ifndef SHOAL_BASE_PROCESS_H
#define SHOAL_BASE_PROCESS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t started; /* clock ticks since boot: tells a process from a later one with its number */
  long parent;
  int terminal; /* its number; 0: none */
} shoal_process;

/** Whether `pid` runs.  A process that has ended does not, even if its parent has not waited for it yet, which an init of a
 *  container may do late; kill(pid, 0) takes it for alive.
 *  @param out may be NULL; zero where the kernel does not tell. */
bool shoal_process_lives(long pid, shoal_process *out);
#endif
