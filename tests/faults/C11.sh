#!/bin/bash
# A wrong label is found before step 1, on any number of ranks, and told once: file, array, sample, label, range.  So is what
# only looks wrong; labels of another form come with a cure that works.
. "$(dirname "$0")/case.sh"
$PY - <<'E'
import h5py, numpy as np
x = np.random.default_rng(1).normal(size=(400, 8)).astype('f4')
y = (np.arange(400) % 10).astype('i4')
for name in ('late_test', 'late_train'):
    a, b = y.copy(), y[:100].copy()
    if name == 'late_test':
        b[3] = 10
    else:
        a[390] = 10
    with h5py.File(name + '.h5', 'w') as f:
        f['train/x'], f['train/y'], f['test/x'], f['test/y'] = x, a, x[:100], b
        f.attrs['classes'] = 10
for name, labels in (('huge', np.where(np.arange(400) == 5, 2**64 - 2, y.astype('u8'))), ('void', np.where(y == 9, -1, y)),
                     ('gap', np.where(y == 3, 4, y)), ('one', 0 * y), ('float', y.astype('f8')), ('text', y.astype('S2')),
                     ('bool', y > 4), ('hot', np.eye(10)[y])):
    with h5py.File(name + '.h5', 'w') as f:
        f['train/x'], f['train/y'] = x, labels
E
run() { local n=$1; shift; if [ $n = 1 ]; then shoal "$@"; else mpi $n "$@"; fi; }
train() { # FILE RANKS EXIT WORDS
  run $2 train r.yaml -q --set run.name=$1 --set data.file=$1.h5 >o; local rc=$?
  grep -E 'error|warning' o
  [ $rc = $3 ] || wrong "$1: exit $rc"
  [ "$(grep -cE -- "$4" o)" = 1 ] || wrong "$1: not told once: $4"
  [ $3 = 0 ] && return
  grep -q '"step": 0' runs/$1/status.json 2>/dev/null || [ ! -e runs/$1/status.json ] || wrong "$1: found after step 1"
}
train late_test 2 7 'error: late_test.h5: 1 labels of /test/y are not in 0 to 9, the first is 10 of sample 3'
train late_train 1 7 'error: late_train.h5: 1 labels of /train/y are not in 0 to 9, the first is 10 of sample 390'
train huge 1 7 'error: huge.h5: sample 5 of /train/y has label 18446744073709551614'
train void 1 7 'error: void.h5: 40 labels of /train/y .*the first is -1 of sample 9; such values often mark'
train gap 2 0 'warning: gap.h5: 1 of 10 classes have no training sample \(3\)'
train one 1 0 'warning: one.h5: one class only: all 400 labels are 0'
for f in float text bool hot; do
  train $f 1 7 "error: $f.h5: /train/y .*python3 -c"
  bash -c "$(grep -o 'python3 -c .*' o | sed "s|^python3|$PY|")" || wrong "$f: the cure fails"
  shoal train r.yaml -q --set run.name=$f --set data.file=$f.h5 --set run.steps=1 >o || { cat o; wrong "$f: the cure does not help"; }
done
verdict
