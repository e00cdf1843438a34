#!/usr/bin/env bash
# Makes a relocatable archive of an installed tree with the libraries that it needs, all but those of glibc: for machines where
# nothing can be installed.  It runs wherever glibc is at least that of the machine that made it.
#
#   bundle.sh TREE NAME ARCHIVE.tar.gz      needs patchelf, and Open MPI 4, whose parts can be moved by one variable
#
#   NAME/bin/shoal          its own libraries before any in LD_LIBRARY_PATH: another Open MPI there would not fit the plugins
#       /bin/mpirun         a script: says where the plugins are, and starts libexec/mpirun
#       /lib/*.so*          libraries; ucx/, pmix/: plugins of UCX and PMIx
#       /lib/shoal-bundle   tells shoal that it is in a bundle: src/cli/bundle.c says where the plugins are, as bin/mpirun does
#       /lib/.../*.so       plugins of Open MPI, at the same place below NAME as below its prefix
set -euo pipefail
tree=$1 name=$2 archive=$3
fail() { echo "bundle: $*" >&2; exit 1; }
for tool in patchelf ompi_info; do
  command -v $tool >/dev/null || fail "$tool is missing: install it (Debian: patchelf, openmpi-bin)"
done
mpi_says() { ompi_info "$@" --parsable | cut -d: -f3; }
[[ $(ompi_info --version) == *" v4."* ]] || fail "only bundles with Open MPI 4 work, and this is $(ompi_info --version | head -n 1)"
prefix=$(mpi_says --path prefix) plugins=$(mpi_says --path pkglibdir) texts=$(mpi_says --path pkgdatadir)
for folder in "$plugins" "$texts"; do
  [[ $folder == "${prefix%/}"/* ]] || fail "$folder of Open MPI is not below its prefix $prefix"
done

work=$(mktemp -d "$archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
out=$work/$name
cp -a "$tree" "$out"
mkdir "$out/libexec"

# ---- Open MPI: its launcher, its plugins without those of OpenSHMEM, the texts of its messages

here() { echo "$out/${1#"${prefix%/}"/}"; }
cp -L "$(command -v mpirun)" "$out/libexec/mpirun"
cat >"$out/bin/mpirun" <<'END'
#!/bin/sh
# mpirun of this bundle, wherever it lies.
bundle=$(dirname "$(dirname "$(readlink -f "$0")")")
export OPAL_PREFIX="$bundle" PMIX_MCA_mca_base_component_path="$bundle/lib/pmix"
exec "$bundle/libexec/mpirun" "$@"
END
chmod 755 "$out/bin/mpirun"
mkdir -p "$(here "$plugins")" "$(here "$texts")"
cp -L "$plugins"/mca_*.so "$(here "$plugins")/"
rm -f "$(here "$plugins")"/mca_{spml,scoll,memheap,sshmem,atomic}_*.so
cp -L "$texts"/*.txt "$(here "$texts")/"

# ---- what these load, and the plugins of what they load

# The parts of glibc must be of one build with the loader of the machine.
glibc='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|nss_[a-z]*|anl|mvec|BrokenLocale))\.so[.0-9]*$'
programs() { find "$@" -type f \( -name '*.so*' -o ! -name '*.*' \) | sort -u; }
# ldd also lists what libraries need in turn
loads() { xargs -d '\n' ldd 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 } /not found/ { print "missing: " $1 }' | sort -u; }
added=("$out/bin/shoal" "$out/libexec" "$(here "$plugins")" "$out/lib")
while ((${#added[@]})); do
  libraries=$(programs "${added[@]}" | loads)
  added=()
  while IFS= read -r library; do
    [[ $library =~ $glibc || $library == "$out"/* || -e $out/lib/${library##*/} ]] && continue
    cp -L "$library" "$out/lib/" || fail "a library was not found: $library"
    real=$(readlink -f "$library")
    case ${library##*/} in
    libpmix.so*) plugin="${real%/*}/pmix/*.so" into=$out/lib/pmix ;;
    libuct.so*) plugin="${real%/*}/ucx/*.so.[0-9]" into=$out/lib/ucx ;;
    *) continue ;;
    esac
    compgen -G "$plugin" >/dev/null || continue
    mkdir -p "$into"
    # shellcheck disable=SC2086
    cp -L $plugin "$into/"
    added+=("$into")
  done <<<"$libraries"
done

# RPATH, not RUNPATH, which LD_LIBRARY_PATH would override.
all=("$out/bin/shoal" "$out/libexec" "$(here "$plugins")" "$out/lib")
programs "${all[@]}" | while IFS= read -r file; do
  chmod u+w "$file"
  strip --strip-unneeded "$file" 2>/dev/null || true
  patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to="${file%/*}" "$out/lib")" "$file"
done
outside=$(programs "${all[@]}" | loads | grep -vF "$out/" | grep -vE "$glibc") || true
[[ -z $outside ]] || fail "libraries of this machine are still used: ${outside//$'\n'/ }"

# The modulefile finds the tree from where it lies.
sed -i -e 's|  `cmake --install` wrote it with the prefix of the$|  It lies in the tree that it|' \
  -e 's|^# installation; after.*|# loads, wherever that is.|' \
  -e 's|^set prefix .*|set prefix [file normalize [file dirname $ModulesCurrentModulefile]/../../..]|' "$out"/share/modulefiles/shoal/*
echo "made with $(ompi_info --version | head -n 1), which was in $prefix" >"$out/lib/shoal-bundle"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$archive" "$name"
echo "$archive: $(($(stat -c %s "$archive") / 1048576)) MiB, $(du -sm "$out" | cut -f1) MiB unpacked"
