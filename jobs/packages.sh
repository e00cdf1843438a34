# Sourced by quickstart.sh and tests/run.sh: installs missing Debian or Ubuntu packages, as root or with sudo.  Prints what
# it installs, and does nothing (not even an update) if none is missing.

shoal_packages="gcc libc6-dev make cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libhdf5-dev libhwloc-dev \
libdnnl-dev liblapacke-dev libfyaml-dev libjansson-dev libxxhash-dev libpmix-dev zlib1g-dev libpng-dev libjpeg-dev libzip-dev"

shoal_install() { # shoal_install PACKAGE...
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$p")
  done
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them as root" >&2; return 1; }
    sudo=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# For tests, which call mpirun by hand; `shoal launch` does the same by options.  Open MPI must be told to accept root.  There may be more ranks than cores, so ranks are not bound and yield while they
# wait.  Version 5 launches by PRRTE, which has other names for these settings; each version ignores those of the other.
shoal_mpi_environment() {
  if ((EUID == 0)); then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  export OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
}
