/*
 * percent.c - percent-escapes, as in URLs.
 *
 * Runs in: every program.
 */
#include "shm/percent.h"

int percent_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool percent_decode(char *text, bool plus)
{
	char *out = text;

	for (const char *in = text; *in != '\0'; in++) {
		int high, low;

		if (*in != '%') {
			*out++ = (char)(plus && *in == '+' ? ' ' : *in);
			continue;
		}
		high = percent_hex(in[1]);
		low = high < 0 ? -1 : percent_hex(in[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*out++ = (char)(high << 4 | low);
		in += 2;
	}
	*out = '\0';
	return true;
}
