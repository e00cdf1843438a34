#!/usr/bin/env bash
# C23: semicolons between fields and a comma in the numbers, a line "sep=;", UTF-16, a byte-order mark.
# Wanted: never labels such as "5;1" with exit 0; the numbers that are meant, with "decimal comma" said; "sep=;" named; UTF-16
# called UTF-16; what could be thousands refused with the option that settles it.
source "$(dirname "$0")/case.sh"

$PY - <<'E'
def w(name, text, **how): open(name + '.csv', 'w', newline='', **how).write(text)
two = [f'{i % 10},5;{i % 7},25;{i % 2}\n' for i in range(60)]
w('one', ''.join(f'{i % 10 // 2},{i % 10};{i % 2}\n' for i in range(60)))
w('two', ''.join(two))
w('head', 'u;v;y\n' + ''.join(two))
w('mark', 'u;v;y\n' + ''.join(two), encoding='utf-8-sig')
w('tabs', 'u\tv\ty\n' + ''.join(two).replace(';', '\t'))
w('sep', 'sep=;\r\nu;v;y\r\n' + ''.join(f'{i % 10}.5;{i % 7}.25;{i % 2}\r\n' for i in range(60)))
w('bars', 'u|v|y\n' + ''.join(f'{i % 10}.5|{i % 7}.25|{i % 2}\n' for i in range(60)))
w('utf16', 'u;v;y\n1;2;0\n', encoding='utf-16')
w('utf16le', 'u;v;y\n1;2;0\n', encoding='utf-16-le')
w('thousands', ''.join(f'{i % 9 + 1},250;{i % 7 + 1},500;{i % 2}\n' for i in range(60)))
w('both', ''.join(f'{i % 9},{i % 7};x{i % 5},{i % 2}\n' for i in range(60)))
E
check() { $PY -c "
import h5py
f = h5py.File('$1.h5')
got = [(*x, y) for s in ('train', 'test') for x, y in zip(f[s + '/x'][:].tolist(), f[s + '/y'][:].tolist())]
want = [(i % 10 // 2 + i % 10 / 10, i % 2) if '$1' == 'one' else (i % 10 + 0.5, i % 7 + 0.25, i % 2) for i in range(60)]
near = len(got) == 60 and all(abs(a - b) < 1e-6 for p, q in zip(sorted(got), sorted(want)) for a, b in zip(p, q))
print(near and f.attrs['classes'] == 2 and 'class_names' not in f.attrs)"; }
for f in one two head mark tabs sep bars; do
  shoal data import csv $f.csv -o $f.h5 >o || wrong "$f: exit $?"
  grep separated o
  [ "$(check $f)" = True ] || wrong "$f: other numbers or labels than in the file"
  case $f in
  sep) grep -q '"sep=;"' o || wrong "the line sep=; is not named" ;;
  bars) ;;
  *) grep -q 'decimal comma' o || wrong "$f: the decimal comma is not named" ;;
  esac
done
for f in utf16:UTF-16 utf16le:UTF-16 thousands:--decimal both:--separator; do
  shoal data import csv ${f%:*}.csv -o x.h5 >o && wrong "${f%:*}: exit 0"
  grep error o
  grep -q -- "error: .*${f#*:}" o || wrong "${f%:*}: the cause is not named"
done
shoal data import csv thousands.csv --decimal , -o x.h5 >o || wrong "thousands --decimal ,: exit $?"
most=$($PY -c "import h5py; print(h5py.File('x.h5')['train/x'][:].max())")
[ "$most" = 9.25 ] || wrong "--decimal , is not used: the largest number is $most"
verdict
