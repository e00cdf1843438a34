#!/usr/bin/env bash
# C08: a run goes on with more epochs, another rate or other milestones, and the learning rate jumps.
# Wanted: one warning with both numbers and the reason; none where the rate is what it would have been.
source "$(dirname "$0")/case.sh"

# say NAME WORDS OPTIONS: goes on with the run; the only warning of a jump has these words ("": there is none)
say() {
  local name=$1 words=$2; shift 2
  shoal train r.yaml --set run.name="$name" "$@" >o || wrong "$name: exit $?"
  grep -E 'changed|warning' o
  if [ -n "$words" ]; then
    [ "$(grep -c 'warning: the learning rate goes' o)" = 1 ] || wrong "$name: not one warning"
    grep -qF "warning: the learning rate goes from $words" o || wrong "$name: not \"$words\""
  else
    grep -q 'learning rate goes' o && wrong "$name: warned of a rate that does not change"
  fi
  cut -d, -f1,2,7 "runs/$name/metrics.csv"
}
cosine=(--set optim.schedule=cosine)
shoal train r.yaml -q --set run.name=cos "${cosine[@]}" --set run.epochs=3
say cos "5.483e-06 to 0.025 here: the cosine now covers 6 epochs, not 3" "${cosine[@]}" --set run.epochs=6
say cos "" "${cosine[@]}" --set run.epochs=6 # nothing left to train
say cos "1.371e-06 to 0.004456 here: the cosine now covers 7 epochs, not 6, and optim.lr is now 0.09, not 0.05" \
  "${cosine[@]}" --set run.epochs=7 --set optim.lr=0.09
steps=(--set optim.schedule=step)
shoal train r.yaml -q --set run.name=st "${steps[@]}" --set optim.milestones='[1,2]' --set run.epochs=3
say st "" "${steps[@]}" --set optim.milestones='[1,2]' --set run.epochs=4
say st "0.0005 to 0.05 here: optim.milestones is now [9], not [1, 2]" "${steps[@]}" --set optim.milestones='[9]' --set run.epochs=5
say st "0.05 to 0.1 here: optim.lr is now 0.1, not 0.05, and optim.schedule is now constant, not step" \
  --set optim.lr=0.1 --set run.epochs=6
SHOAL_OPTIM_LR=0.2 say st "0.1 to 0.2 here: optim.lr is now 0.2, not 0.1" --set run.epochs=7 # and 0.1 is not read from there
say st "" --set optim.lr=0.2 --set optim.schedule=step --set optim.milestones='[20]' --set run.epochs=8
verdict
