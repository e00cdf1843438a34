#!/bin/bash
# A job died with its node, and its lease is fresh: the next job of the chain waits until it is stale, and says how long; an
# interactive start is told how to take over.
. "$(dirname "$0")/case.sh"
shoal train r.yaml -q --allow-faults --set fault.stop_step=20; [ $? = 75 ] || wrong "the first run did not stop"
echo 'job 11 host n9 pid 4242 started 1' >runs/r/lease
before=$(cat runs/r/lease)
SLURM_JOB_ID=12 timeout 15 "$SHOAL" train r.yaml >o; rc=$?; cat o
[ $rc = 124 ] || wrong "exit $rc: does not wait, though only two minutes were needed"
[ "$(cat runs/r/lease)" = "$before" ] || wrong "the lease was changed before its time"
grep -q 'job 11, host n9, process 4242): waiting .* min' o || wrong "does not say for whom it waits, and how long"
shoal train r.yaml >o; rc=$?; cat o
[ $rc = 3 ] && grep -q 'start again in .*, or at once after `rm runs/r/lease`' o || wrong "exit $rc: does not tell how to take over"
touch -d '10 minutes ago' runs/r/lease
SLURM_JOB_ID=12 shoal train r.yaml >o; rc=$?; cat o
[ $rc = 0 ] && grep -q 'took over the lease of a run that is gone' o || wrong "exit $rc: does not take over a lease nobody touches"
[ "$(ls runs/r | tr '\n' ' ')" = 'ckpt log.txt metrics.csv placement.json run.yaml status.json trace ' ] || wrong "left over: $(ls runs/r)"
verdict
