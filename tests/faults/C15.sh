#!/usr/bin/env bash
# C15: the quota of a control group was not seen: two threads were started for half a core, at an eighth of the speed of one.
# Wanted: one line with the quota, the mask and a cure that helps; threads follow.  Needs root and a hierarchy that may be changed.
source "$(dirname "$0")/case.sh"
unset OMP_NUM_THREADS

group=/sys/fs/cgroup/cpu/shoal-$$ version=1
[ -f /sys/fs/cgroup/cgroup.controllers ] && group=/sys/fs/cgroup/shoal-$$ version=2
mkdir "$group" 2>/dev/null || { echo 'skipped: cannot make a control group'; exit 77; }
trap 'cd /; rm -rf "$folder"; sleep 0.2; rmdir "$group/inner" "$group"' EXIT
mkdir "$group/inner"
if [ $version = 1 ]; then
  echo 100000 >"$group/cpu.cfs_period_us" && echo 50000 >"$group/cpu.cfs_quota_us"
else
  echo '50000 100000' >"$group/cpu.max"
fi 2>/dev/null || { echo 'skipped: no controller for processor time'; exit 77; }
within() { sh -c 'echo $$ >"$0/inner/cgroup.procs" && exec timeout 60 "$@"' "$group" "$@" 2>&1; } # limited by the group around it

within "$SHOAL" topo --json >o
grep -q '"quota": 0.5' o || wrong "topo: $(cat o)"
for threads in 0 2; do
  within "$SHOAL" train r.yaml --set run.name=q$threads --set run.epochs=1 --set threads=$threads >o || wrong "exit $?"
  [ "$(grep -c 'a control group on .* allows 0.5 cores for 1 rank, the affinity mask has' o)" = 1 ] || wrong "threads=$threads: $(cat o)"
  grep -q 'raise the quota' o || wrong 'no cure'
  grep -q 'cpus-per-task' o && wrong 'the wrong cure'
done
grep -q '1 thread each' runs/q0/log.txt || wrong 'the default does not follow the quota'
grep -q 'threads is 2, so each is stopped' o || wrong 'threads=2 is not named'
within "$SHOAL" train r.yaml -q --set run.name=s --set run.strict=true >o; code=$?
[ $code = 3 ] || wrong "run.strict: exit $code"

# The memory that a group around this one leaves is all there is: an array that takes more is refused, not met by a kill.
around=$group
if [ $version = 1 ]; then
  around=/sys/fs/cgroup/memory/shoal-$$
  mkdir "$around" "$around/inner" && echo 157286400 >"$around/memory.limit_in_bytes" || verdict
  trap 'cd /; rm -rf "$folder"; sleep 0.2; rmdir "$group/inner" "$group" "$around/inner" "$around"' EXIT
else
  echo 157286400 >"$group/memory.max" || verdict
fi
$PY -c "
import numpy as np
np.lib.format.open_memmap('X_train.npy', 'w+', 'u1', (200, 1000000), fortran_order=True) # which is kept whole
np.save('y_train.npy', np.arange(200) % 10)"
sh -c 'echo $$ >"$0/inner/cgroup.procs" && exec timeout 60 "$@"' "$around" "$SHOAL" data import npy X_train.npy y_train.npy -o big.h5 >o 2>&1; code=$?
[ $code -gt 0 ] && [ $code -lt 100 ] || wrong "an array beyond the limit: exit $code"
grep -q 'X_train.* would take 191 MiB of memory, the limit is [0-7][0-9]*[.0-9]* MiB' o || wrong "memory: $(cat o)"
verdict
