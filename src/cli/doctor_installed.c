/* What shoal doctor finds without a job: programs that Shoal calls, and the command that installs a missing one. */
#include "base/mem.h"
#include "cli/doctor.h"
#include "slurm/job.h"
#include "tensor/backend.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first line of what a command prints; false if it fails. */
static bool ask(const char *command, char *line, int cap)
{
  FILE *f = popen(command, "re");
  if (!f || !fgets(line, cap, f)) line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  if (!f) return false;
  while (fgetc(f) != EOF) continue;
  int how = pclose(f);
  return how != -1 && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* ---- how packages are installed here ---- */

typedef enum { APT, DNF, ZYPPER, UNKNOWN } manager;

static manager find_manager(void)
{
  return shoal_in_path("apt-get") ? APT : shoal_in_path("dnf") ? DNF : shoal_in_path("zypper") ? ZYPPER : UNKNOWN;
}

static void add_cure(const char *const packages[3], char *out, size_t cap)
{
  static const char *const commands[] = { [APT] = "apt install", [DNF] = "dnf install", [ZYPPER] = "zypper install" };
  manager m = find_manager();
  if (m == UNKNOWN)
    snprintf(out, cap, "install the package %s, or load its module", packages[APT]);
  else
    snprintf(out, cap, "%s%s %s; on a cluster load its module, or ask who runs it", geteuid() ? "sudo " : "",
             commands[m], packages[m]);
}

/* ---- programs ---- */

static const struct {
  const char *check, *test, *what_for;
  const char *packages[3]; /* of apt, dnf and zypper */
} helpers[] = {
  { "python",
    /* as report.py does */
    "for p in \"${SHOAL_PYTHON:-python3}\" \"${SHOAL_PYTHON:-/usr/bin/python3}\"; do "
    "\"$p\" -c 'import h5py, numpy, pandas, matplotlib' 2>/dev/null && exit; done; false",
    "only shoal report and its figures need python3 with h5py, numpy, pandas and matplotlib; training does not",
    { "python3 python3-h5py python3-pandas python3-matplotlib",
      "python3 python3-h5py python3-pandas python3-matplotlib",
      "python3 python3-h5py python3-pandas python3-matplotlib" } },
  { "hwloc",
    "command -v lstopo-no-graphics >/dev/null || command -v lstopo >/dev/null",
    "lstopo saves a machine for shoal topo --xml",
    { "hwloc-nox", "hwloc", "hwloc" } },
};

static void look_at_helpers(shoal_findings *f)
{
  for (size_t i = 0; i < SHOAL_COUNT(helpers); i++) {
    char line[64], cure[200];
    if (ask(helpers[i].test, line, sizeof line)) {
      shoal_find(f, helpers[i].check, SHOAL_WELL, -1, "installed");
      continue;
    }
    add_cure(helpers[i].packages, cure, sizeof cure);
    shoal_find(f, helpers[i].check, SHOAL_NOTE, -1, "missing: %s: %s", helpers[i].what_for, cure);
  }
}

/* ---- launchers ---- */

/* "mpirun (Open MPI) 4.1.4" and "Open MPI 4.1.4 (compiled 4.1.4)": the first two numbers must agree. */
static bool same_mpi(const char *mpirun)
{
  int a[2], b[2];
  const char *library = strstr(shoal_world_library(), "Open MPI ");
  if (!library || sscanf(library, "Open MPI %d.%d", &a[0], &a[1]) != 2) return true;
  return sscanf(mpirun, "mpirun (Open MPI) %d.%d", &b[0], &b[1]) == 2 && a[0] == b[0] && a[1] == b[1];
}

static bool look_at_mpirun(shoal_findings *f)
{
  char line[128];
  if (!shoal_in_path("mpirun")) return false;
  if (!ask("mpirun --version 2>/dev/null", line, sizeof line))
    shoal_find(f, "mpirun", SHOAL_FAULT, -1, "mpirun --version fails");
  else if (!same_mpi(line))
    shoal_find(f, "mpirun", SHOAL_FAULT, -1,
               "%s, but this program was loaded with %s: load the module of the MPI it was built with", line,
               shoal_world_library());
  else
    shoal_find(f, "mpirun", SHOAL_WELL, -1, "%s", line);
  return true;
}

static bool look_at_slurm(shoal_findings *f)
{
  char line[128], found[64];
  if (!shoal_in_path("srun")) return false;
  if (!ask("srun --version 2>/dev/null", line, sizeof line))
    shoal_find(f, "slurm", SHOAL_NOTE, -1, "srun is installed and not configured (srun --version fails)");
  else if (ask("srun --mpi=list 2>&1 | grep -w pmix", found, sizeof found))
    shoal_find(f, "slurm", SHOAL_WELL, -1, "%s, with PMIx", line);
  else
    shoal_find(f, "slurm", SHOAL_NOTE, -1,
               "%s, and srun --mpi=list names no pmix: start ranks by mpirun, or ask for Slurm's PMIx plugin "
               "(Debian: slurm-wlm-basic-plugins)",
               line);
  return true;
}

static void look_at_launchers(shoal_findings *f)
{
  static const char *const packages[3] = { "openmpi-bin", "openmpi", "openmpi4" };
  char cure[200];
  bool slurm = look_at_slurm(f);
  if (look_at_mpirun(f)) return;
  add_cure(packages, cure, sizeof cure);
  shoal_find(f, "mpirun", slurm ? SHOAL_NOTE : SHOAL_FAULT, -1,
             "missing: several ranks on one machine are started by it: %s", cure);
}

void shoal_doctor_installed(shoal_findings *f)
{
  look_at_launchers(f);
  look_at_helpers(f);
  shoal_find(f, "backends", SHOAL_WELL, -1, "cpu: %s; cuda: %s", shoal_backend_versions("cpu"),
             shoal_backend_versions("cuda"));
}
