/* confine_private.h - between the parts of confine. */
#ifndef TALLY_SHM_CONFINE_PRIVATE_H
#define TALLY_SHM_CONFINE_PRIVATE_H

#include "shm/confine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONFINE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
	__has_feature(memory_sanitizer)
#define CONFINE_SANITIZED 1
#endif
#endif
#ifndef CONFINE_SANITIZED
#define CONFINE_SANITIZED 0
#endif

/* confine_files.c: enters the ruleset; 0 or an errno. */
int confine_files_enter(struct confine *confine);

/* confine_calls.c: 0 or an errno. */
int confine_calls_enter(enum confine_role role);

#endif
