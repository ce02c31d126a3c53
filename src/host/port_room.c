/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/port_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "host/store.h"

_Static_assert(sizeof(struct port_room) <= REGISTRY_CLAIMS_BYTES, "claims fit their room");
_Static_assert(HOST_PORT_CLAIMS_MAX <= UINT16_MAX, "an index of a claim has 16 bits");
_Static_assert(HOST_PORT_SPACE_COUNT <= (REGISTRY_PORT_SPACE >> REGISTRY_PORT_SPACE_SHIFT) + 1,
	       "a port space fits its bits");

static bool is_same(const struct link_address *a, const struct link_address *b)
{
	return link_address_is_equal(a, b) && a->scope == b->scope;
}

bool port_address_is_any(const struct link_address *address)
{
	static const uint8_t zeros[16];
	size_t skip = link_address_is_ipv4(address) ? 12 : 0;

	return memcmp(address->gid + skip, zeros, 16 - skip) == 0;
}

/* In the order of the kernel's rdma_cm, of which programs know the errors. */
int port_conflict(const struct registry_port_value *a, const struct registry_port_value *b)
{
	uint32_t both = a->word & b->word, any_of = a->word | b->word;
	bool is_same_address = is_same(&a->address, &b->address);

	if (both & REGISTRY_PORT_REUSES)
		return 0;
	if (any_of & REGISTRY_PORT_CONFINED)
		return is_same_address ? -EADDRINUSE : 0;
	if (both & REGISTRY_PORT_FAMILY_ONLY &&
	    link_address_is_ipv4(&a->address) != link_address_is_ipv4(&b->address))
		return 0;
	if (port_address_is_any(&a->address) || port_address_is_any(&b->address))
		return -EADDRNOTAVAIL;
	return is_same_address ? -EADDRINUSE : 0;
}

bool port_covers(const struct registry_port_value *listener, const struct link_address *address)
{
	if (!port_address_is_any(&listener->address))
		return is_same(&listener->address, address);
	return !(listener->word & REGISTRY_PORT_FAMILY_ONLY) ||
	       link_address_is_ipv4(&listener->address) == link_address_is_ipv4(address);
}

/* --- mapping --- */

struct port_room *port_room_open(int fd, uint32_t slot, uint32_t generation)
{
	off_t offset = (off_t)registry_claims_offset(slot);
	struct port_room *room =
		mmap(NULL, REGISTRY_CLAIMS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	if (room == MAP_FAILED)
		return NULL;
	host_store(&room->owner, 0);
	host_store(&room->claim_count, 0);
	/* Claims that a dead member left are gone with this, and else by the count. */
	if (!registry_punch(fd, (uint64_t)offset, REGISTRY_CLAIMS_BYTES))
		memset((void *)room->bits, 0, sizeof(room->bits));
	host_store(&room->owner, generation);
	return room;
}

struct port_room *port_room_private(void)
{
	struct port_room *room = mmap(NULL, REGISTRY_CLAIMS_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

const struct port_room *port_room_look(int fd, uint32_t slot)
{
	const struct port_room *room = mmap(NULL, REGISTRY_CLAIMS_BYTES, PROT_READ, MAP_SHARED, fd,
					    (off_t)registry_claims_offset(slot));

	return room == MAP_FAILED ? NULL : room;
}

void port_room_close(const struct port_room *room)
{
	munmap((void *)(uintptr_t)room, REGISTRY_CLAIMS_BYTES);
}

/* --- looking --- */

/* What one entry of the key says. One that changes just now may be about to become firm: it is looked at again. */
static void look_at(const struct registry_port *entry, const struct registry_port_value *claim,
		    struct port_look *look)
{
	struct registry_port_value other;
	int error;

	if (!registry_port_read(entry, &other)) {
		look->is_undecided = true;
		return;
	}
	if (port_word_key(other.word) != port_word_key(claim->word))
		return;
	error = port_conflict(claim, &other);
	if (error && other.word & REGISTRY_PORT_FIRM)
		look->error = error;
	else if (error)
		look->is_undecided = true;
}

struct port_look port_room_look_for(const struct port_room *room,
				    const struct registry_port_value *claim)
{
	uint32_t key = port_word_key(claim->word), count;
	struct port_look look = {0};

	if (!port_room_has_bit(room, key))
		return look;
	/* Behind the bit, which is set last. */
	count = atomic_load(&room->claim_count);
	if (count > HOST_PORT_CLAIMS_MAX)
		count = HOST_PORT_CLAIMS_MAX;
	for (uint32_t i = 0; i < count && !look.error; i++)
		if (port_word_key(atomic_load(&room->claims[i].word)) == key)
			look_at(&room->claims[i], claim, &look);
	return look;
}
