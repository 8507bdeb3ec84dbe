#!/bin/sh
# What mpirun calls in the place of ssh: agent.sh HOST COMMAND..., the words of which a shell reads.
host=$1
shift
exec "$(dirname "$0")/on_host.sh" "$host" sh -c "$*"
