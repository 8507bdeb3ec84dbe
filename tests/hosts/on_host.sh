#!/bin/sh
# on_host.sh HOST COMMAND...   runs a command in the network namespace HOST as on a machine of its own: with its own
# name, its own shared memory and the names of the other hosts, which the file $ROSSBY_TEST_HOSTS holds.
host=$1
shift
# shellcheck disable=SC2016  # expanded inside
exec ip netns exec "$host" unshare --uts --ipc --mount sh -c '
  hostname "$0" && mount --bind "$ROSSBY_TEST_HOSTS" /etc/hosts && mount -t tmpfs -o size=1g tmpfs /dev/shm && exec "$@"
' "$host" "$@"
