/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/explain.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/names.h"

#define LINE_BYTES 512

static _Atomic int level_in_force = LOG_NONE;

void explain_set_level(enum log_level level)
{
	atomic_store(&level_in_force, level);
}

bool explain_is_on(enum log_level level)
{
	return atomic_load_explicit(&level_in_force, memory_order_relaxed) >= (int)level;
}

/* One write a line, so that lines of several processes do not mix. */
__attribute__((format(printf, 2, 0))) static void put_line(const char *start, const char *format,
							   va_list arguments)
{
	char line[LINE_BYTES];
	int length = snprintf(line, sizeof(line), "verbena: %s", start);
	ssize_t written;

	length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	if (length > (int)sizeof(line) - 2)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	written = write(STDERR_FILENO, line, (size_t)length);
	(void)written;
}

int explain_call(int error, const char *call, const char *format, ...)
{
	char start[64];
	va_list arguments;

	if (!explain_is_on(LOG_ERROR))
		return error;
	snprintf(start, sizeof(start), "%s: ", call);
	va_start(arguments, format);
	put_line(start, format, arguments);
	va_end(arguments);
	return error;
}

void explain_note(enum log_level level, const char *format, ...)
{
	va_list arguments;

	if (!explain_is_on(level))
		return;
	va_start(arguments, format);
	put_line("", format, arguments);
	va_end(arguments);
}

/* The facts of a complaint that say something, as " (rkey 0x.., ...)", or "". */
static const char *facts(const struct complaint *complaint, char *text, size_t bytes)
{
	const char *comma = " (";
	size_t length = 0;

#define ADD(condition, ...) \
	do { \
		if ((condition) && length < bytes) { \
			length += (size_t)snprintf(text + length, bytes - length, "%s", comma); \
			if (length < bytes) \
				length += (size_t)snprintf(text + length, bytes - length, \
							   __VA_ARGS__); \
			comma = ", "; \
		} \
	} while (0)
	text[0] = '\0';
	ADD(complaint->key, "key 0x%x", complaint->key);
	ADD(complaint->address, "address 0x%llx", (unsigned long long)complaint->address);
	ADD(complaint->length, "%llu bytes", (unsigned long long)complaint->length);
	ADD(complaint->limit, "limit %llu", (unsigned long long)complaint->limit);
#undef ADD
	if (length && length + 1 < bytes)
		memcpy(text + length, ")", 2);
	return text;
}

static void explain_complaint(const char *what, uint32_t qpn, const struct complaint *complaint)
{
	char text[160];
	const char *cure = reason_cure(complaint->reason);

	explain_note(LOG_ERROR, "QP 0x%06x: %s: %s%s%s%s", qpn, what,
		     reason_text(complaint->reason), facts(complaint, text, sizeof(text)),
		     *cure ? "; " : "", cure);
}

void explain_completion(uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status,
			const struct complaint *complaint)
{
	char what[96];

	if (!explain_is_on(LOG_ERROR))
		return;
	snprintf(what, sizeof(what), "work request 0x%llx failed (%s)", (unsigned long long)wr_id,
		 name_of_status(status));
	explain_complaint(what, qpn, complaint);
}

void explain_event(uint32_t qpn, enum ibv_event_type event, const struct complaint *complaint)
{
	if (explain_is_on(LOG_ERROR))
		explain_complaint(name_of_event(event), qpn, complaint);
}

void explain_flushes(uint32_t qpn, uint64_t count)
{
	if (count)
		explain_note(LOG_ERROR, "QP 0x%06x: %llu more work requests were flushed", qpn,
			     (unsigned long long)count);
}
