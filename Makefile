# Tally: counts active streams and bytes per tenant from a Kafka topic.
#
#   make demo      install what is missing, build, and show it all running (DEMO_SECONDS=20 ends by itself)
#   make check     install what is missing, build, run all tests; the exit code says the truth
#   make           build everything under build/
#   make unit      unit tests            make system    system tests (TESTS="tests/system/21*" picks some)
#   make layers    folder rules          make samples   sample files against the option table
#   make bench     measures, as medians and ratios
#   make install   DESTDIR= PREFIX=/usr  make deps      Debian packages that are missing
#   make format    clang-format in place
#
# Flavours: SAN=address builds with ASan+UBSan beside the plain one; CC=clang; VARIANT=name.

CC     ?= gcc
PREFIX ?= /usr
SAN    ?=

FLAVOUR := $(if $(SAN),-$(SAN))$(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))
B      ?= build$(FLAVOUR:-%=/%)

STD      := -std=gnu11 -D_GNU_SOURCE
WARN     := -Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?= -O2 -g
ALL_CF   := $(STD) $(WARN) $(CFLAGS) -fPIC -fvisibility=hidden -fstack-protector-strong -I.
ALL_LD   := -Wl,-z,relro,-z,now $(LDFLAGS)
ifeq ($(SAN),address)
ALL_CF   += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ALL_LD   += -fsanitize=address,undefined
endif
ifeq ($(SAN),)
ALL_CF   += -D_FORTIFY_SOURCE=2
MIMALLOC := -lmimalloc
endif

# --- what each program may touch: these lines are the architecture -------------------------------
# A program is its folder plus libshm.a.  The supervisor gets no -llmdb: it cannot open a store.
# The query process gets no -lrdkafka: it moves no records.
LIBS.supervisor := -lrdkafka -lev -lyaml -ljansson -lsystemd
LIBS.worker     := $(MIMALLOC) -lrdkafka -llmdb -lev -lxxhash
LIBS.queryd     := -llmdb -lxxhash -lyaml -ljansson -lmicrohttpd -lev
LIBS.tallyctl   := -llmdb -lxxhash -ljansson
LIBS.broker     := -lrdkafka -ldl
LIBS.load       := -lrdkafka -lxxhash
LIBS.unit       := -lcmocka -llmdb -lxxhash -lyaml -ljansson -lprotobuf-c -lev
# -------------------------------------------------------------------------------------------------

SHM_SRC  := $(wildcard shm/*.c)
SHM_OBJ  := $(SHM_SRC:%.c=$B/%.o)
PROGRAMS := $B/tallyd $B/tally-worker $B/tally-queryd $B/tallyctl $B/tally-broker $B/tally-load
UNIT     := $(patsubst tests/unit/%.c,$B/unit/%,$(wildcard tests/unit/test_*.c))

obj       = $(patsubst %.c,$B/%.o,$(wildcard $1/*.c $1/*/*.c))
link      = $(CC) $(ALL_CF) -o $@ $(filter %.o %.a,$^) $(ALL_LD) $1 -pthread

all: $(PROGRAMS) $B/libtally.a $B/libtally.so $B/tally.pc
.PHONY: all

$B/tallyd:       $(call obj,supervisor) $B/libshm.a    ; $(call link,$(LIBS.supervisor))
$B/tally-worker: $(call obj,worker) $B/libshm.a        ; $(call link,$(LIBS.worker))
$B/tally-queryd: $(call obj,tools/queryd) $B/libshm.a  ; $(call link,$(LIBS.queryd))
$B/tallyctl:     $(call obj,tools/tallyctl) $B/libshm.a; $(call link,$(LIBS.tallyctl))
$B/tally-broker: $(call obj,tools/broker) $B/libshm.a  ; $(call link,$(LIBS.broker))
$B/tally-load:   $(call obj,tools/load) $B/libshm.a    ; $(call link,$(LIBS.load))

$B/libshm.a: $(SHM_OBJ)
	@rm -f $@
	ar rcs $@ $^

-include $(shell find $B -name '*.d' 2>/dev/null)

$B/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) $(CF.$*) -MMD -MP -c -o $@ $<

include $(wildcard *.mk */*.mk tests/*/*.mk)
