#!/usr/bin/env bash
# C02: ~ and $VARIABLES in paths of the run file, of flags and of the environment.
# Wanted: expanded in every path option, or refused with the path to write; no folder called ~ or $HOME is made.
source "$(dirname "$0")/case.sh"

export HOME=$PWD/home
mkdir home
cp g.h5 home
made() { [ -e "./$1" ] && wrong "a folder called $1 was made"; }
shoal train r.yaml -q --set run.dir='~/runs' || wrong "run.dir=~/runs: exit $?"
made '~'
[ -f home/runs/r/log.txt ] || wrong "run.dir=~/runs is not in the home folder"
shoal train r.yaml -q --set run.dir='$HOME/more' || wrong "run.dir=\$HOME/more: exit $?"
made '$HOME'
[ -f home/more/r/log.txt ] || wrong "run.dir=\$HOME/more is not in the home folder"
SHOAL_RUN_DIR='${SCRATCH}/runs' shoal train r.yaml -q >o
[ $? = 2 ] || wrong "a variable that is not set was accepted"
cat o
grep -q 'SHOAL_RUN_DIR.*SCRATCH is not set' o || wrong "nothing says which variable is not set"
made '${SCRATCH}'
shoal train r.yaml -q --set data.file='~/g.h5' || wrong "data.file=~/g.h5: exit $?"
grep -q "$HOME/g.h5" runs/r/log.txt || wrong "the log does not name the data set by its whole path"
shoal train r.yaml -q --set run.name=more --set run.epochs=3 --resume '~/runs/r/ckpt/step-000000100.h5' ||
  wrong "--resume ~/…: exit $?"
shoal data synth glyphs -o '~/new.h5' --train 10 --test 10 >/dev/null || wrong "-o ~/new.h5: exit $?"
[ -f home/new.h5 ] || wrong "-o ~/new.h5 is not in the home folder"
shoal train '~/r.yaml' -q >o && wrong "the shell did not expand the run file, and nothing says so"
cat o
# in YAML a lone ~ is null: the run would be in this folder
sed 's/name: r,/name: nul, dir: ~,/' r.yaml >n.yaml
shoal train n.yaml -q >o
[ $? = 2 ] || wrong "dir: ~ was accepted"
cat o
grep -q 'write ~/' o || wrong "nothing says how to write the home folder"
[ -d nul ] && wrong "dir: ~ put the run into ./nul"
verdict
