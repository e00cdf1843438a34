#!/usr/bin/env bash
# Real data to a stated accuracy, on 4 ranks:  accuracy.sh SHOAL DATA [mnist|cifar10]...
# DATA holds cifar10/*.gz and mnist/*.gz.  Prints the last row of metrics.csv and fails below the bound:
# MNIST (9 000 to train, 1 000 to test) mlp 94 %, CIFAR-10 (20 000 and 5 000) resnet20 60 %.
set -euo pipefail
shoal=$(realpath "$1") data=$(realpath "$2")
shift 2
jobs=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../jobs")
source "$jobs/packages.sh"
shoal_mpi_environment
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

run() { # run NAME BOUND ARGS...
  local name=$1 bound=$2
  shift 2
  mpirun -n 4 --oversubscribe --bind-to none "$shoal" train "$@" --set run.name="$name" >"$name.log" 2>&1 || { cat "$name.log"; exit 1; }
  tail -n 1 "runs/$name/metrics.csv" | awk -F, -v name="$name" -v bound="$bound" '
    { printf "%s: %d epochs, %.0f s, test accuracy %.2f %% (bound %.0f %%)\n", name, $1, $3, 100 * $6, 100 * bound; exit !($6 >= bound) }'
}

for what in "${@:-mnist}"; do
  case $what in
    mnist)
      "$shoal" data import idx "$data"/mnist/*.gz --train-count 9000 -o digits.h5 >/dev/null
      run mnist 0.94 "$jobs/digits.yaml" ;;
    cifar10)
      "$shoal" data import cifar10 "$data"/cifar10/*.gz -o cifar10.h5 >/dev/null
      run cifar10 0.60 "$jobs/cifar10.yaml" --set run.epochs=8 ;;
    *) echo "accuracy.sh: no data set $what" >&2; exit 2 ;;
  esac
done
