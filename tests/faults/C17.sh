#!/bin/bash
# The data file is still being written, or its writer died: a warning that -q does not hide, and the cure for the mark.
. "$(dirname "$0")/case.sh"
cat >hold.py <<'E'
import h5py, numpy as np, os, sys, time
f = h5py.File('w.h5', 'w', libver='latest' if sys.argv[1] == 'die' else None)
x = np.random.default_rng(1).normal(size=(400, 8)).astype('f4')
d = f.create_dataset('X_train', (400, 8), 'f4')
l = f.create_dataset('y_train', (400,), 'i4')
d[:200] = x[:200]
l[:200] = np.arange(200) % 10
f.flush()
print('flushed', flush=True)
os._exit(9) if sys.argv[1] == 'die' else time.sleep(60)
E
$PY hold.py hold >held & h=$!
until grep -q flushed held; do sleep 0.1; done
for n in 1 2; do
  mpi $n train r.yaml -q --set run.name=w$n --set data.file=w.h5 >o; rc=$?; cat o
  [ $rc = 0 ] || wrong "a reader beside the writer: exit $rc"
  [ "$(grep -c 'warning: another process is writing w.h5: what is read may be incomplete' o)" = 1 ] ||
    wrong "not told once by $n ranks"
done
kill $h; wait $h 2>/dev/null
$PY hold.py die
shoal data inspect w.h5 >o; rc=$?; cat o
[ $rc = 7 ] && grep -q 'marked as open for writing.*if that is gone: h5clear -s w.h5' o || wrong "exit $rc for the mark of a dead writer"
if command -v h5clear >/dev/null; then
  h5clear -s w.h5 && shoal data inspect w.h5 >o || wrong "the cure does not work"
fi
verdict
