#!/usr/bin/env bash
# shoal_mpi_environment of jobs/packages.sh: a plain `mpirun` then starts more ranks than there are cores, bound to none, with
# every version of Open MPI.  Without it versions 4 and 5 refuse.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../jobs/packages.sh"
shoal_mpi_environment
ranks=$(($(nproc) + 1))
look=(grep Cpus_allowed_list /proc/self/status)
mine=$("${look[@]}")
masks=$(mpirun -n "$ranks" "${look[@]}")
[[ $(wc -l <<<"$masks") == "$ranks" && $(sort -u <<<"$masks") == "$mine" ]] || {
  printf '%s ranks with the cores of this process (%s) were wanted; mpirun gave\n%s\n' "$ranks" "$mine" "$masks"
  exit 1
}
