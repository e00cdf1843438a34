#!/usr/bin/env bash
# Installs the packages that tests need, builds, and runs all tests.
#   tests/run.sh            as in CI, with shortened studies (some 17 minutes on 2 cores)
#   tests/run.sh --full     all studies in full
#   tests/run.sh [--full] -L mpi   passes other arguments to ctest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/packages.sh
if [[ ${1-} == --full ]]; then
  export SHOAL_FULL=1
  shift
fi

# The report is rendered in a browser, where the distribution has one as a package; Ubuntu's is a snap.
browser=chromium
grep -q '^ID=ubuntu' /etc/os-release && browser=
# shellcheck disable=SC2086
shoal_install $shoal_packages $browser clang-format clang-tidy python3 python3-h5py python3-onnx python3-numpy python3-pytest python3-pandas \
  python3-matplotlib hdf5-tools unzip bzip2 xz-utils mandoc groff-base zsh lmod \
  clang libclang-rt-dev libomp-dev \
  slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge iproute2
# For tests/distro.sh and tests/packages.sh.
[[ ${SHOAL_FULL-} != 1 ]] || shoal_install debootstrap patchelf dpkg-dev file wget git
# Perfetto's own definitions of its format, which no distribution has: without them one test is skipped.
if [[ ${SHOAL_FULL-} == 1 && ! -e build/perfetto ]]; then
  shoal_install python3-pip
  python3 -m pip install --quiet --target build/perfetto perfetto || rm -rf build/perfetto
fi
# The other program that reads modulefiles, whose package Debian does not install beside Lmod's.
if [[ ${SHOAL_FULL-} == 1 && ! -e build/modules ]]; then
  mkdir -p build/modules
  (cd build/modules && apt-get download -qq environment-modules && dpkg -x environment-modules_*.deb .) || rm -rf build/modules
fi
shoal_mpi_environment
export OMP_WAIT_POLICY=passive # idle threads must not spin if ranks share cores

cmake --preset dev
cmake --build --preset dev
# Addresses, undefined behaviour and leaks: unit tests only, because MPI itself is not clean under these sanitizers.
cmake --preset asan >/dev/null
cmake --build --preset asan --target unit
ctest --preset asan -L unit -j2
# Data races.  Older thread sanitizers cannot start where addresses are very random.
cmake --preset tsan >/dev/null
cmake --build --preset tsan
if setarch -R true 2>/dev/null; then setarch -R ctest --preset tsan; else ctest --preset tsan; fi
# Readers of files from elsewhere (tests/fuzz/README.md), on what the tests after it leave of the cores.
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
nice -n 19 ctest --preset fuzz -j2 >build/fuzz/tests.log 2>&1 &
fuzz=$!
trap 'kill $fuzz 2>/dev/null || true' EXIT
ctest --preset dev -j"$((2 * $(nproc)))" "$@" # ranks mostly wait; tests that need the whole machine are marked
fuzzed=0
wait "$fuzz" || fuzzed=$?
cat build/fuzz/tests.log
exit "$fuzzed"
