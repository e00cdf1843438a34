# What the cases C*.sh share; each is a fault that users of other programs reported, retold as a small input.  Sourced.
#
#   SHOAL          the program; PY: a Python with h5py and NumPy
#   shoal ARGS     runs it with a time limit; both streams are standard output
#   mpi N ARGS     the same on N ranks
#   wrong WORDS    notes a fault; verdict ends the case with RIGHT or WRONG
#
# A case runs in a folder of its own, with the data set g.h5 and the run file r.yaml.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
bad=0
shoal() { timeout 60 "$SHOAL" "$@" 2>&1; }
mpi() { local n=$1; shift; timeout 60 mpirun -n "$n" --oversubscribe --bind-to none "$SHOAL" "$@" 2>&1; }
wrong() { echo "WRONG: $*"; bad=1; }
verdict() { [ $bad = 0 ] && echo "verdict: RIGHT" || echo "verdict: WRONG"; exit $bad; }
folder=$(mktemp -d) && cd "$folder" || exit 1
trap 'cd /; rm -rf "$folder"' EXIT
exec 2>&1
printf '%s\n' 'run:   { name: r, epochs: 2 }' 'model: { name: mlp, widths: [32] }' 'data:  { file: g.h5, batch: 8 }' \
              'optim: { lr: 0.05 }' >r.yaml
shoal data synth glyphs -o g.h5 --train 400 --test 100 >/dev/null
