#!/usr/bin/env bash
# C07: the split that was asked for is the split that is made.
# Wanted: test.csv is the test split; 0 means 0; "test" and "val" are words of a name; val/x is used; options that do nothing
# are errors.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
import h5py, numpy as np
for name, value in (('train', 0.5), ('test', 9.5), ('val', 9.5), ('latest', 0.5)):
    open(f'{name}.csv', 'w').write('u,y\n' + ''.join(f'{value},{i % 2}\n' for i in range(50)))
for n in ('latest_batch_1.bin', 'data_batch_2.bin'):
    open(n, 'wb').write(b''.join(bytes([i % 10]) + bytes(3072) for i in range(20)))
x = np.random.default_rng(1).normal(size=(80, 4)).astype('f4')
y = np.arange(80, dtype='i4') % 2
with h5py.File('val.h5', 'w') as f:
    f['train/x'], f['train/y'], f['val/x'], f['val/y'] = x, y, x[:20], y[:20]
E
n() { $PY -c "
import h5py
f = h5py.File('$1')
print(len(f['train/x']), 'train', len(f['test/x']), 'test', *sorted(set(f['test/x'][:, 0].tolist())) if f['test/x'].ndim == 2 else [])"; }
made() { # WANTED KIND ARGUMENTS...
  local wanted=$1 got
  shift
  rm -f o.h5
  shoal data import "$@" -o o.h5 >o || wrong "$*: exit $?"
  got=$(n o.h5)
  echo "$*: $got"
  [ "$got" = "$wanted" ] || wrong "$*: $got, wanted $wanted"
}
refused() { # WORDS KIND ARGUMENTS...
  local words=$1 rc
  shift
  rm -f o.h5
  shoal data import "$@" -o o.h5 >o
  rc=$?
  grep error o
  [ $rc = 2 ] || wrong "$*: exit $rc, wanted 2"
  grep -q -- "error: .*$words" o || wrong "$*: the option is not named"
  [ ! -e o.h5 ] || wrong "$*: a file was made"
}
made "50 train 50 test 9.5" csv train.csv test.csv
made "50 train 50 test 9.5" csv val.csv train.csv
made "50 train 0 test" csv train.csv --test-share 0
made "90 train 10 test 0.5" csv train.csv latest.csv
made "45 train 5 test 0.5" csv train.csv
made "40 train 10 test 0.5" csv train.csv --train-count 40
made "40 train 0 test" cifar10 latest_batch_1.bin data_batch_2.bin
shoal data inspect val.h5 >o
grep -E 'val/|  test ' o || wrong "val/x, val/y: neither used nor named"
refused "--test-share does nothing" cifar10 data_batch_2.bin --test-share 0.5
refused "--label does nothing" cifar10 data_batch_2.bin --label 3
refused "--train-count and --test-share" csv train.csv --train-count 40 --test-share 0.5
refused "--test-share does nothing: test.csv" csv train.csv test.csv --test-share 0.5
refused "--seed does nothing" csv train.csv test.csv --seed 3
made "50 train 50 test 9.5" csv train.csv val.csv test.csv # test.csv is the test split, val.csv is left out, which is told
verdict
