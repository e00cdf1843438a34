/* What the kernel tells of a process of this PID namespace. */
#ifndef SHOAL_BASE_PROCESS_H
#define SHOAL_BASE_PROCESS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint64_t started; /* clock ticks since boot: tells a process from a later one with its number */
  long parent;
  int terminal; /* its number; 0: none */
  bool stopped; /* as by SIGSTOP or Ctrl-Z */
} shoal_process;

/** Whether `pid` runs.  A process that has ended does not, even if its parent has not waited for it yet, which an init of a
 *  container may do late; kill(pid, 0) takes it for alive.
 *  @param out may be NULL; zero where the kernel does not tell. */
bool shoal_process_lives(long pid, shoal_process *out);

/* Which kernel, since which boot, and which PID namespace: only there a process can be looked for.  "-": not known. */
typedef struct {
  char boot[40], pid_space[32];
} shoal_kernel;
shoal_kernel shoal_kernel_here(void);
bool shoal_kernel_is_here(const char *boot, const char *pid_space);
#endif
