#!/usr/bin/env bash
# Complete example: installs missing packages, builds, makes a data set, trains on 4 ranks, stops the run as a batch system
# would, resumes it from its checkpoint, and shows the result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/packages.sh

step() { printf '\n== %s\n' "$*"; }

step "packages"
# shellcheck disable=SC2086
shoal_install $shoal_packages

step "configuring"
cmake --preset release -DSHOAL_TESTS=OFF >/dev/null
step "building"
cmake --build --preset release
shoal=$PWD/build/release/src/cli/shoal

step "data: synthetic digits"
mkdir -p build/quickstart
cd build/quickstart
rm -rf runs/quickstart
"$shoal" data synth glyphs -o glyphs.h5 --train 4000 --test 1000

train=("$shoal" launch ../../jobs/quickstart.yaml -n 4)
step "train: ${train[*]}"
status() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" runs/quickstart/status.json 2>/dev/null; }
"${train[@]}" &
job=$!
for _ in $(seq 600); do # stop it after the first epoch, as a time limit would
  grep -q '^1,' runs/quickstart/metrics.csv 2>/dev/null && break
  kill -0 $job 2>/dev/null || break
  sleep 0.2
done
step "stop: USR1, as Slurm sends before the time limit"
kill -USR1 $job 2>/dev/null || true
code=0
wait $job || code=$?
if ((code == 75)); then
  step "resume: the same command continues from step $(status step)"
  "${train[@]}"
elif ((code != 0)); then
  exit $code
fi

step "result"
"$shoal" ckpt list runs/quickstart
"$shoal" trace show runs/quickstart
echo
echo "all output is in $PWD/runs/quickstart; to train again:"
echo "  cd $PWD"
echo "  ${train[*]} --set run.name=mine --set optim.lr=0.05"
