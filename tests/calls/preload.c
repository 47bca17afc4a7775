/*
 * preload.c - lets one call of a program fail once: a library for LD_PRELOAD.
 *
 *	program --call--> trampoline --> decide: is the caller the program itself?  armed? --.
 *	                       |                                                             |
 *	                       '-- not this time: jump to the real one      this time: its error
 *
 * A trampoline saves the registers that arguments come in, so that it needs to know nothing of
 * a call's prototype, and jumps: the real one sees the stack as its caller made it.  x86-64 only.
 *
 * Sites and what is armed lie in a file that is mapped at start ($TALLY_CALLS_MAP): afterwards
 * this does no system call of its own but one write to stderr, so it works in a process that
 * may do little, and a site can be armed while it runs.
 *
 * Runs in: a program under test, every thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "tests/calls/calls.h"
#include "tests/calls/map.h"

#ifndef __x86_64__
#error "tests/calls: the trampolines are for x86-64; run these tests there"
#endif

/* What a trampoline has saved, in the order of its stores. */
struct saved {
	uint64_t args[6];
	uint64_t rax;
	uint64_t index; /* then where to jump, or what to return */
	uint64_t vectors[16];
};

int calls_decide(struct saved *s, void *caller) __attribute__((visibility("hidden"), used));

/* clang-format off */
__asm__(".text\n"
	".type calls_common, @function\n"
	"calls_common:\n"
	".cfi_startproc\n"
	"	pushq %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	".cfi_def_cfa_register %rbp\n"
	"	subq $192, %rsp\n"
	"	movq %rdi, 0(%rsp)\n	movq %rsi, 8(%rsp)\n	movq %rdx, 16(%rsp)\n"
	"	movq %rcx, 24(%rsp)\n	movq %r8, 32(%rsp)\n	movq %r9, 40(%rsp)\n"
	"	movq %rax, 48(%rsp)\n	movq %r11, 56(%rsp)\n"
	"	movaps %xmm0, 64(%rsp)\n	movaps %xmm1, 80(%rsp)\n"
	"	movaps %xmm2, 96(%rsp)\n	movaps %xmm3, 112(%rsp)\n"
	"	movaps %xmm4, 128(%rsp)\n	movaps %xmm5, 144(%rsp)\n"
	"	movaps %xmm6, 160(%rsp)\n	movaps %xmm7, 176(%rsp)\n"
	"	movq %rsp, %rdi\n	movq 8(%rbp), %rsi\n"
	"	call calls_decide\n"
	"	testl %eax, %eax\n"
	"	jnz 1f\n"
	"	movq 0(%rsp), %rdi\n	movq 8(%rsp), %rsi\n	movq 16(%rsp), %rdx\n"
	"	movq 24(%rsp), %rcx\n	movq 32(%rsp), %r8\n	movq 40(%rsp), %r9\n"
	"	movq 48(%rsp), %rax\n	movq 56(%rsp), %r11\n"
	"	movaps 64(%rsp), %xmm0\n	movaps 80(%rsp), %xmm1\n"
	"	movaps 96(%rsp), %xmm2\n	movaps 112(%rsp), %xmm3\n"
	"	movaps 128(%rsp), %xmm4\n	movaps 144(%rsp), %xmm5\n"
	"	movaps 160(%rsp), %xmm6\n	movaps 176(%rsp), %xmm7\n"
	".cfi_remember_state\n"
	"	leave\n"
	".cfi_def_cfa %rsp, 8\n"
	"	jmp *%r11\n"
	".cfi_restore_state\n"
	"1:	movq 56(%rsp), %rax\n"
	"	leave\n"
	".cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size calls_common, . - calls_common\n"
	".set calls_index, 0\n");

#define CALL(name, how, ...) \
	__asm__(".globl " #name "\n.type " #name ", @function\n" \
		#name ":\n.cfi_startproc\n" \
		"	movl $calls_index_" #name ", %r11d\n" \
		"	jmp calls_common\n" \
		".cfi_endproc\n.size " #name ", . - " #name "\n" \
		".set calls_index_" #name ", calls_index\n.set calls_index, calls_index + 1\n");
CALLS(CALL)
#undef CALL
/* clang-format on */

static struct {
	struct map *map;
	uintptr_t base, end; /* of the program */
	void *real[N_CALLS];
} self;

/* ------------------------------------------------------------------------- the real ones */

static void *real(size_t i)
{
	if (!self.real[i])
		self.real[i] = dlsym(RTLD_NEXT, calls[i].name);
	return self.real[i];
}

static void *real_by_name(const char *name)
{
	for (size_t i = 0; i < N_CALLS; i++)
		if (!strcmp(calls[i].name, name))
			return real(i);
	return dlsym(RTLD_NEXT, name);
}

/* ---------------------------------------------------------------------------- the sites */

struct chain {
	unsigned n;
	uint32_t frames[FRAMES];
};

static bool is_own(uintptr_t at)
{
	return at >= self.base && at < self.end;
}

/* From the innermost frame: ours are skipped, and the first that is the program's begins. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
	struct chain *c = arg;
	uintptr_t at = _Unwind_GetIP(context);
	if (!is_own(at))
		return c->n ? _URC_END_OF_STACK : _URC_NO_REASON;
	c->frames[c->n++] = (uint32_t)(at - self.base);
	return c->n < FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint64_t key_of(const struct chain *c, size_t call)
{
	uint64_t key = call + 1;
	for (unsigned i = 0; i < c->n; i++)
		key = (key ^ c->frames[i]) * UINT64_C(0x9e3779b97f4a7c15), key ^= key >> 29;
	return key ? key : 1;
}

static struct site *site_of(const struct chain *c, size_t call)
{
	uint64_t key = key_of(c, call);
	for (size_t i = 0; i < SITES_MAX; i++) {
		struct site *s = &self.map->sites[(key + i) % SITES_MAX];
		uint64_t there = 0;
		if (atomic_compare_exchange_strong(&s->key, &there, key)) {
			s->call = (uint32_t)call;
			memcpy(s->frames, c->frames, sizeof s->frames);
			return s;
		}
		if (there == key)
			return s;
	}
	atomic_fetch_add(&self.map->lost, 1);
	return NULL;
}

static bool its_turn(struct site *s)
{
	uint32_t armed = atomic_load(&s->armed);
	atomic_fetch_add(&s->count, 1);
	while (armed && !atomic_compare_exchange_weak(&s->armed, &armed, armed - 1))
		;
	return armed == 1;
}

/* ---------------------------------------------------------------------------- the failure */

static void say(const struct call *call, const struct site *s)
{
	char line[200];
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int n = snprintf(line, sizeof line,
		"calls program=%s pid=%d call=%s error=%d at=%lu key=%016lx\n",
		program_invocation_short_name, getpid(), call->name,
		call->errors[s->error % (unsigned)call->n_errors],
		(unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000,
		(unsigned long)s->key);
	syscall(SYS_write, STDERR_FILENO, line, (size_t)n);
}

static void put_text(uint64_t at, uint64_t size)
{
	if (at && size)
		snprintf((char *)at, size, "failed by tests/calls");
}

/* Ends what the call was to end, and gives what it returns. */
static uint64_t result(const struct call *call, struct saved *s, int error)
{
	switch (call->how) {
	case MINUS:
	case MAP:
		errno = error;
		return UINT64_MAX;
	case NONE:
		errno = error;
		return 0;
	case NUMBER:
		return (uint64_t)(int64_t)error;
	case NEGATIVE:
		return (uint64_t)(int64_t)-error;
	case KAFKA: {
		rd_kafka_error_t *(*make)(rd_kafka_resp_err_t, const char *, ...) = __extension__(
			rd_kafka_error_t * (*)(rd_kafka_resp_err_t, const char *, ...))
			real_by_name("rd_kafka_error_new");
		return (uint64_t)make(error, "failed by tests/calls");
	}
	case CONF:
		put_text(s->args[3], s->args[4]);
		return (uint64_t)(int64_t)RD_KAFKA_CONF_INVALID;
	case CLIENT:
		put_text(s->args[2], s->args[3]);
		errno = error;
		return 0;
	case ZERO:
		*(int *)s->args[0] = error;
		return 0;
	case NO:
		return 0;
	case ENDS:
	case ENDS_FILE:
		__extension__((int (*)(uint64_t))real(s->index))(s->args[0]);
		errno = error;
		return UINT64_MAX;
	case ENDS_TXN:
		__extension__((void (*)(uint64_t))real_by_name("mdb_txn_abort"))(s->args[0]);
		return (uint64_t)(int64_t)error;
	}
	return 0;
}

/* 0: jump to s->index; else return it. */
int calls_decide(struct saved *s, void *caller)
{
	size_t i = s->index;
	int before = errno;
	void *target = real(i);
	if (self.map && is_own((uintptr_t)caller)) {
		struct chain c = {0};
		_Unwind_Backtrace(add_frame, &c);
		struct site *site = site_of(&c, i);
		if (site && its_turn(site)) {
			const struct call *call = &calls[i];
			atomic_store(&site->pid, (uint32_t)getpid());
			atomic_store(&site->failed, atomic_fetch_add(&self.map->failures, 1) + 1);
			say(call, site);
			s->index = result(
				call, s, call->errors[site->error % (unsigned)call->n_errors]);
			return 1;
		}
	}
	errno = before;
	s->index = (uint64_t)target;
	return 0;
}

/* ------------------------------------------------------------------------------- the start */

static int find_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	self.base = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && end > self.end)
			self.end = end;
	}
	return 1; /* the first is the program */
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv(ENV_MAP);
	struct chain warm = {0};
	if (!path)
		return;
	for (size_t i = 0; i < N_CALLS; i++)
		real(i);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	void *map = (void *)syscall(
		SYS_mmap, NULL, sizeof(struct map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (map == MAP_FAILED || ((struct map *)map)->magic != MAP_MAGIC)
		return;
	unsetenv("LD_PRELOAD");
	unsetenv(ENV_MAP);
	dl_iterate_phdr(find_program, NULL);
	_Unwind_Backtrace(add_frame, &warm); /* whatever it allocates at first */
	self.map = map;
}
