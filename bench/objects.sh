#!/bin/bash
# Reading objects, and what telling watchers costs, on a private PostgreSQL with fsync on.
set -e
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target bench_objects | tail -1
exec build/release/bin/bench_objects "$@"
