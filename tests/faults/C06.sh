#!/bin/bash
# What was ignored when the run began stays ignored: HUP under nohup, INT in a script's background; USR1 and TERM too, with a
# warning, since a run that does not hear them has no checkpoint at the time limit.  HUP stops only a run on a terminal: `timeout`
# undoes what nohup did.
. "$(dirname "$0")/case.sh"
slow="--allow-faults --set fault.compute=sleep:50 --set run.epochs=1"
# start NAME SIGNALS: a run in the background that begins with these signals ignored, as $job; its rank 0 is $rank
start()
{
  [ -n "$2" ] && trap '' $2
  "$SHOAL" train r.yaml --set run.name=$1 $slow >o.$1 2>&1 & job=$!
  [ -n "$2" ] && trap - $2
  for _ in $(seq 100); do grep -q 'to stop with' o.$1 && break; sleep 0.1; done
  rank=$($PY -c "import json; print(json.load(open('runs/$1/placement.json'))['places'][0]['pid'])")
}
start hup HUP; kill -HUP $rank; wait $job; rc=$?; cat o.hup
[ $rc = 0 ] || wrong "exit $rc: a HUP that nohup ignores stops the run"
grep -q "to stop with a checkpoint: kill -USR1 $rank; allow two steps" o.hup || wrong "does not say how to stop it"
start usr1 USR1; kill -USR1 $rank; sleep 0.5; kill -TERM $rank; wait $job; rc=$?; cat o.usr1
[ $rc = 75 ] || wrong "exit $rc: TERM does not stop the run"
grep -q 'warning: USR1 was ignored when the run began' o.usr1 || wrong "does not warn that USR1 is ignored"
grep -q "to stop with a checkpoint: kill -TERM $rank;" o.usr1 || wrong "offers a signal that is ignored"
start int INT; kill -INT $rank; sleep 0.5; kill -USR1 $rank; wait $job; rc=$?
[ $rc = 75 ] || wrong "exit $rc: an INT that is ignored ends or stops the run"
timeout 60 script -qec "$SHOAL train r.yaml --set run.name=tty $slow" /dev/null >o.tty & job=$!
for _ in $(seq 100); do grep -q 'to stop with' o.tty && break; sleep 0.1; done
rank=$($PY -c "import json; print(json.load(open('runs/tty/placement.json'))['places'][0]['pid'])")
kill -HUP $rank; wait $job; rc=$?; cat o.tty
[ $rc = 75 ] || wrong "exit $rc: a HUP does not stop a run on a terminal"
# mpirun hears HUP under nohup, too, and ends the job: said where there is a terminal that can hang up
mpirun="mpirun -n 1 --oversubscribe $SHOAL train r.yaml --set run.epochs=1 --set run.name"
for with in "nohup" "setsid --wait nohup"; do
  rm -f nohup.out
  timeout 60 script -qec "bash -c '$with $mpirun=${with%% *}; true'" /dev/null >o.nohup; cat o.nohup nohup.out
  told=$(cat o.nohup nohup.out | grep -c 'nohup does not keep this mpirun')
  [ $told = $([ "$with" = nohup ] && echo 1 || echo 0) ] || wrong "$with: $told warnings"
done
verdict
