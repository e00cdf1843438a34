#!/bin/bash
# Two living runs in one folder: two steps of one job on two hosts, two containers of one host, and a step that lasts longer than
# the lease.  The second is refused each time, naming the owner, and the first is undisturbed.
. "$(dirname "$0")/case.sh"
unshare --uts --pid --fork true || { echo "no right to make namespaces: skipped"; exit 77; }
SLOW="--allow-faults --set run.epochs=20 --set fault.compute=sleep:50"
first() { name=$1; shift; "$@" "$SHOAL" train r.yaml --set run.name=$name $SLOW >$name.first 2>&1 & job=$!; }
leased() { for i in $(seq 100); do [ -s runs/$name/lease ] && return; sleep 0.1; done; wrong "$name: no lease"; }
second() {
  timeout 20 "$@" "$SHOAL" train r.yaml --set run.name=$name --set run.epochs=1 >o 2>&1; rc=$?; cat o
  [ $rc = 3 ] && grep -q "runs/$name is in use by another run (${owner}host .*, process [0-9]" o || wrong "$name: exit $rc"
  kill -0 $job || wrong "$name: the first has ended"
  kill $job; wait $job; [ $? = 75 ] || wrong "$name: the first run did not go on"
}
first two unshare --uts sh -c 'hostname n1; SLURM_JOB_ID=77 SLURM_STEP_ID=0 exec "$@"' sh; leased
owner='job 77[^,]*, '
second unshare --uts sh -c 'hostname n2; SLURM_JOB_ID=77 SLURM_STEP_ID=1 exec "$@"' sh

first box unshare --pid --fork --kill-child; leased
timeout 20 unshare --pid --fork "$SHOAL" train r.yaml --set run.name=box --set run.epochs=1 >o 2>&1; rc=$?; cat o
[ $rc = 3 ] && grep -q "runs/box is in use by another run" o || wrong "box: exit $rc"
kill -KILL $job; wait $job # unshare ignores TERM, and its end is that of the child

first long; leased
touch -d '3 minutes ago' runs/long/lease
owner=
second unshare --uts sh -c 'hostname n3; exec "$@"' sh
verdict
