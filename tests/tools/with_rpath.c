/* SPDX-License-Identifier: BSD-2-Clause */
/* Linked with an RPATH that has a verbs library, which the loader prefers to ours. */
int main(void)
{
	return 0;
}
