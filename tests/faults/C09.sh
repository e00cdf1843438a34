#!/bin/bash
# The exported model, and the checkpoint, hold what is needed to use the model: mean, std, kind, sample, classes, names.
. "$(dirname "$0")/case.sh"
shoal train r.yaml >o; cat o
shoal ckpt export "$(ls runs/r/ckpt/step-*.h5 | tail -1)" -o m.h5
$PY - "$(grep -o 'test accuracy.*\|accuracy [0-9.]* %' o | tail -1 | grep -o '[0-9.]*' | head -1)" <<'E' || bad=1
import glob, h5py, numpy as np, sys
with h5py.File('m.h5') as m, h5py.File('g.h5') as g, h5py.File(sorted(glob.glob('runs/r/ckpt/*.h5'))[-1]) as c:
    for f in (m, c):
        a = f.attrs
        assert (a['kind'].decode(), list(a['sample']), a['classes']) == ('images', [1, 28, 28], 10), dict(a)
        assert np.array_equal(a['mean'], g.attrs['mean']) and np.array_equal(a['std'], g.attrs['std']), dict(a)
    x = (g['test/x'][:] - m.attrs['mean'][:, None, None]) / m.attrs['std'][:, None, None]
    h = np.maximum(x.reshape(100, -1) @ m['fc1.weight'][:].T + m['fc1.bias'][:], 0)
    right = ((h @ m['fc2.weight'][:].T + m['fc2.bias'][:]).argmax(1) == g['test/y'][:]).mean()
    print('accuracy from m.h5 alone:', right, 'as trained:', sys.argv[1])
    assert abs(100 * right - float(sys.argv[1])) < 1e-6, 'm.h5 says how to use it'
E
# Names of classes, as the import knew them.
printf 'a,b,kind\n' >n.csv
for i in $(seq 60); do echo "$((i % 7)),$((i % 5)),$([ $((i % 2)) = 0 ] && echo cat || echo dog)"; done >>n.csv
shoal data import csv n.csv -o n.h5 >o || cat o
shoal train r.yaml --set run.name=n --set data.file=n.h5 --set run.steps=2 >o || cat o
shoal ckpt export "$(ls runs/n/ckpt/step-*.h5 | tail -1)" -o n-model.h5
$PY -c "
import h5py
a = h5py.File('n-model.h5').attrs
assert a['class_names'].decode().split('\n') == ['cat', 'dog'], dict(a)
assert (a['kind'].decode(), list(a['sample']), len(a['mean'])) == ('features', [2], 2), dict(a)" || wrong "no names of classes"
shoal ckpt export -h | grep -q "m.attrs\['mean'\]" || wrong "the help does not show how to use it"
verdict
