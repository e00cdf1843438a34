#!/usr/bin/env bash
# A Slurm cluster of several nodes on one machine, for tests and for trying things by hand.
#
# A node is a network namespace with an own host name, /tmp, /dev/shm and SysV memory, and a slurmd in it.  Slurm and MPI
# cannot tell it from a machine: ranks of one node share memory, ranks of two nodes talk TCP through a link that `shape`
# can make as slow as a real one.  Programs and files are the machine's own.
#
#   shoal-head   slurmctld, munged, bridge 10.83.0.254      (where `exec` runs srun and sbatch)
#     | n1 --- eth0 of shoal-n1   slurmd, 10.83.0.1         a veth pair per node; `shape` limits both of its ends
#     | n2 --- eth0 of shoal-n2   slurmd, 10.83.0.2
#     ...
#
# The bridge lives in a namespace too, so the machine's own network is neither used nor changed, and with the namespaces
# everything is gone.  Whatever is started is written down first (state folder, `pids` with start times), and `down` ends
# exactly that and what runs inside these namespaces, also after an `up` that was killed half-way.  Should nobody call
# it, a watchdog does after SHOAL_CLUSTER_MINUTES, or when the process that `up --follow` was called by is gone.
#
# It needs root, for namespaces.  Exit codes: 0 done, 1 failed or (status) not up, 2 usage, 3 the machine's one cluster
# belongs to another state folder, 77 cannot work here: no root, or a package is missing.
set -euo pipefail

self=$(readlink -f "${BASH_SOURCE[0]}")
dir=$(readlink -m "${SHOAL_CLUSTER_DIR:-/tmp/shoal-cluster}")
minutes=${SHOAL_CLUSTER_MINUTES:-60}
lock=/run/shoal-cluster.lock # one cluster per machine: holds the state folder of whoever has it
subnet=10.83.0
export SLURM_CONF=$dir/etc/slurm.conf
# All nodes share this machine's cores, which MPI does not know: ranks that wait must let the others run.
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}

usage() {
  cat <<USAGE
usage: cluster.sh VERB
  up [N] [--fresh] [--follow] [--share DIR]...
                      start N nodes (4); --fresh: even if it is up; --follow: end it with the calling process;
                      --share: a folder below /tmp that the nodes, whose /tmp is their own, shall see all the same
  down                end it, and remove all that was written below its folder; does nothing when there is nothing
  shape RATE|off      limit every node's link, both ways, as in 200mbit
  fail NODE           as without power: its link is dead, and all that ran there, before anybody could say a word; Slurm finds out
                      after 15 s, or by: scontrol update NodeName=NODE State=DOWN Reason=failed
  heal NODE           start it again
  status              nodes, links and time left; exit 1 if it is not up
  exec COMMAND...     run srun, sbatch, squeue, ... on it
  check               can a cluster be made here? exit 77 and a line if not
  env                 for a shell, so that these commands are on its PATH, also for what it starts, as shoal submit:
                      eval "\$($0 env)"; srun -N4 hostname
  logs                the last lines of every daemon
  bytes               node, received and sent bytes, received and sent packets of every node's link
Jobs may write to $dir/work, which all nodes see.  SHOAL_CLUSTER_DIR chooses another state folder than
/tmp/shoal-cluster, SHOAL_CLUSTER_MINUTES (60) how long it may live.
USAGE
}

say() { echo "cluster: $*"; }
die() { # CODE TEXT
  say "${@:2}" >&2
  exit "$1"
}

# ---- what can be done here ---------------------------------------------------------------------------------------------

require() { # COMMAND PACKAGE
  [[ -x $(type -P "$1") ]] || die 77 "skipped: $1 is missing (package $2)"
}

# Slurm's configuration takes no blanks, and a socket's path, ours with some 35 characters behind it, at most 107.
check_settings() {
  [[ $dir =~ ^[A-Za-z0-9._/+-]+$ ]] || die 2 "SHOAL_CLUSTER_DIR is $dir: only letters, digits and ._/+- can be used"
  ((${#dir} <= 70)) || die 2 "SHOAL_CLUSTER_DIR is $dir: at most 70 characters can be used"
  [[ $minutes =~ ^[0-9]{1,6}$ ]] || die 2 "SHOAL_CLUSTER_MINUTES is $minutes: must be whole minutes"
}

check_root() { ((EUID == 0)) || die 77 "skipped: a cluster of network namespaces needs root"; }

check_machine() {
  check_root
  require slurmctld slurmctld
  require slurmd slurmd
  require srun slurm-client
  require munged munge
  require ip iproute2
  require tc iproute2
  { unshare --net --uts --mount --ipc true && ip netns add "shoal-try-$$" && ip netns del "shoal-try-$$"; } 2>/dev/null ||
    die 77 "skipped: this container may not make namespaces (CAP_SYS_ADMIN is missing)"
  check_pmix
}

# srun lists its plugins only with a configuration; it need not be that of a running cluster.
check_pmix() {
  local config types
  config=$(mktemp)
  printf 'ClusterName=shoal\nSlurmctldHost=localhost\n' >"$config"
  types=$(SLURM_CONF=$config srun --mpi=list 2>&1 | xargs)
  rm -f "$config"
  [[ " $types " == *" pmix "* ]] ||
    die 77 "skipped: this Slurm has no PMIx plugin (package slurm-wlm-basic-plugins); srun --mpi=list says: $types"
}

# ---- who has the machine's one cluster -----------------------------------------------------------------------------------

# Tells a process from a later one with its number; field 22, counted behind the name in parentheses.  One that has ended and that
# nobody waits for (Z) is none.
start_time() { # PID
  local stat fields
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -r -a fields <<<"${stat##*) }"
  [[ ${fields[0]} != Z ]] || return 1
  echo "${fields[19]}"
}

alive() { [[ $(start_time "$1") == "$2" ]]; } # PID START

# Anybody may make a folder in /tmp.  What is read from a state folder ends processes and is computed with, as root, so it
# must be a folder of our own that nobody else can write to.
is_own_folder() { # FOLDER
  local facts
  [[ -d $1 && ! -L $1 ]] && facts=$(stat -c '%u %a' "$1") && [[ $facts =~ ^"$EUID "[0-7]?[0-7][0145][0145]$ ]]
}

# Processes written down in a folder, as "PID START NAME", that still are what was written down: same start, and ours.
recorded() { # FOLDER
  local pid start name
  is_own_folder "$1" && [[ -f $1/pids && ! -L $1/pids ]] || return 0
  while read -r pid start name; do
    [[ $pid =~ ^[1-9][0-9]{0,9}$ && $start =~ ^[0-9]{1,18}$ ]] && ((pid > 1)) || continue
    [[ $(stat -c %u "/proc/$pid" 2>/dev/null) == "$EUID" ]] && alive "$pid" "$start" || continue
    echo "$pid $start $name"
  done <"$1/pids"
}

any_alive() { # FOLDER: does a recorded process of that cluster still run?
  [[ -n $(recorded "$1" | grep -v ' watchdog$') ]]
}

# Verbs that change something exclude each other; the lock's text says whose the cluster is.
take_lock() {
  exec 9<>"$lock"
  flock -w 60 9 || die 1 "another cluster.sh has been busy for a minute"
}

holder() { head -n 1 "$lock" 2>/dev/null || true; }

refuse_second_user() {
  local other
  other=$(holder)
  if [[ -n $other && $other != "$dir" ]] && any_alive "$other"; then
    die 3 "the cluster of $other runs on this machine, and there can be only one; to end it:" \
      "SHOAL_CLUSTER_DIR=$other $self down"
  fi
}

# ---- the state folder ----------------------------------------------------------------------------------------------------

# Ours, and what a check that was killed left.
namespaces() {
  local name rest
  while read -r name rest; do
    if [[ $name =~ ^shoal-(head|n[0-9]+)$ || ($name =~ ^shoal-try-([0-9]+)$ && ! -d /proc/${BASH_REMATCH[1]}) ]]; then
      echo "$name"
    fi
  done < <(ip netns list 2>/dev/null)
}
number() { # FILE: the number in it, or 0
  local text=
  [[ -f $1 ]] && read -r text <"$1" || true
  if [[ $text =~ ^[0-9]{1,18}$ ]]; then echo $((10#$text)); else echo 0; fi
}
nodes() { number "$dir/nodes"; }

check_state() {
  [[ ! -e $dir && ! -L $dir ]] || is_own_folder "$dir" ||
    die 2 "$dir is not a folder that belongs to us and that only we can write to; choose another SHOAL_CLUSTER_DIR"
}

# Slurm's commands for shells outside.  What they start finds them, too, on the head and in jobs, where they are Slurm's own.
write_commands() {
  local command
  mkdir -p "$dir/bin"
  for command in srun sbatch salloc squeue sinfo scontrol scancel; do
    cat >"$dir/bin/$command" <<END
#!/usr/bin/env bash
PATH=\${PATH//"$dir/bin:"/}
[[ \${SLURM_CONF-} == "$SLURM_CONF" ]] || exec env SHOAL_CLUSTER_DIR="$dir" "$self" exec $command "\$@"
exec $command "\$@"
END
    chmod 755 "$dir/bin/$command"
  done
}

# After clean.  The mark comes before anything else, so that `down` takes for ours what an `up` killed at any moment left.
make_state() { # N
  local mark=$dir/.shoal-cluster
  if [[ -e $dir && ! -e $mark && -n $(ls -A "$dir") ]]; then
    die 2 "$dir is not a state folder of this script; choose another SHOAL_CLUSTER_DIR"
  fi
  mkdir -p "$(dirname "$dir")"
  [[ -d $dir ]] || mkdir -m 755 "$dir" || die 1 "cannot make $dir"
  touch "$mark"
  rm -rf "$dir/log"
  mkdir -p "$dir"/{etc,log,munge,run,spool,state,work,node}
  chmod 755 "$dir" "$dir/munge"
  chmod 1777 "$dir/work"
  touch "$dir/pids"
  echo "$1" >"$dir/nodes"
  echo off >"$dir/shape"
  printf '%s\n' "${@:2}" >"$dir/shares"
}

# A daemon of ours, in a namespace, written down at once.  It must not hold the lock or the caller's output.
launch() { # NAME COMMAND...
  local name=$1
  shift
  ( # nothing of the caller's stays open in what outlives it, such as a lock that flock(1) holds
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
    done
    exec setsid "$@"
  ) </dev/null >>"$dir/log/$name.log" 2>&1 &
  echo "$! $(start_time $!) $name" >>"$dir/pids"
  disown
}

inside() { # head|nK COMMAND...   (not `ip netns exec`: that mounts another /sys, and Slurm misses its cgroups)
  nsenter --net="/run/netns/shoal-$1" "${@:2}"
}

# ---- network -------------------------------------------------------------------------------------------------------------

make_network() { # N
  local i
  ip netns add shoal-head
  inside head sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' 2>/dev/null || true # its chatter is counted
  ip -n shoal-head link set lo up
  ip -n shoal-head link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
  ip -n shoal-head addr add "$subnet.254/24" dev br0
  ip -n shoal-head link set br0 up
  for ((i = 1; i <= $1; i++)); do
    ip netns add "shoal-n$i"
    inside "n$i" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' 2>/dev/null || true
    ip -n "shoal-n$i" link set lo up
    ip -n shoal-head link add "n$i" type veth peer name eth0 netns "shoal-n$i"
    ip -n shoal-head link set "n$i" master br0 up
    ip -n "shoal-n$i" addr add "$subnet.$i/24" dev eth0
    ip -n "shoal-n$i" link set eth0 up
  done
}

# tbf lets `burst` bytes through at once: a kernel tick's worth at least, or the rate is not reached.
shape() { # RATE|off
  local i n rate=$1 qdisc=()
  n=$(nodes)
  [[ $rate == off || $rate =~ ^[1-9][0-9]*(kbit|mbit|gbit)$ ]] ||
    die 2 "shape $rate: must be off or a rate such as 200mbit (kbit, mbit, gbit)"
  [[ $rate != off ]] && qdisc=(tbf rate "$rate" burst 128kb latency 50ms)
  for ((i = 1; i <= n; i++)); do
    for end in "shoal-n$i eth0" "shoal-head n$i"; do
      if [[ $rate == off ]]; then
        tc -n "${end% *}" qdisc del dev "${end#* }" root 2>/dev/null || true
      else
        tc -n "${end% *}" qdisc replace dev "${end#* }" root "${qdisc[@]}"
      fi
    done
  done
  echo "$rate" >"$dir/shape"
  say "links: $rate"
}

# The link goes first, so that the other nodes see no connection end.
fail_node() { # nK
  local pid node=${1-}
  is_node "$node" || die 2 "fail $node: give a node, n1 to n$(nodes)"
  ip -n "shoal-$node" link set eth0 down
  grep -qsx "$node" "$dir/failed" || echo "$node" >>"$dir/failed"
  while [[ -n $(ip netns pids "shoal-$node") ]]; do
    for pid in $(ip netns pids "shoal-$node"); do kill -KILL "$pid" 2>/dev/null || true; done
    sleep 0.05
  done
  say "$node has failed"
}

heal_node() { # nK
  local node=${1-}
  grep -qsx "$node" "$dir/failed" || die 2 "heal $node: it has not failed"
  sed -i "/^$node$/d" "$dir/failed"
  ip -n "shoal-$node" link set eth0 up
  start_node "$node"
  say "$node is starting"
}

bytes() {
  local i n
  n=$(nodes)
  for ((i = 1; i <= n; i++)); do # /proc/net/dev: name: rx bytes, packets, 6 more, tx bytes, packets, ...
    # shellcheck disable=SC2016  # awk's own $
    inside "n$i" awk -v node="n$i" '$1 == "eth0:" { print node, $2, $10, $3, $11 }' /proc/net/dev
  done
}

# ---- Slurm ---------------------------------------------------------------------------------------------------------------

slurm_version() { srun --version | awk '{ split($2, v, "."); print v[1] * 100 + v[2] }'; } # 22.05.8: 2205

# Daemons fail and jobs come back within seconds: a requeued job waits for cred_expire (120 s if not told) and for the
# next turn of the backfill scheduler.
write_config() { # N
  local i
  {
    cat <<CONF
ClusterName=shoal
SlurmctldHost=shoal-head($subnet.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=5
MpiDefault=pmix
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=4,batch_sched_delay=0
JobRequeue=1
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=15
KillWait=5
UnkillableStepTimeout=60
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PartitionName=test Nodes=n[1-$1] Default=YES DefaultTime=60 State=UP
CONF
    for ((i = 1; i <= $1; i++)); do echo "NodeName=n$i NodeAddr=$subnet.$i CPUs=4 State=UNKNOWN"; done
  } >"$SLURM_CONF"
  # Nothing here uses control groups, but slurmd looks for some: from 24.05 on it can be told not to; before, the plugin
  # of version 1 is the one that starts whatever the machine has.
  if (($(slurm_version) >= 2405)); then echo "CgroupPlugin=disabled"; else echo "CgroupPlugin=cgroup/v1"; fi >"$dir/etc/cgroup.conf"
}

# Names for addresses without asking any server.
write_hosts() { # N
  local i
  echo "127.0.0.1 localhost" >"$dir/etc/hosts"
  echo "$subnet.254 shoal-head" >>"$dir/etc/hosts"
  for ((i = 1; i <= $1; i++)); do echo "$subnet.$i n$i"; done >>"$dir/etc/hosts"
}

start_daemons() { # N
  local i
  (umask 377 && head -c 1024 /dev/urandom >"$dir/munge/key")
  launch munged nsenter --net=/run/netns/shoal-head munged --foreground --num-threads=2 --key-file="$dir/munge/key" \
    --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed" \
    --origin="$subnet.254" --force
  for ((i = 0; i < 50; i++)); do
    [[ -S $dir/munge/socket ]] && break
    sleep 0.05
  done
  launch slurmctld nsenter --net=/run/netns/shoal-head unshare --uts --mount bash "$self" _head slurmctld -D
  for ((i = 1; i <= $1; i++)); do
    mkdir -p "$dir/spool/n$i" "$dir/node/n$i"
    start_node "n$i"
  done
}

start_node() { # nK
  launch "$1" nsenter --net="/run/netns/shoal-$1" unshare --uts --mount --ipc bash "$self" _node "$1"
}

# Host name and addresses of the namespaces we are in by now.  Slurm calls back whoever asked it under that name.
become() { # NAME
  hostname "$1"
  mount --bind "$dir/etc/hosts" /etc/hosts
}

become_head() { # COMMAND...
  become shoal-head
  exec "$@"
}

# Becomes the slurmd of a node, in namespaces that are its own already.  /tmp and /dev/shm are private: the PMIx plugin and
# MPI keep files there whose names two nodes would share.  What all nodes must see below /tmp is mounted into it again.
become_node() { # nK
  local stage=$dir/node/$1 share
  become "$1"
  mount -t tmpfs -o mode=1777 shoal "$stage"
  while read -r share; do
    [[ $share == /tmp/* ]] || continue
    mkdir -p "$stage${share#/tmp}"
    mount --bind "$share" "$stage${share#/tmp}"
  done < <(echo "$dir" && cat "$dir/shares")
  mount --rbind "$stage" /tmp
  mount -t tmpfs -o mode=1777 shoal /dev/shm
  cd /
  exec slurmd -D -N "$1"
}

idle_nodes() { inside head sinfo -h -N -o %T 2>/dev/null | grep -cx idle || true; }

wait_for_idle() { # N
  local i
  for ((i = 0; i < 300; i++)); do
    [[ $(idle_nodes) == "$1" ]] && return 0
    is_up || break # one of them has ended
    sleep 0.1
  done
  say "after $((i / 10)) s only $(idle_nodes) of $1 nodes are idle" >&2
  return 1
}

show_logs() {
  local log
  for log in "$dir"/log/*.log; do
    [[ -s $log ]] || continue
    echo "---- $log"
    tail -n 8 "$log"
  done
}

# ---- verbs ---------------------------------------------------------------------------------------------------------------

is_up() { # every process written down still runs, but for nodes that were made to fail
  [[ -f $dir/pids ]] || return 1
  (($(recorded "$dir" | wc -l) + $(sort -u "$dir/failed" 2>/dev/null | wc -l) == $(nodes) + 3)) # nodes, munged, slurmctld, watchdog
}

is_node() { [[ $1 =~ ^n[1-9][0-9]?$ ]] && ((${1#n} <= $(nodes))); }

must_be_up() { is_up || die 1 "is not up (state folder $dir); start it: $self up"; }

# Ends what runs in our namespaces (daemons, and jobs that outlived them) and what was written down, then takes the
# namespaces away and with them links and bridge.  Logs stay until the next `up`.
clean() {
  local pid start name ns i found
  for ((i = 0; i < 100; i++)); do
    found=()
    while read -r pid start name; do
      if ((pid != $$)); then found+=("$pid" "-$pid"); fi # with what it runs, as the watchdog's sleep
    done < <(recorded "$dir")
    for ns in $(namespaces); do
      for pid in $(ip netns pids "$ns" 2>/dev/null); do ((pid != $$)) && found+=("$pid"); done
    done
    ((${#found[@]})) || break
    kill -KILL -- "${found[@]}" 2>/dev/null || true
    sleep 0.05
  done
  for ns in $(namespaces); do ip netns del "$ns" || true; done
  if [[ -e $dir/.shoal-cluster ]]; then find "$dir" -mindepth 1 -maxdepth 1 ! -name log ! -name .shoal-cluster -exec rm -rf {} +; fi
  : >"$lock"
}

# shellcheck disable=SC2317 # a trap calls it
up_failed() {
  local code=$?
  if ((code != 77)); then show_logs >&2; say "up failed" >&2; fi
  clean
  exit "$code"
}

up() {
  local n= fresh=0 follow=0 shares=()
  shares=("$(readlink -f "$(dirname "$self")/../..")") # the programs built in this checkout
  while (($#)); do
    case $1 in
    --fresh) fresh=1 ;;
    --follow) follow=$PPID ;;
    --share)
      shift
      [[ -d ${1-} ]] || die 2 "--share ${1-}: needs a folder that exists"
      shares+=("$(readlink -f "$1")")
      ;;
    *)
      [[ -z $n ]] || die 2 "up $n $1: one number of nodes"
      n=$1
      ;;
    esac
    shift
  done
  n=${n:-4}
  check_settings
  [[ $n =~ ^[1-9][0-9]?$ && $n -le 32 ]] || die 2 "up $n: between 1 and 32 nodes"
  check_root
  take_lock # held by our children too: a `down` after we were killed waits for what we have just started
  check_machine
  refuse_second_user
  if ((!fresh)) && is_up; then
    [[ $n == "$(nodes)" ]] || die 2 "a cluster of $(nodes) nodes is up; end it first: $self down"
    say "is up already: $n nodes, state in $dir"
    return
  fi
  trap up_failed EXIT
  trap 'exit 130' INT TERM HUP
  clean
  make_state "$n" "${shares[@]}"
  echo "$dir" >"$lock"
  echo $(($(date +%s) + 10#$minutes * 60)) >"$dir/deadline"
  launch watchdog "$self" _watch "$follow"
  write_config "$n"
  write_commands
  write_hosts "$n"
  make_network "$n"
  start_daemons "$n"
  wait_for_idle "$n"
  trap - EXIT INT TERM HUP
  say "is up: $n nodes of 4 cores, ends itself in $minutes min, and removes $dir/work then, as down does: copy what you keep"
}

down() {
  check_root
  take_lock
  if [[ -z $(holder) || $(holder) == "$dir" ]] || ! any_alive "$(holder)"; then
    clean
    say "is down; all but the logs below $dir is removed"
  else
    say "nothing of $dir runs; the cluster of $(holder) is left alone"
  fi
}

watch() { # PID|0: the process to end with
  local start=
  if (($1)); then start=$(start_time "$1" || true); fi
  while (($(date +%s) < $(number "$dir/deadline"))); do
    if (($1)) && ! alive "$1" "$start"; then break; fi
    sleep 1
  done
  down
}

status() {
  local left
  if ! is_up; then
    say "is not up (state folder $dir)"
    return 1
  fi
  left=$(($(number "$dir/deadline") - $(date +%s)))
  say "is up: $(nodes) nodes, links $(cat "$dir/shape"), ends itself in $((left / 60)) min; state in $dir"
  inside head sinfo -N -o '%N %T %E'
  inside head squeue -o '%i %j %T %M %N'
}

print_env() { echo "export PATH='$dir/bin:'\"\$PATH\""; }

main() {
  local verb=${1-}
  PATH=$PATH:/usr/sbin:/sbin
  (($#)) && shift
  case $verb in up | down | shape | fail | heal | status | logs | exec | bytes) check_state ;; esac
  case $verb in
  up) up "$@" ;;
  down) down ;;
  shape)
    must_be_up
    shape "${1-}"
    ;;
  fail)
    must_be_up
    fail_node "${1-}"
    ;;
  heal)
    must_be_up
    heal_node "${1-}"
    ;;
  status) status ;;
  check) check_machine ;;
  logs) show_logs ;;
  exec)
    must_be_up
    exec nsenter --net=/run/netns/shoal-head unshare --uts --mount bash "$self" _head "$@"
    ;;
  env) print_env ;;
  bytes)
    must_be_up
    bytes
    ;;
  _head) become_head "$@" ;;
  _node) become_node "$1" ;;
  _watch) watch "$1" ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
  esac
}

# On one line: a watchdog must not read on in a file that was replaced meanwhile.
main "$@"; exit
