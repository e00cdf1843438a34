#!/usr/bin/env bash
# C05: NaN in the data, which a relu hid for hundreds of steps; then the learning rate was blamed.
# Wanted: a stop in the step that reads it, with sample, array and feature, also on several ranks; a warning for the test split;
# the rate is not blamed.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
import h5py, numpy as np
r = np.random.default_rng(1)
x = r.normal(size=(400, 16)).astype('f4')
y = (x[:, 0] > 0).astype('i4')
for name, array, sample, value in (('train', 'X_train', 377, np.nan), ('test', 'X_test', 5, np.nan), ('inf', 'X_train', 12, np.inf)):
    with h5py.File(name + '.h5', 'w') as f:
        f['X_train'], f['y_train'], f['X_test'], f['y_test'] = x, y, x[:100], y[:100]
        f[array][sample, 3] = value
E
told() { # FILE SAMPLE VALUE: one line, exit 6, nothing about the rate
  [ "$code" = 6 ] || wrong "$1: exit $code"
  grep -q "sample $2 of /X_train is not finite: feature 3 is $3" o || wrong "$1: not told: $(cat o)"
  grep -q 'optim.lr' o && wrong "$1: blames the rate"
}
shoal train r.yaml --set run.name=a --set data.file=train.h5 --set run.epochs=20 >o; code=$?
told train 377 nan
grep -q 'epoch 2 done' o && wrong 'went on for a second epoch'
mpi 3 train r.yaml --set run.name=b --set data.file=train.h5 >o; code=$?
told ranks 377 nan
shoal train r.yaml --set run.name=c --set data.file=inf.h5 >o; code=$?
told inf 12 inf
shoal train r.yaml --set run.name=d --set data.file=test.h5 >o || wrong "test split: exit $?"
grep -q 'warning.*sample 5 of /X_test is not finite' o || wrong 'test split: silent'
grep -qE 'nan|inf' runs/d/metrics.csv runs/d/status.json && wrong 'a nan in what is written'
verdict
