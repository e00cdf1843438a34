#!/usr/bin/env bash
# The bundle and the Debian package (docs/install.md) on fresh systems that have no compiler and none of our packages.
#
#   tests/packages.sh [--root FOLDER]
#
# debootstrap creates a minimal system of this machine's own release once; the bundle is tried in one copy of it, the package in another.
# Neither is built if it is newer than all sources.
#
#   bundle       trains on 1 and 2 ranks with only what is in it, is moved, resumes to the same weights as a run in one go, predicts
#   package      is installed with what it depends on, trains on 2 ranks, has manual, completion and documents, and leaves nothing; the
#                library for C programs is in two packages of its own, with which the example of docs/read.md is built here and run there
#
#   FOLDER/base                 output of debootstrap    FOLDER: --root, or SHOAL_PACKAGES_ROOT, or shoal-packages in the folder for
#         /packages             downloaded by apt        temporary files
#         /bundle, /package     the copies; kept if something failed
#
# Exit codes: 0 both passed, 1 one failed, 2 usage, 77 not possible here, with the reason.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
store=${SHOAL_PACKAGES_ROOT:-${TMPDIR:-/tmp}/shoal-packages}
skip() { echo "skipped: $*"; exit 77; }
while (($#)); do
  case $1 in
    --root) store=${2:?}; shift ;;
    --when-full) [[ ${SHOAL_FULL-} == 1 ]] || skip "only with SHOAL_FULL=1, or by hand: tests/packages.sh" ;; # given by ctest
    *) echo "usage: tests/packages.sh [--root FOLDER]" >&2; exit 2 ;;
  esac
  shift
done
[[ -z ${SHOAL_DISTRO-} ]] || skip "inside tests/distro.sh"
((EUID == 0)) || skip "needs root, for debootstrap and mounts"
PATH=$PATH:/usr/sbin:/sbin
for tool in debootstrap unshare patchelf dpkg-shlibdeps; do command -v $tool >/dev/null || skip "$tool is missing"; done
unshare --mount --pid --ipc --uts --fork true 2>/dev/null || skip "this container cannot create namespaces (CAP_SYS_ADMIN is missing)"
[[ $(ompi_info --version 2>/dev/null) == *" v4."* ]] || skip "bundles are made with Open MPI 4"

mkdir -p "$store/packages/partial"
[[ -O $store && ! -L $store ]] || skip "$store belongs to another user"
chmod 700 "$store"
exec 9>"$store/lock"
flock -n 9 || skip "another tests/packages.sh uses $store"

# ---- what is tried -----------------------------------------------------------------------------------------------------

build=$repo/build/packages
cmake -S "$repo" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSHOAL_TESTS=OFF -DSHOAL_CUDA=OFF >/dev/null
cmake --build "$build" | tail -n 1
cmake --build "$build" --target bundle | tail -n 1
(cd "$build" && cpack -G DEB >cpack.log) || { cat "$build/cpack.log"; exit 1; }
bundle=$(ls "$build"/shoal-*.tar.gz) package=$(ls "$build"/shoal_*.deb) library=$(ls "$build"/libshoalread0_*.deb)
# a program is built with both packages of the library
rm -rf "$build/dev" && mkdir "$build/dev"
for part in "$library" "$build"/libshoalread-dev_*.deb; do dpkg -x "$part" "$build/dev"; done
# shellcheck disable=SC2046
cc "$repo/docs/read.c" $(PKG_CONFIG_PATH=$build/dev/usr/lib/pkgconfig pkg-config --cflags --libs shoalread) -Wl,--allow-shlib-undefined -o "$build/dev/read"
size=$(stat -c %s "$bundle")
((size < 60000000)) || { echo "FAIL: the bundle has $size bytes"; exit 1; }

# ---- fresh systems -----------------------------------------------------------------------------------------------------

# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
proxy() { eval "$(apt-config shell p "Acquire::$1::Proxy")"; [[ ${p-} == DIRECT ]] || echo "${p-}"; }
http_proxy=${http_proxy-$(proxy http)} https_proxy=${https_proxy-$(proxy https)}
export http_proxy https_proxy
if [[ ! -e $store/base.done ]]; then
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $release" | sort -u | head -n 1)
  [[ -n $mirror ]] || skip "no mirror in this machine's apt sources has $release"
  rm -rf "$store/base"
  debootstrap --variant=minbase "$release" "$store/base" "$mirror" >"$store/debootstrap.log" 2>&1 ||
    { tail -n 5 "$store/debootstrap.log"; exit 1; }
  touch "$store/base.done"
fi

fresh() { # NAME: a copy of the base
  rm -rf "${store:?}/$1"
  cp -a --reflink=auto "$store/base" "$store/$1"
  cp -L /etc/resolv.conf /etc/hosts "$store/$1/etc/"
  apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv)' >"$store/$1/etc/apt/apt.conf.d/80host" || true
  mkdir "$store/$1/try"
}
inside() { # NAME COMMAND...
  unshare --mount --pid --ipc --uts --net --fork --kill-child --propagation private bash -euc '
    system=$1
    shift
    ip link set lo up 2>/dev/null || true
    mount -t proc proc "$system/proc"
    mount --rbind /dev "$system/dev"
    mount --rbind /sys "$system/sys"
    mount -t tmpfs -o mode=1777 shm "$system/dev/shm"
    exec chroot "$system" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' - "$store/$1" "${@:2}" </dev/null
}
inside_with_network() { # the same, to install
  unshare --mount --pid --fork --kill-child --propagation private bash -euc '
    mount -t proc proc "$1/proc"
    mount --bind "$2" "$1/var/cache/apt/archives"
    exec chroot "$1" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
      "http_proxy=$http_proxy" "https_proxy=$https_proxy" "${@:3}"' - "$store/$1" "$store/packages" "${@:2}" </dev/null
}

cat >"$store/digits.yaml" <<'END'
run:    { name: digits, seed: 1, epochs: 1 }
model:  { name: mlp, widths: [32] }
data:   { file: glyphs.h5, global_batch: 50 }
optim:  { name: sgd, lr: 0.1, momentum: 0.9 }
method: { name: sync }
END
failed=0
try() { # NAME: the function try_NAME, which must end with every command's success
  local log=$store/$1.log
  if (set -e; "try_$1") >"$log" 2>&1; then
    echo "PASS: $1"
    rm -rf "${store:?}/$1"
  else
    echo "FAIL: $1, log in $log"
    failed=1
  fi
}
# set -e does not hold in a condition, so each trial is a shell of its own inside
try_bundle() {
  fresh bundle && tar -xzf "$bundle" -C "$store/bundle/opt" && cp "$store/digits.yaml" "$store/bundle/try/" &&
    inside bundle bash -euxc '
      cd /try
      if command -v cc gcc ssh mpirun; then exit 1; fi
      bin=$(echo /opt/shoal-*/bin)
      $bin/shoal data synth glyphs -o glyphs.h5 --train 1000 --test 100
      $bin/shoal launch digits.yaml --set run.name=alone
      $bin/shoal launch digits.yaml -n 2
      $bin/shoal launch digits.yaml -n 2 --set run.name=whole --set run.epochs=2
      mv /opt/shoal-* "/opt/another place"
      export PATH="/opt/another place/bin:$PATH"
      shoal launch digits.yaml -n 2 --set run.epochs=2
      shoal ckpt diff runs/digits/ckpt/step-000000040.h5 runs/whole/ckpt/step-000000040.h5
      $(shoal launch digits.yaml -n 2 --set run.name=pasted --print | grep -v "^#" | sed "s|\x27[^ ]* place[^ ]*\x27|shoal|")
      shoal ckpt diff runs/digits/ckpt/step-000000020.h5 runs/pasted/ckpt/step-000000020.h5
      shoal predict runs/digits glyphs.h5 -o p.csv
      test "$(wc -l <p.csv)" = 101'
}
try_package() {
  fresh package && cp "$store/digits.yaml" "$package" "$library" "$build/dev/read" "$store/package/try/" &&
    printf '#!/bin/sh\nexit 101\n' >"$store/package/usr/sbin/policy-rc.d" && chmod 755 "$store/package/usr/sbin/policy-rc.d" &&
    rm -f "$store/package/etc/dpkg/dpkg.cfg.d/"* && # may leave out manuals and documents
    inside_with_network package bash -euxc '
      apt-get update -qq
      find / -xdev -path "/usr/*" | grep -v __pycache__ | sort >/try/before
      apt-get install -y -qq --no-install-recommends /try/shoal_*.deb
      dpkg -s shoal | grep -E "^(Depends|Version|Installed-Size)"
      if ldconfig -p | grep libshoalread; then exit 1; fi
      apt-get install -y -qq --no-install-recommends /try/libshoalread0_*.deb' &&
    inside package bash -euxc '
      cd /try
      shoal data synth glyphs -o glyphs.h5 --train 1000 --test 100
      shoal launch digits.yaml -n 2
      shoal predict runs/digits glyphs.h5
      for file in man/man1/shoal-train.1.gz man/man5/shoal-run.5.gz bash-completion/completions/shoal zsh/site-functions/_shoal \
                  doc/shoal/README.md doc/shoal/copyright; do test -s /usr/share/$file; done
      ldconfig -p | grep libshoalread.so.0
      ./read glyphs.h5 runs/digits runs/digits/trace/attempt-0001-node-00000.h5 | grep "data: 1000 training and 100 test samples"
      grep -F "set prefix {/usr}" /usr/share/modulefiles/shoal/*
      dpkg --verify shoal libshoalread0' &&
    inside_with_network package bash -euxc '
      apt-get purge -y -qq shoal libshoalread0
      apt-get autoremove -y -qq
      find / -xdev -path "/usr/*" | grep -v __pycache__ | sort >/try/after
      if comm -13 /try/before /try/after | grep shoal; then exit 1; fi'
}
echo "$(basename "$bundle"): $((size / 1000000)) MB; $(basename "$package"): $(($(stat -c %s "$package") / 1000000)) MB; on a fresh $release"
try bundle
try package
exit $failed
