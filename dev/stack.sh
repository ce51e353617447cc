# shellcheck shell=bash
# The stack of dev/up: where it lives and how its programs are started and ended. Source it after lib.sh.
#   STACK    its directory (--home, default $NODUS_HOME): etc/ run/ log/ pg/ store/ node/ (or node.at)
#   ASSETS   where the tools, images and Kafka's jars are (the NODUS_HOME of whoever started it first)
SERVICES="metering scheduler lifecycle" # in the order of starting
ASSETS=$NODUS_HOME
STACK=$NODUS_HOME
PORTS=7400 BUS=log PRESET=release

# stack_options ARGS...: sets STACK and what the running stack was started with; leaves other arguments in REST.
stack_options() {
  REST=()
  while [ $# -gt 0 ]; do
    case $1 in
    --home) STACK=${2:?--home needs a directory}; shift ;;
    *) REST+=("$1") ;;
    esac
    shift
  done
  mkdir -p "$STACK"
  STACK=$(cd "$STACK" && pwd)
  export NODUS_HOME=$STACK
  # shellcheck disable=SC1090
  [ ! -f "$STACK/etc/stack.env" ] || . "$STACK/etc/stack.env"
  BIN=$ROOT/build/$PRESET/bin
}

# home_option: what other commands need to be told to find this stack.
home_option() { [ "$STACK" = "$ROOT/.nodus" ] || printf ' --home %q' "$STACK"; }

# The node's state: in the stack, or, where its paths would be too long for the runtime's sockets, in a directory of
# /var/lib/nodus named in node.at.
node_dir() {
  if [ ! -s "$STACK/node.at" ]; then
    local dir=$STACK/node
    if [ "${#dir}" -gt 44 ]; then
      mkdir -p /var/lib/nodus
      chmod 711 /var/lib/nodus
      dir=$(mktemp -d /var/lib/nodus/node-XXXXXX)
    fi
    mkdir -p "$dir"
    printf '%s\n' "$dir" >"$STACK/node.at"
  fi
  cat "$STACK/node.at"
}

pid_file() { printf '%s/run/%s.pid' "$STACK" "$1"; }
port_of() {
  case $1 in
  lifecycle) echo "$PORTS" ;;
  scheduler) echo $((PORTS + 1)) ;;
  metering) echo $((PORTS + 2)) ;;
  nodusd) echo $((PORTS + 10)) ;;
  kafka) echo $((PORTS + 20)) ;;
  esac
}
program_of() { [ "$1" = nodusd ] && echo nodusd || echo "nodus-$1"; }
config_of() { printf '%s/etc/%s.yaml' "$STACK" "$1"; }
ready() { curl -fsS -m 2 "http://127.0.0.1:$(port_of "$1")/readyz"; }
any_alive() {
  local name
  for name in $SERVICES nodusd; do
    alive "$(pid_file "$name")" >/dev/null && return
  done
  return 1
}

# with_secrets NAME COMMAND...: only the secrets that the program needs are in its environment.
with_secrets() (
  local name=$1 NODUS_NODE_SECRET NODUS_IDENTITY_SECRET NODUS_NODE_TOKEN NODUS_ENV_KEY NODUS_STRIPE_SECRET NODUS_OPERATOR_TOKEN
  shift
  # shellcheck disable=SC1091
  . "$STACK/etc/secrets.env"
  case $name in
  lifecycle) export NODUS_NODE_SECRET NODUS_IDENTITY_SECRET NODUS_ENV_KEY ;;
  scheduler) export NODUS_NODE_SECRET ;;
  metering) export NODUS_IDENTITY_SECRET NODUS_STRIPE_SECRET NODUS_OPERATOR_TOKEN ;;
  nodusd) export NODUS_NODE_TOKEN ;;
  esac
  "$@"
)

start_program() { # NAME: unless it runs
  local name=$1
  alive "$(pid_file "$name")" >/dev/null && return
  port_busy "$(port_of "$name")" &&
    die "port $(port_of "$name"), which $(program_of "$name") needs, is taken by another program; see dev/up --ports"
  with_secrets "$name" launch "$(pid_file "$name")" "$STACK/log/$name.log" "$BIN/$(program_of "$name")" \
    --config "$(config_of "$name")"
}

await_program() { # NAME SECONDS
  local name=$1 end=$((SECONDS + $2))
  until ready "$name" >/dev/null 2>&1; do
    alive "$(pid_file "$name")" >/dev/null ||
      die "$(program_of "$name") ended while starting: $(tail -n 1 "$STACK/log/$name.log")"
    [ "$SECONDS" -lt "$end" ] ||
      die "$(program_of "$name") did not become ready within $2 s; see $STACK/log/$name.log"
    sleep 0.1
  done
}
