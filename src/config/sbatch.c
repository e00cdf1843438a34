/* The options of sbatch that a script may have.  `shoal submit` has flags for a few and hands on any other one by --sbatch, which
 * people who know Slurm find out by typing --exclude as they would for sbatch. */
#include "base/mem.h"
#include "config/option.h"
#include <string.h>

static const shoal_sbatch_option options[] = {
  /* those that submit has by a name of its own */
  { "ntasks", 0, true, "--ranks" },
  { "ntasks-per-node", 0, true, "--per-node" },
  { "cpus-per-task", 0, true, "--cores" },
  { "job-name", 'J', true, "--name" },
  { "signal", 0, true, "--lead" },
  { "array", 'a', true, "--seeds" },
  /* and those that it has not */
  { "acctg-freq", 0, true, NULL },
  { "batch", 0, true, NULL },
  { "bb", 0, true, NULL },
  { "bbf", 0, true, NULL },
  { "begin", 'b', true, NULL },
  { "chdir", 'D', true, NULL },
  { "cluster-constraint", 0, true, NULL },
  { "clusters", 'M', true, NULL },
  { "comment", 0, true, NULL },
  { "constraint", 'C', true, NULL },
  { "container", 0, true, NULL },
  { "contiguous", 0, false, NULL },
  { "core-spec", 'S', true, NULL },
  { "cores-per-socket", 0, true, NULL },
  { "cpu-freq", 0, true, NULL },
  { "cpus-per-gpu", 0, true, NULL },
  { "deadline", 0, true, NULL },
  { "delay-boot", 0, true, NULL },
  { "dependency", 'd', true, NULL },
  { "distribution", 'm', true, NULL },
  { "error", 'e', true, NULL },
  { "exclude", 'x', true, NULL },
  { "exclusive", 0, false, NULL },
  { "export", 0, true, NULL },
  { "export-file", 0, true, NULL },
  { "extra-node-info", 'B', true, NULL },
  { "get-user-env", 0, false, NULL },
  { "gpu-bind", 0, true, NULL },
  { "gpu-freq", 0, true, NULL },
  { "gpus", 'G', true, NULL },
  { "gpus-per-node", 0, true, NULL },
  { "gpus-per-socket", 0, true, NULL },
  { "gpus-per-task", 0, true, NULL },
  { "gres", 0, true, NULL },
  { "gres-flags", 0, true, NULL },
  { "hint", 0, true, NULL },
  { "hold", 'H', false, NULL },
  { "input", 'i', true, NULL },
  { "kill-on-invalid-dep", 0, true, NULL },
  { "licenses", 'L', true, NULL },
  { "mail-type", 0, true, NULL },
  { "mail-user", 0, true, NULL },
  { "mcs-label", 0, true, NULL },
  { "mem", 0, true, NULL },
  { "mem-bind", 0, true, NULL },
  { "mem-per-cpu", 0, true, NULL },
  { "mem-per-gpu", 0, true, NULL },
  { "mincpus", 0, true, NULL },
  { "network", 0, true, NULL },
  { "nice", 0, false, NULL },
  { "no-kill", 'k', false, NULL },
  { "nodefile", 'F', true, NULL },
  { "nodelist", 'w', true, NULL },
  { "ntasks-per-core", 0, true, NULL },
  { "ntasks-per-gpu", 0, true, NULL },
  { "ntasks-per-socket", 0, true, NULL },
  { "open-mode", 0, true, NULL },
  { "overcommit", 'O', false, NULL },
  { "oversubscribe", 's', false, NULL },
  { "power", 0, true, NULL },
  { "prefer", 0, true, NULL },
  { "priority", 0, true, NULL },
  { "profile", 0, true, NULL },
  { "propagate", 0, false, NULL },
  { "reboot", 0, false, NULL },
  { "reservation", 0, true, NULL },
  { "sockets-per-node", 0, true, NULL },
  { "spread-job", 0, false, NULL },
  { "switches", 0, true, NULL },
  { "thread-spec", 0, true, NULL },
  { "threads-per-core", 0, true, NULL },
  { "time-min", 0, true, NULL },
  { "tmp", 0, true, NULL },
  { "use-min-nodes", 0, false, NULL },
  { "wait-all-nodes", 0, true, NULL },
  { "wckey", 0, true, NULL },
};

const shoal_sbatch_option *shoal_sbatch_option_find(const char *text)
{
  bool is_long = strncmp(text, "--", 2) == 0;
  const char *name = is_long ? text + 2 : "";
  size_t n = strcspn(name, "=");
  for (size_t i = 0; i < SHOAL_COUNT(options); i++) {
    const shoal_sbatch_option *o = &options[i];
    if (is_long ? strlen(o->name) == n && strncmp(o->name, name, n) == 0 : o->letter && text[1] == o->letter) return o;
  }
  return NULL;
}
