#!/usr/bin/env bash
# The tests of the cuda backend on a real GPU: tests/gpu/run.sh [BUILD-FOLDER]
#
# Needs the CUDA Toolkit, cuDNN, a driver and what building Shoal needs (jobs/packages.sh); for sums also NCCL.  Prints the card, the driver and one line
# per test for docs/gpu.md.  77: no GPU here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build/gpu}
command -v nvidia-smi >/dev/null && nvidia-smi -L | grep -q GPU || { echo "skipped: no GPU on this host"; exit 77; }
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_CUDA=ON -DSHOAL_WERROR=ON -DCMAKE_CUDA_ARCHITECTURES=native >/dev/null
cmake --build "$build" --target unit.tensor.ref unit.tensor.cuda_own >/dev/null

failed=0
try() { # try NAME COMMAND...: one line with the result and the seconds
  local name=$1 begin=$SECONDS status=0
  shift
  "$@" >"$build/$name.log" 2>&1 || status=$?
  # a test that finds no device skips itself, which is a failure here
  if ((status == 0)); then echo "$name: passed in $((SECONDS - begin)) s"; return; fi
  echo "$name: failed with status $status; see $build/$name.log"
  failed=1
}
try suite "$build/tests/unit.tensor.ref" cuda
try conv env LD_LIBRARY_PATH="$build/tests/simgpu/without_cudnn${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$build/tests/unit.tensor.ref" cuda 1 conv # which cannot load it
try own "$build/tests/unit.tensor.cuda_own"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    try "$tool" timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/unit.tensor.cuda_own"
  done
else
  echo "sanitizers: skipped, no compute-sanitizer in PATH"
fi
if ! cmake --build "$build" --target simgpu.nccl >"$build/nccl.log" 2>&1; then
  echo "sums: skipped, not built; see $build/nccl.log"
else
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  sums() { # sums RANKS [MODE]
    timeout 120 mpiexec -n "$1" --oversubscribe --bind-to none "$build/tests/simgpu.nccl" ${2:+"$2"}
  }
  try sums.shared sums 2 shared
  gpus=$(nvidia-smi -L | grep -c GPU)
  for ranks in 2 4; do
    if ((gpus >= ranks)); then try "sums.$ranks" sums "$ranks"; else echo "sums.$ranks: skipped, $gpus GPU"; fi
  done
  # rank 1 is killed; the shells go on
  lost() { timeout 120 mpiexec -n 2 --oversubscribe --bind-to none sh -c "'$build/tests/simgpu.nccl' lost; sleep 20" 2>&1 | grep "told: rank 1"; }
  if ((gpus >= 2)); then try sums.lost lost; fi
fi
# A run with CUDA graphs has the bits of one without.
if ! cmake --build "$build" --target shoal >"$build/shoal.log" 2>&1; then
  echo "graphs: skipped, shoal was not built; see $build/shoal.log"
else
  runs=$(mktemp -d) shoal=$(realpath "$build/src/cli/shoal")
  "$shoal" data synth glyphs -o "$runs/glyphs.h5" --train 600 --test 100 >/dev/null
  graphs() { # graphs false|true
    (cd "$runs" && "$shoal" train --set run.name="$1" --set device=cuda --set cuda.graphs="$1" --set data.file=glyphs.h5 \
      --set model.name=resnet20 --set run.epochs=2 --set optim.schedule=cosine --set ckpt.keep=1)
  }
  try graphs.off graphs false
  try graphs.on graphs true
  try graphs.same "$shoal" ckpt diff "$runs"/runs/{false,true}/ckpt/step-*.h5
  rm -rf "$runs"
fi
exit $failed
