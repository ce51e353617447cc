# shellcheck shell=bash
# Shared by the scripts of dev/ and images/: source it after `set -eu`. It sets ROOT (the tree) and NODUS_HOME.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export NODUS_HOME=${NODUS_HOME:-$ROOT/.nodus}
mkdir -p "$NODUS_HOME"
NODUS_HOME=$(cd "$NODUS_HOME" && pwd)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 2; }

need_root() { [ "$(id -u)" = 0 ] || die "must run as root (it creates containers, networks and a database user)"; }

# step LABEL LOGFILE COMMAND...: runs the command with its output in LOGFILE, shows that it is alive (the last line
# of the log every 15 s) and how long it took. On failure prints the end of the log and ends with one sentence.
step() {
  local label=$1 log=$2 began=$SECONDS pid rc=0 tick=0 last
  shift 2
  mkdir -p "$(dirname "$log")"
  printf '%s ...\n' "$label"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    tick=$((tick + 1))
    if [ $((tick % 75)) = 0 ]; then
      last=$(tail -n 1 "$log" 2>/dev/null | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | tr -dc '[:print:]' | cut -c1-90)
      printf '  . %ss  %s\n' $((SECONDS - began)) "$last"
    fi
  done
  wait "$pid" || rc=$?
  trap - INT TERM
  if [ "$rc" != 0 ]; then
    tail -n 40 "$log" >&2
    die "$label failed with code $rc after $((SECONDS - began))s; the whole output is in $log"
  fi
  printf '%s: done in %ss\n' "$label" $((SECONDS - began))
}

# The identity of a process: its start time since boot. A recycled pid has another one.
birth() { local stat; stat=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 1; awk '$1 == "Z" {exit 1} {print $20}' <<<"$stat"; }

# A pid file holds "pid birth". alive FILE prints the pid when that very process still runs.
alive() {
  local pid born
  [ -r "$1" ] && read -r pid born <"$1" && [ -n "${born:-}" ] || return 1
  [ "$(birth "$pid" || true)" = "$born" ] && printf '%s' "$pid"
}
record() { printf '%s %s\n' "$2" "$(birth "$2")" >"$1.new" && mv "$1.new" "$1"; } # record FILE PID

# launch PIDFILE LOGFILE COMMAND...: starts it in a session of its own.
launch() {
  local file=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$file")" "$(dirname "$log")"
  setsid "$@" >>"$log" 2>&1 </dev/null 9>&- &
  record "$file" $! || die "$(basename "$1") ended at once: $(tail -n 1 "$log")"
}

# stop_pid PIDFILE SECONDS [SIGNAL]: SIGTERM (or SIGNAL), waits, then SIGKILL. Nothing to stop is success.
stop_pid() {
  local pid end=$((SECONDS + $2))
  if pid=$(alive "$1"); then
    kill -"${3:-TERM}" "$pid" 2>/dev/null || true
    while alive "$1" >/dev/null; do
      [ "$SECONDS" -lt "$end" ] || { kill -KILL "$pid" 2>/dev/null || true; end=$((SECONDS + 5)); }
      sleep 0.05
    done
  fi
  rm -f "$1"
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

port_busy() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
free_port() { # a port P with P and P+1 free, below the range the kernel hands out
  local port
  for _ in $(seq 100); do
    port=$((10000 + RANDOM % 10000 * 2))
    port_busy "$port" || port_busy $((port + 1)) || { printf '%s' "$port"; return; }
  done
  return 1
}

# hash_of FILES...: one digest over their contents, for "already built from these inputs".
hash_of() { cat "$@" | sha256sum | cut -c1-64; }
