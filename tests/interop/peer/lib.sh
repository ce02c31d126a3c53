# SPDX-License-Identifier: BSD-2-Clause
#
# What the scripts of this folder share. Each setting has a default:
#   RXE_PEER_CACHE  what `install` makes         (verbena-rxe-peer in the user's cache folder)
#   RXE_PEER_RUN    state of the running peer    (run in that folder)
#   RXE_PEER_NS     the host's network namespace (vbn-host)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${RXE_PEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/verbena-rxe-peer}
state=${RXE_PEER_RUN:-$cache/run}
namespace=${RXE_PEER_NS:-vbn-host}
agent_port=7000
poll_seconds=0.1

die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

in_namespace()
{
	ip netns exec "$namespace" "$@"
}

# Brings a file up to date in one step, so that nobody sees half of it.
place()
{
	cp "$1" "$2.new"
	mv "$2.new" "$2"
}

# The guest's address on the control network.
control_address()
{
	echo "10.78.0.$((1 + $1))"
}

# Prints the process id in file $1 if that process is still the QEMU that wrote it.
qemu_pid()
{
	local pid
	pid=$(cat "$1" 2>/dev/null) || return 1
	[ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] || return 1
	{ tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qxF -- "$1" && echo "$pid"
}

# ask SECONDS GUEST COMMAND...: runs a command in a guest.
ask()
{
	local seconds=$1 guest=$2
	shift 2
	in_namespace "$cache/bin/peer-run" -t "$seconds" "$(control_address "$guest")" \
		"$agent_port" "$@"
}
