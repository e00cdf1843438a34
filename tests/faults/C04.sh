#!/usr/bin/env bash
# C04: a table as pandas writes it: numbers as column names, and an index column without a name.
# Wanted: 40 samples, classes 0 and 1, 3 features; a numeric header and a dropped column are named; what cannot be told apart
# is refused with the option that settles it.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
rows = [[i % 2 + 0.1 * j for j in range(3)] + [i % 2] for i in range(40)]
def w(name, head, index):
    with open(name, 'w') as f:
        f.write(head + '\n')
        for i, r in enumerate(rows):
            f.write((f'{i},' if index else '') + ','.join(map(str, r)) + '\n')
w('a.csv', '0,1,2,3', False)
w('b.csv', '0,1,2,y', False)
w('c.csv', ',0,1,2,3', True)
w('d.csv', ',u,v,w,y', True)
w('e.csv', 'Unnamed: 0,u,v,w,y', True)
open('f.csv', 'w').write('0,1\n' + ''.join(f'{i % 7},{i % 2}\n' for i in range(40)))
E
look() { $PY -c "
import h5py
f = h5py.File('$1')
x = f['train/x'][:].tolist() + f['test/x'][:].tolist()
want = sorted([i % 2, i % 2 + 0.1, i % 2 + 0.2] for i in range(40))
near = all(abs(a - b) < 1e-6 for p, q in zip(sorted(x), want) for a, b in zip(p, q))
print(len(x), 'samples,', len(x[0]), 'features,', f.attrs['classes'], 'classes,', near)"; }
for f in a b c d e; do
  shoal data import csv $f.csv -o $f.h5 >o || wrong "$f: exit $?"
  grep -E 'header|dropped|error|warning' o
  [ "$(look $f.h5)" = "40 samples, 3 features, 2 classes, True" ] || wrong "$f: $(look $f.h5)"
  case $f in
  a | c) grep -q 'warning: .*the first row counts.*header' o || wrong "$f: the header is not named" ;;
  esac
  case $f in
  c | d | e) grep -q 'warning: .*column 1,.* numbers the rows.*dropped' o || wrong "$f: the index is not named" ;;
  esac
done
shoal data import csv f.csv -o f.h5 >o && wrong "f: a first row 0,1 is taken for something, exit 0"
grep error o
grep -q 'error: .*--header yes or --header no' o || wrong "f: the cure is not named"
for header in yes no; do
  shoal data import csv f.csv --header $header -o f.h5 >o || wrong "f --header $header: exit $?"
  n=$($PY -c "import h5py; f = h5py.File('f.h5'); print(len(f['train/x']) + len(f['test/x']))")
  [ "$header $n" = "yes 40" ] || [ "$header $n" = "no 41" ] || wrong "f --header $header: $n samples"
done
verdict
