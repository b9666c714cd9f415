#!/bin/sh
# Keeps the anchor of a duckdp ledger in the file $1, on a machine that is not restored together with the ledger's:
#   duckdp.open("clinic.duckdb", anchor=["ssh", "keeper", "keep-anchor.sh", "/srv/clinic.anchor"])
# Reads two lines: what the curator believes to be kept, and what to keep instead. Keeps the second if the first is what
# is kept, on the disk before it answers; answers with what is kept then.
set -eu
exec 9>"$1.lock"
flock 9
IFS= read -r believed
IFS= read -r wanted
kept=$(cat "$1" 2>/dev/null || true)
if [ "$kept" = "$(printf %s "$believed")" ] && [ "$kept" != "$wanted" ]; then
    printf '%s\n' "$wanted" >"$1.new"
    sync "$1.new"
    mv "$1.new" "$1"
    sync "$(dirname "$1")"
    kept=$wanted
fi
printf '%s\n' "$kept"
