#!/bin/bash
# The event log's figures on a private PostgreSQL with fsync on: each is printed with what it is compared to.
set -e
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target bench_eventlog | tail -1
exec build/release/bin/bench_eventlog "$@"
