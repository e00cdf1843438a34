#!/bin/bash
# Back to an earlier checkpoint: a branch.  What is saved there is never pruned, what came after is set aside by name and not
# returned to, and the three files of the folder tell one history.
. "$(dirname "$0")/case.sh"
R="--set ckpt.every=10steps"
shoal train r.yaml -q $R --set ckpt.keep=100
rows=$(wc -l <runs/r/metrics.csv)
shoal train r.yaml --resume runs/r/ckpt/step-000000040.h5 --set optim.lr=0.001 $R --set ckpt.keep=2 --set run.steps=70 >o; rc=$?; cat o
[ $rc = 0 ] || wrong "the branch ended with $rc"
grep -q '6 checkpoints of later steps are set aside in runs/r/ckpt/before-attempt-2' o || wrong "not told what is set aside"
[ "$(ls runs/r/ckpt | tr '\n' ' ')" = 'before-attempt-2 step-000000060.h5 step-000000070.h5 ' ] || wrong "in ckpt: $(ls runs/r/ckpt)"
[ "$(ls runs/r/ckpt/before-attempt-2 | wc -l)" = 7 ] || wrong "set aside: $(ls runs/r/ckpt/before-attempt-2)"
[ "$(wc -l <runs/r/ckpt/before-attempt-2/metrics.csv)" = $rows ] || wrong "the rows of the old branch are lost"
[ "$(tail -1 runs/r/metrics.csv | cut -d, -f2)" = 70 ] && [ "$(wc -l <runs/r/metrics.csv)" = 3 ] || wrong "rows: $(cat runs/r/metrics.csv)"
grep -q '"state": "done".*"step": 70' runs/r/status.json || wrong "status: $(cat runs/r/status.json)"
shoal train r.yaml --set optim.lr=0.001 >o; grep resumed o
grep -q 'resumed from runs/r/ckpt/step-000000070.h5' o || wrong "auto does not go on from 70"
shoal train r.yaml -q --set run.name=q $R --set ckpt.keep=100
shoal train r.yaml -q --set run.name=q --resume runs/q/ckpt/step-000000040.h5 --set ckpt.keep=2 --allow-faults --set fault.stop_step=60
[ $? = 75 ] && ls runs/q/ckpt | grep step-00000006 || wrong "'checkpoint verified, safe to requeue', but it was deleted"
shoal train r.yaml --set run.name=r --resume runs/q/ckpt/step-000000040.h5 >o # of another run: all of this one's are set aside
grep "of this folder's own steps are set aside in runs/r/ckpt/before-attempt-4" o || { cat o; wrong "a stranger's branch"; }
[ "$(ls -d runs/r/ckpt/step-* | wc -l)" = 1 ] || wrong "in ckpt: $(ls runs/r/ckpt)"
verdict
