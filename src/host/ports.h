/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation: ports, service ids, and whose a management datagram is
 *
 * Claims. A port belongs to a port space and an address, or to all addresses; who may have which
 * beside whom is what the kernel's rdma_cm says (below). Each member writes its claims into a
 * room of the host's file that only it writes (registry.h), and nobody else has to agree:
 *
 *   1. it writes the claim down as tentative, then looks through the rooms of all others;
 *   2. who finds nothing that conflicts makes it firm; who finds a firm one takes its own back.
 *   3. Of two tentative ones at least one sees the other. The higher slot takes its own back and
 *      comes again a moment later; the lower one waits for that, a bounded time, since who is
 *      stopped in the middle of a claim has to be believed.
 *
 * There is no lock that a member could die or stop with. A claim found in the room of a member
 * that is dead counts for nothing: the dead one is buried (host.h) and the look repeated.
 *
 * A bit for each port of each space says whether the room has a claim there; only where it is set
 * the claims are read. Ephemeral ports are drawn at random among those whose bit nobody has,
 * whatever the address, so none is given twice.
 *
 * Conflicts, for two claims of one port in one port space:
 *
 *   - none if both may reuse addresses, and neither listens;
 *   - none if both are of their own family only, and these differ;
 *   - any address conflicts with every address: -EADDRNOTAVAIL;
 *   - the same address twice: -EADDRINUSE.
 *
 * A process that is a host of its own (VERBENA_ADDRESS) has one address, and its claims are for
 * that one, never for all; against those of the machine's other processes only the same
 * address counts.
 *
 * Service ids. Connection requests bear one: the port space and below it the port. Who listens
 * publishes its claim in its slot of the registry, where the steering programs find it. Of two
 * that cover an address, as a host of its own and another process may, the exact one counts.
 *
 * Steering of QP 1. A management datagram belongs to
 *
 *   - a connection request (REQ) or query (SIDR_REQ): who listens on its service id, at the
 *     address that it came to;
 *   - another message of the connection manager: the slot in the upper bits of the communication
 *     id that its receiver gave out (host_communication_id());
 *   - an answer (response bit of the method): the slot in the upper bits of the transaction id,
 *     which the asker chose (host_transaction_id());
 *   - whatever else, and what those name who are not there: nobody in particular. It goes to the
 *     lowest slot that serves management (host_ports_open()), or where none does to the lowest.
 *     So does a message of the connection manager with 0 for that id: a REJ of somebody who gave
 *     up his request before he heard of it. Which member has the request nothing in it tells;
 *     who gets it and has not shows it to all others that listen.
 *
 * The kernel's program says the same as host_management_slot(), but for listeners beyond what
 * a program may hold; who receives those forwards them (forward.h). A stopped member stops
 * only what is its own.
 */
#ifndef VBN_HOST_PORTS_H
#define VBN_HOST_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/host.h"
#include "host/names.h"
#include "link/link.h"

enum host_port_space {
	HOST_PORT_SPACE_TCP,
	HOST_PORT_SPACE_UDP,
	HOST_PORT_SPACE_IB,
	HOST_PORT_SPACE_IPOIB,
	HOST_PORT_SPACE_COUNT
};

struct host_ports; /* what one process claims */
struct host_port;  /* one claim */

/*
 * @host NULL: the process is alone with its addresses, and so with its ports. From now on this
 * member gets management datagrams that are nobody's in particular. 0; -ENOMEM, or what the
 * system says. Any thread, here and below; @host lives longer.
 */
int host_ports_open(struct host *host, struct host_ports **ports);
/* Gives back all that is still claimed; nobody may use a claim any more. */
void host_ports_close(struct host_ports *ports);
/* In the child of a fork: unmaps what was inherited, and touches no shared byte. */
void host_ports_close_inherited(struct host_ports *ports);

struct host_port_wish {
	enum host_port_space space;
	/* :: or ::ffff:0.0.0.0 are all addresses, of both families unless is_family_only. */
	struct link_address address;
	uint16_t port; /* host order; 0: one that nobody has */
	bool reuses_address;
	/* rdma_cm sets it by itself for IPv4, and for IPv6 where net.ipv6.bindv6only says so. */
	bool is_family_only;
	/* The process is a host of its own: @address is the one that it has, never a wildcard. */
	bool is_confined;
};

/*
 * -EADDRINUSE, -EADDRNOTAVAIL: as above, the latter too when no ephemeral port is left; -EINVAL: a
 * wildcard that is confined; -ENOSPC: too many of this process (port_room.h); -ENOMEM. Low ports need no privilege: they
 * are nobody else's. Usually some microseconds; at most about 50 ms.
 */
int host_port_claim(struct host_ports *ports, const struct host_port_wish *wish,
		    struct host_port **port);
/*
 * The claim is shared by other rules from now on, which only those meet who come later. Not one
 * that listens.
 */
void host_port_share(struct host_ports *ports, struct host_port *port, bool reuses_address,
		     bool is_family_only);
uint16_t host_port_number(const struct host_port *port);
uint64_t host_port_service_id(const struct host_port *port);
/*
 * Requests for this service id come to this process from now on, on each address that it
 * receives on (host_open_address()) and that the claim covers. Nobody may share the port any
 * more: -EADDRINUSE or -EADDRNOTAVAIL where somebody does, and the claim stays as it was. -ENOSPC:
 * more than HOST_LISTENERS_MAX of this process. Twice is as good as once.
 */
int host_port_listen(struct host_ports *ports, struct host_port *port);
/* In a child of fork it only frees: the claim is the parent's. */
void host_port_release(struct host_ports *ports, struct host_port *port);

/* Of a port in a port space: RDMA IP CM service id. */
static inline uint64_t host_service_id(enum host_port_space space, uint16_t port)
{
	static const uint16_t numbers[HOST_PORT_SPACE_COUNT] = {
		[HOST_PORT_SPACE_TCP] = 0x0106,
		[HOST_PORT_SPACE_UDP] = 0x0111,
		[HOST_PORT_SPACE_IB] = 0x013f,
		[HOST_PORT_SPACE_IPOIB] = 0x0002,
	};

	return (uint64_t)numbers[space] << 16 | port;
}

/* --- whose a management datagram is --- */

#define HOST_COMMUNICATION_ID_BITS (32 - HOST_SLOT_BITS) /* what a member chooses itself */

/* What @slot may give out as communication id, of any @random; never 0. */
static inline uint32_t host_communication_id(uint32_t slot, uint32_t random)
{
	uint32_t own = random & ((1u << HOST_COMMUNICATION_ID_BITS) - 1);

	return slot << HOST_COMMUNICATION_ID_BITS | (own ? own : 1);
}

static inline uint32_t host_slot_of_communication_id(uint32_t id)
{
	return id >> HOST_COMMUNICATION_ID_BITS;
}

/* The same for the transaction id of a request that wants an answer. */
static inline uint64_t host_transaction_id(uint32_t slot, uint64_t random)
{
	return (uint64_t)slot << (64 - HOST_SLOT_BITS) | random >> HOST_SLOT_BITS;
}

/*
 * Whose the packet at @packet is, BTH to the end of padding, destination QPN 1, that came to
 * @destination: the slot of a member that receives there. Any bytes are fine. What is nobody's in
 * particular is ours, if we serve management or nobody does.
 */
uint32_t host_management_slot(const struct host *host, const struct link_address *destination,
			      const uint8_t *packet, size_t length);
/* Whether such a packet is a message of the connection manager for an id that its sender knows not. */
bool host_management_is_anonymous(const uint8_t *packet, size_t length);
/* Members other than this one that listen and receive on @address. */
struct host_slot_set host_management_listeners(const struct host *host,
					       const struct link_address *address);

#endif
