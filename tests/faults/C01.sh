#!/usr/bin/env bash
# C01: with OMP_PROC_BIND set, the program believed it had one core, and named srun's --cpus-per-task as the cure.
# Wanted: the cores that the launcher gave, whatever OpenMP binds; what a list leaves out, and ranks bound to the same core, in one
# line with the variable's name.
source "$(dirname "$0")/case.sh"
unset OMP_NUM_THREADS

mask() { $PY -c 'import os; print(len(os.sched_getaffinity(0)))'; }
[ "$(mask)" -ge 2 ] || { echo 'skipped: one core'; exit 77; }
cores() { grep -o '"cores": [0-9]*, "threads": [0-9]*, "cpus": "[^"]*"'; }
first=$($PY -c 'import os; print(min(os.sched_getaffinity(0)))')
plain=$(shoal topo --json | cores)
for setting in OMP_PROC_BIND=true OMP_PLACES=cores OMP_PROC_BIND=spread; do
  bound=$(env "$setting" timeout 60 "$SHOAL" topo --json | cores)
  [ "$bound" = "$plain" ] || wrong "$setting: $bound, not $plain"
done
many=$(mask)
for n in 1 2; do # the launch is bound by then, and its ranks come after it
  OMP_PLACES=cores timeout 60 "$SHOAL" launch r.yaml -n $n --set run.name=l$n --set run.epochs=1 >o 2>&1
  grep -q "$many hardware threads, of which" o && wrong "launch -n $n: $(cat o)"
  cut -d: -f2- runs/l$n/placement.json | grep -q "\"cpus\": *\"$first\"" && wrong "launch -n $n: $(cat runs/l$n/placement.json)"
done
OMP_PROC_BIND=true SLURM_CPUS_PER_TASK=$many shoal train r.yaml -q --set run.name=a --set run.epochs=1 --set run.strict=true >o ||
  wrong "run.strict: exit $?"
[ -s o ] && wrong "the launcher gave what was asked, but: $(cat o)"
GOMP_CPU_AFFINITY=$first SLURM_CPUS_PER_TASK=$many shoal train r.yaml -q --set run.name=b --set run.strict=true >o; code=$?
[ $code = 3 ] || wrong "a list of one core, run.strict: exit $code"
grep -q "asked $many, have 1.*GOMP_CPU_AFFINITY=$first; set OMP_PROC_BIND=false" o || wrong "a list of one core: $(cat o)"
grep -q 'cpus-per-task' o && wrong 'the wrong cure'
OMP_PROC_BIND=true mpi 2 topo >o
[ "$(grep -c 'OMP_PROC_BIND=true makes OpenMP bind the first threads of 2 ranks' o)" = 1 ] || wrong "two ranks on a core: $(cat o)"
verdict
