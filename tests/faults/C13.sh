#!/bin/bash
# Compressed files: training says what shuffled reads cost, the cure for a plug-in works on a plain machine, arrays that nobody
# uses do not matter, and a run goes on with its data repacked.
. "$(dirname "$0")/case.sh"
$PY - <<'E'
import h5py, numpy as np
v = (np.arange(5000) % 10 * 20).astype('u1')[:, None, None, None]
block = np.ascontiguousarray(np.broadcast_to(v, (5000, 3, 32, 32)))
with h5py.File('big.h5', 'w') as f:
    x = f.create_dataset('X_train', (100000, 3, 32, 32), 'u1', chunks=(5000, 3, 32, 32), compression='gzip', compression_opts=1)
    for i in range(0, 100000, 5000):
        x[i:i + 5000] = block
    f['y_train'] = (np.arange(100000) % 10).astype('i4')
y = (np.arange(400) % 10).astype('i4')
with h5py.File('lzf.h5', 'w') as f:
    f.create_dataset('X_train', data=block[:400], compression='lzf')
    f['y_train'] = y
with h5py.File('note.h5', 'w') as f:
    f['X_train'] = block[:400]
    f['y_train'] = y
    f.create_dataset('thumbnails', data=block[:400], compression='lzf')
x = np.random.default_rng(1).normal(size=(9000, 8)).astype('f4')  # more than opening looks at
y = (np.arange(9000) % 10).astype('i4')
with h5py.File('mine.h5', 'w') as f:
    f['X_train'] = x
    f['y_train'] = y
    f['X_test'] = x[:50]
    f['y_test'] = y[:50]
E
shoal train r.yaml -q --set run.name=big --set data.file=big.h5 --set run.steps=3 >o; cat o
grep -q 'shuffled reads of /X_train unpack 5000 samples each.*shoal data repack' o || wrong "train says nothing about 5000-fold reads"
shoal data inspect big.h5 | tail -1 | grep 'unpack 5000 samples each' || wrong "inspect says nothing about 5000-fold reads"

shoal data inspect lzf.h5 >o; cat o
bash -c "$(grep -o 'python3 -c .*' o | sed "s|^python3|$PY|")" && shoal data inspect lzf.h5.plain.h5 >o || { cat o; wrong "the cure named does not work"; }
shoal data inspect note.h5 | grep error && wrong "an array nobody uses refuses the file"

R="--set run.name=mine --set data.file=mine.h5 --set data.batch=100"
shoal train r.yaml $R --set run.name=whole -q
shoal train r.yaml -q $R --allow-faults --set fault.stop_step=20
shoal data repack mine.h5 -o mine.h5
shoal train r.yaml $R >o; rc=$?; grep -E 'error|normalised' o
[ $rc = 0 ] || wrong "the run does not accept its repacked data: exit $rc"
shoal ckpt diff "$(ls runs/whole/ckpt/*.h5 | tail -1)" "$(ls runs/mine/ckpt/*.h5 | tail -1)" || wrong "the run went on otherwise"
verdict
