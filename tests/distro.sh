#!/usr/bin/env bash
# Both commands of the README on a fresh system of another release.
#
#   tests/distro.sh [--root FOLDER] [RELEASE]      trixie, bookworm, noble, ...; trixie if none is given
#
# debootstrap creates a minimal system of the release once; every call runs in a new copy of it, so that a package not listed
# in jobs/packages.sh is missing.  The committed tree is cloned into the copy, and there these are run in turn:
#
#   jobs/quickstart.sh
#   tests/run.sh
#
# Each prints PASS or FAIL, its minutes, and its log.  The copy has its own mount, PID, UTS and IPC namespaces, which end
# with its last process.  Mirror, proxy and name servers are those of this machine's apt.
#
#   FOLDER/RELEASE/base      output of debootstrap       FOLDER: --root, or SHOAL_DISTRO_ROOT, or shoal-distro in the folder for
#                 /packages  packages downloaded by apt          temporary files; about 1 GB per release, 4 GB while running
#                 /ccache    compiler cache
#                 /system    the copy; kept if a command failed
#                 /*.log
#
# Exit codes: 0 both passed, 1 one failed, 2 usage, 77 not possible here, with the reason.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
store=${SHOAL_DISTRO_ROOT:-${TMPDIR:-/tmp}/shoal-distro}
release=trixie

usage() { sed -n 's/^#   \(tests\/distro.*\)/usage: \1/p' "${BASH_SOURCE[0]}" >&2; exit 2; }
skip() { echo "skipped: $*"; exit 77; }

while (($#)); do
  case $1 in
    --root) [[ -n ${2-} ]] || usage; store=$2; shift ;;
    --when-full) [[ ${SHOAL_FULL-} == 1 ]] || skip "only with SHOAL_FULL=1, or by hand: tests/distro.sh" ;; # given by ctest
    -*) usage ;;
    *) release=$1 ;;
  esac
  shift
done
[[ $release =~ ^[a-z]+$ ]] || usage

[[ -z ${SHOAL_DISTRO-} ]] || skip "already inside tests/distro.sh"
((EUID == 0)) || skip "needs root, for debootstrap and mounts"
for tool in debootstrap unshare pivot_root wget git; do
  PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || skip "$tool is missing"
done
PATH=$PATH:/usr/sbin:/sbin
unshare --mount --pid --ipc --uts --fork true 2>/dev/null || skip "this container cannot create namespaces (CAP_SYS_ADMIN is missing)"

# ---- the base, once ----------------------------------------------------------------------------------------------------

place=$(readlink -m "$store")/$release
mkdir -p "$place/packages/partial" "$place/ccache"
[[ -O $place && ! -L $place ]] || skip "$place belongs to another user"
chmod 700 "$place" # it holds a whole system, and this machine's apt settings
exec 9>"$place/lock"
flock -n 9 || skip "another tests/distro.sh uses $place"

proxy() { eval "$(apt-config shell p "Acquire::$1::Proxy")"; [[ ${p-} == DIRECT ]] || echo "${p-}"; }
http_proxy=${http_proxy-$(proxy http)} https_proxy=${https_proxy-$(proxy https)}
export http_proxy https_proxy

# Selects the first of this machine's apt mirrors that has the release; most packages of Ubuntu are in universe.
find_mirror() {
  local site text
  for site in $(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sort -u); do
    text=$(wget -qO- --tries=2 --timeout=30 "$site/dists/$release/InRelease") || continue
    mirror=$site components=main
    [[ $(sed -n 's/^Components://p' <<<"$text") != *universe* ]] || components=main,universe
    return 0
  done
  return 1
}

if [[ ! -e $place/base.done ]]; then
  find_mirror || skip "no mirror in this machine's apt sources has $release"
  rm -rf "$place/base"
  echo "debootstrap $release, log in $place/debootstrap.log"
  debootstrap --variant=minbase --components="$components" --include=ca-certificates,git,ccache --cache-dir="$place/packages" \
    "$release" "$place/base" "$mirror" >"$place/debootstrap.log" 2>&1 || { tail -n 5 "$place/debootstrap.log"; exit 1; }
  touch "$place/base.done"
fi

# ---- the copy, with the source tree ------------------------------------------------------------------------------------------

system=$place/system
rm -rf "$system"
cp -a --reflink=auto "$place/base" "$system"
git clone -q --no-hardlinks "$repo" "$system/root/shoal"
cp -L /etc/resolv.conf /etc/hosts "$system/etc/"
apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv)' >"$system/etc/apt/apt.conf.d/80host" || true
printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d" # packages must not start daemons
chmod 755 "$system/usr/sbin/policy-rc.d"
mkdir -p "$system/.host" "$system/var/cache/ccache"

environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb SHOAL_DISTRO=1
  CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=/var/cache/ccache
  "http_proxy=$http_proxy" "https_proxy=$https_proxy" "no_proxy=${no_proxy-}")

# pivot_root instead of chroot: in a chroot, /proc shows programs in other mount namespaces (nodes of the Slurm cluster) by
# their path outside.  The process is PID 1 of its namespace, so its end also ends everything it started.
inside() { # COMMAND...
  unshare --mount --pid --ipc --uts --fork --kill-child --propagation private bash -euc '
    system=$1 place=$2
    shift 2
    mount --bind "$system" "$system"
    mount -t proc proc "$system/proc"
    mount --rbind /sys "$system/sys"
    mount --rbind /dev "$system/dev"
    mount -t tmpfs -o mode=1777 shm "$system/dev/shm"
    mount -t tmpfs -o mode=755 run "$system/run"
    mount --bind "$place/packages" "$system/var/cache/apt/archives"
    mount --bind "$place/ccache" "$system/var/cache/ccache"
    cd "$system"
    pivot_root . .host
    cd /root/shoal
    umount --lazy /.host
    exec env -i "$@"' - "$system" "$place" "${environment[@]}" "$@" </dev/null
}

# ---- the commands ------------------------------------------------------------------------------------------------------

failed=0
try() { # COMMAND of the README
  local log begin=$SECONDS verdict=PASS
  log=$place/$(basename "$1" .sh).log
  # shellcheck disable=SC2016  # the shell inside expands it
  inside bash -c '"$@"; exit' - "$@" >"$log" 2>&1 || verdict=FAIL
  printf '%s: %s on %s, %d.%d min, log in %s\n' $verdict "$1" "$release" $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60 / 6)) "$log"
  [[ $verdict == PASS ]] || failed=1
}

echo "$release, $(git -C "$repo" log -1 --format='%h %s')"
[[ -z $(git -C "$repo" status --porcelain) ]] || echo "uncommitted changes are not tested"
try jobs/quickstart.sh
try tests/run.sh
grep -E '^[0-9]+% tests passed' "$place/run.log" || true
((failed)) || rm -rf "$system"
exit $failed
