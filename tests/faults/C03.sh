#!/usr/bin/env bash
# C03: the label is in the first column, as in many lists of digits, and the last column is a constant.
# Wanted: the column called label is the label; whoever names the constant one is warned of one class; so is one without header.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
import random
random.seed(1)
rows = [f'{k},{k*20+random.randrange(9)},{random.randrange(255)},{k*7},0\n' for k in (i % 10 for i in range(200))]
open('digits.csv', 'w').write('label,p0,p1,p2,p3\n' + ''.join(rows))
open('plain.csv', 'w').write(''.join(rows))
E
classes() { $PY -c "import h5py; f = h5py.File('$1'); print(f.attrs['classes'], 'classes,', sorted(set(f['train/y'][:])) == list(range(10)))"; }

shoal data import csv digits.csv -o digits.h5 >o || wrong "import of digits.csv: exit $?"
grep label o
[ "$(classes digits.h5)" = "10 classes, True" ] || wrong "the column called label is not the label: $(classes digits.h5)"
grep -q 'warning: .*column 1 because it is called "label"' o || wrong "nothing says why column 1 is the label"
for how in "digits.csv --label p3" "plain.csv"; do
  # shellcheck disable=SC2086
  shoal data import csv $how -o one.h5 >o
  grep warning o
  grep -q 'warning: .*one class only' o || wrong "$how: one class, and no warning"
done
shoal data import csv plain.csv --label 1 -o plain.h5 >o || wrong "--label 1: exit $?"
[ "$(classes plain.h5)" = "10 classes, True" ] || wrong "--label 1 without a header: $(classes plain.h5)"
verdict
