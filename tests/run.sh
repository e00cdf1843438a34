#!/usr/bin/env bash
# Installs what the tests need, builds, runs everything.
#   tests/run.sh            what CI runs: long studies are sampled (under 20 minutes on 2 cores)
#   tests/run.sh --full     every study whole; once before an issue is resolved
#   tests/run.sh [--full] -L mpi   anything else goes to ctest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/packages.sh
if [[ ${1-} == --full ]]; then
  export SHOAL_FULL=1
  shift
fi

# shellcheck disable=SC2086
shoal_install $shoal_packages clang-format clang-tidy python3 python3-h5py python3-numpy python3-pytest hdf5-tools \
  slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2
shoal_mpi_environment
export OMP_WAIT_POLICY=passive # threads that wait for work must not spin where ranks share cores

cmake --preset dev
cmake --build --preset dev
# The sanitizers look at the layers that parse, count and own memory; MPI itself is not clean under them.
cmake --preset asan >/dev/null
cmake --build --preset asan
ctest --preset asan -L unit
ctest --preset dev -j2 "$@" # most ranks wait most of the time; what needs the machine to itself says so
