#!/usr/bin/env bash
# C10: labels that count from 1, a mark for "no label", labels too wide for 32 bits.
# Wanted: class 0 has no sample; 245 of 256 classes have none, is 255 a mark?; 4294967295 and 2^40 are refused with their true
# value, sample and array, and with little memory.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
import struct, h5py, numpy as np
n = 520
y = bytes(1 + i % 26 for i in range(n))
x = b''.join(bytes([9 * v] * 784) for v in y)
open('letters-images', 'wb').write(struct.pack('>4B3I', 0, 0, 8, 3, n, 28, 28) + x)
open('letters-labels', 'wb').write(struct.pack('>4BI', 0, 0, 8, 1, n) + y)
x = np.random.default_rng(1).normal(size=(200, 8)).astype('f4')
for name, dtype, bad in (('v255', 'u1', 255), ('minus', 'i1', -1), ('vu32', 'u4', 2**32 - 1), ('vi64', 'i8', 2**40), ('v2m', 'i4', 2000000)):
    t = (np.arange(200) % 10).astype(dtype)
    t[7] = bad
    with h5py.File(name + '.h5', 'w') as f:
        f['X_train'], f['y_train'] = x, t
E
says() { # EXIT-CODE WORDS COMMAND...
  local code=$1 words=$2 rc
  shift 2
  shoal "$@" >o
  rc=$?
  grep -E 'error|warning' o
  [ $rc = "$code" ] || wrong "$*: exit $rc, wanted $code"
  grep -qE "$words" o || wrong "$*: not told: $words"
}
says 0 'warning: .*1 of 27 classes have no training sample \(0\).*subtract 1' data import idx letters-images letters-labels --train-count 480 -o l.h5
ulimit -v 4000000
says 0 'warning: .*245 of 256 classes .*is 255 \(train sample 7,' data inspect v255.h5
says 7 'error: .*sample 7 of /y_train has label 2000000, the largest of all others is 9' data inspect v2m.h5
says 7 'error: .*/y_train .*-1 of sample 7; .*remove' data inspect minus.h5
says 7 'error: .*/y_train .*4294967295 of sample 7' data inspect vu32.h5
says 7 'error: .*/y_train .*1099511627776 of sample 7' data inspect vi64.h5
verdict
