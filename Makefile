# Tally: counts active streams and bytes per tenant from a Kafka topic.
#
#   make demo      install what is missing, build, and show it all running (DEMO_SECONDS=20 ends by itself)
#   make check     install what is missing, build, run all tests; the exit code says the truth
#   make           build everything under build/
#   make unit      unit tests            unit-asan, unit-valgrind: the same under these (-short: a part each day)
#   make system    system tests          TESTS="tests/system/21*" picks some; system-asan
#   make kafka     starts a real Kafka (BROKERS=3) and says how to use it
#   make check-kafka   the system tests and those of tests/kafka, on real Kafka
#   make fuzz      hostile bytes, FUZZ_SECONDS=60 a target   fuzz-short: CI's slice   fuzz-replay: without clang
#   make analyze   cppcheck, gcc -fanalyzer, clang-tidy, shellcheck: no findings    make race   ThreadSanitizer
#   make browser   the web page in a real Chromium (tests/browser)
#   make faults    every fault point once, and a random schedule; make soak MINUTES=30 at length
#   make calls     each call of each program fails once (calls-slice: a minute of it)
#   make layers    folder rules          make samples   sample files against the option table
#   make bench     measures beside yardsticks: one table in ten minutes   TIMED="tests/bench/4*" picks some; bench-full
#   make bare      demo and check on a bootstrapped Debian 12   make newcomer  README's first steps there, timed
#   make install   DESTDIR= PREFIX=/usr  make deps      Debian packages that are missing
#   make deb       Debian packages, checked by lintian, in build/deb     make packages   and tried in a booted Debian 12
#   make format    clang-format in place make clean
#
# Flavours: SAN=address builds with ASan+UBSan beside the plain one; CC=clang too.

ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX     ?= /usr
LIBDIR     ?= $(PREFIX)/lib
UNITDIR    ?= $(PREFIX)/lib/systemd
SYSCONFDIR ?= /etc
SAN        ?=

FLAVOUR := $(if $(SAN),-$(SAN))$(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))
B       ?= build$(FLAVOUR:-%=/%)

STD      := -std=gnu11 -D_GNU_SOURCE
WARN     := -Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS   ?= -O2 -g
ALL_CF   := $(STD) $(WARN) $(CFLAGS) -fPIC -fvisibility=hidden -fstack-protector-strong -I.
ALL_LD   := -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
ifeq ($(SAN),address)
ALL_CF   += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
ALL_LD   += -fsanitize=address,undefined
else
ALL_CF   += -D_FORTIFY_SOURCE=2 -DWITH_MIMALLOC
MIMALLOC := -lmimalloc
COMPLETE := -Wl,-z,defs
endif

# --- what each program may touch: these lines are the architecture -------------------------------
# A program is its folder plus libshm.a.  The supervisor gets no -llmdb: it cannot open a store.
# The query process gets no -lrdkafka: it moves no records.
LIBS.supervisor := -lrdkafka -lev -lyaml -ljansson -lsystemd
LIBS.worker     := $(MIMALLOC) -lrdkafka -llmdb -lev -lxxhash -lseccomp
LIBS.queryd     := -llmdb -lxxhash -lyaml -ljansson -lmicrohttpd -lgnutls -lev -lnghttp2 -lssl -lcrypto -lz -lprotobuf-c -lseccomp
LIBS.tallyctl   := -llmdb -lxxhash -ljansson -lcurl -lncursesw
LIBS.broker     := -lrdkafka -ldl
LIBS.load       := -lrdkafka -lxxhash -lm -lnghttp2
LIBS.libtally   := -llmdb -lxxhash
LIBS.tests      := -lcmocka -lrdkafka -llmdb -lev -lyaml -ljansson -lmicrohttpd -lgnutls -lsystemd -lxxhash \
		   -lprotobuf-c -lm -lnghttp2 -lssl -lcrypto -lz -lcurl -lseccomp -lncursesw
# -------------------------------------------------------------------------------------------------

# --- what Debian has to give (the one list; `make deps` installs what is missing) ----------------
DEBIAN := gcc libc6-dev pkg-config protobuf-c-compiler \
	librdkafka-dev liblmdb-dev libev-dev libyaml-dev libjansson-dev libmicrohttpd-dev \
	libxxhash-dev libsystemd-dev libmimalloc-dev libprotobuf-c-dev libcmocka-dev \
	libnghttp2-dev libssl-dev zlib1g-dev libcurl4-openssl-dev libseccomp-dev libncurses-dev \
	perl procps curl jq kcat openssl
# What runs and fetches the real Kafka of the tests (without them its tests are skipped), and a newer
# librdkafka (without it a part of test 70 is).
KAFKA_DEBIAN := openjdk-17-jre-headless maven python3-pip
# The clients of others that the tests ask with (without them tests 61 and 69 are skipped).
TEST_DEBIAN := protobuf-compiler python3-grpcio python3-protobuf nghttp2-client
NODE_DEBIAN := nodejs npm
# What reads the metrics (without it test 55 is skipped), the manual (samples) and terminals (35 to 37).
READ_DEBIAN := prometheus mandoc tmux zsh
# A real ssh (without it test 38 is skipped).  Only in CI: on a developer's machine it would start a server.
SSH_DEBIAN := openssh-server openssh-client
# -------------------------------------------------------------------------------------------------

VERSION  := $(shell awk '/define TALLY_VERSION_MAJOR/ { a = $$3 } /define TALLY_VERSION_MINOR/ { b = $$3 } \
		END { print a "." b ".0" }' shm/tally.h)
PROGRAMS := $(addprefix $B/,tallyd tally-worker tally-queryd tallyctl tally-broker tally-load)
LIBRARY  := $B/libtally.a $B/libtally.so $B/libtally.so.0 $B/tally.pc
UNIT     := $(patsubst tests/%.c,$B/%,$(wildcard tests/unit/test_*.c))
TOOLS    := $(patsubst tests/tools/%.c,$B/tests/%,$(wildcard tests/tools/*.c))
BENCH    := $(patsubst tests/%.c,$B/%,$(wildcard tests/bench/*.c))
VARIANTS := $(addprefix $B/variants/,poison/tally-worker lookups/tally-worker)
TESTS    ?= $(sort $(wildcard tests/system/[0-9]*.sh))

# What a reader needs of the ground floor, and nothing else.
READER   := check err log host clock window record segment table history stats limits store usage client

src       = $(wildcard $1/*.c $1/*/*.c)
obj       = $(patsubst %.c,$B/%.o,$(call src,$1))
parts     = $(filter-out $B/$1/main.o,$(call obj,$1))
link      = $(CC) $(ALL_CF) -o $@ $(filter %.o,$^) $(ALL_LD) \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $1 -pthread
archive   = rm -f $@ && $(AR) rcs $@ $^

PROTO.queryd := $(patsubst %.proto,$B/%.pb-c,$(wildcard tools/queryd/*.proto))
DESCRIPTORS  := $B/tools/queryd/descriptors.pb.o
PROTO    := $(patsubst %.proto,$B/%.pb-c,$(wildcard tests/unit/*.proto)) $(PROTO.queryd)

all: $(PROGRAMS) $(LIBRARY)
programs: $(PROGRAMS)
test-programs: $(UNIT) $(TOOLS) $(VARIANTS)
.PHONY: all programs test-programs
.DELETE_ON_ERROR:
.SECONDARY:

$B/tallyd:       $(call obj,supervisor) $B/libshm.a    ; $(call link,$(LIBS.supervisor))
$B/tally-worker: $(call obj,worker) $B/libshm.a        ; $(call link,$(LIBS.worker))
$B/tally-queryd: $(call obj,tools/queryd) $(PROTO.queryd:%=%.o) $(DESCRIPTORS) $B/libshm.a
	$(call link,$(LIBS.queryd))
$B/tallyctl:     $(call obj,tools/tallyctl) $B/libshm.a; $(call link,$(LIBS.tallyctl))
$B/tally-broker: $(call obj,tools/broker) $B/libshm.a  ; $(call link,$(LIBS.broker))
$B/tally-load:   $(call obj,tools/load) $B/libshm.a    ; $(call link,$(LIBS.load))

$B/libshm.a: $(call obj,shm); $(archive)

# libtally: one object whose only global names are those of tally.h.
$B/tally.o: $(patsubst %.c,$B/%.o,$(foreach m,$(READER),$(wildcard shm/$m.c shm/$m_*.c)))
	$(LD) -r -o $@ $^
	objcopy --localize-hidden $@

$B/libtally.a: $B/tally.o; $(archive)

$B/libtally.so.0: $B/tally.o shm/tally.map
	$(CC) $(ALL_CF) -shared -Wl,-soname,$(@F) -Wl,--version-script=shm/tally.map -o $@ $< \
		$(COMPLETE) $(ALL_LD) $(LIBS.libtally) -pthread

$B/libtally.so: $B/libtally.so.0
	ln -sfn $(<F) $@

$B/tally.pc: shm/tally.pc.in shm/tally.h Makefile
	sed -e 's|@PREFIX@|$(PREFIX)|;s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|;s|@VERSION@|$(VERSION)|' $< >$@

-include $(shell find $B -path $B/deb -prune -o -name '*.d' -print 2>/dev/null)

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) -MMD -MP -c -o $@ $<

# Code made from .proto files: included by its name where it belongs, under tests/ by its path below $B.
$(PROTO:%=%.c): $B/%.pb-c.c: %.proto
	@mkdir -p $(@D)
	protoc-c --c_out=$(@D) --proto_path=$(<D) $<
$(PROTO:%=%.h): %.h: %.c ;
$(PROTO:%=%.o): %.o: %.c
	$(CC) $(STD) $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<
$B/proto.a: $(PROTO:%=%.o) $(DESCRIPTORS); $(archive)
$(DESCRIPTORS:%.o=%.c): tools/queryd/limits.proto tools/queryd/health.proto
	@mkdir -p $(@D)
	protoc-c -Itools/queryd --descriptor_set_out=$(@:%.c=%.bin) $^
	{ echo '#include "tools/queryd/descriptors.h"'; \
	  echo 'const uint8_t *queryd_descriptors(size_t *len) { static const uint8_t set[] = {'; \
	  od -An -v -tu1 $(@:%.c=%.bin) | sed 's/  *\([0-9]*\)/\1,/g'; \
	  echo '}; *len = sizeof(set); return set; }'; } >$@
$(DESCRIPTORS): %.o: %.c
	$(CC) $(STD) $(CFLAGS) -fPIC -fvisibility=hidden -I. -MMD -MP -c -o $@ $<
$B/tools/queryd/%.o: tools/queryd/%.c Makefile | $(PROTO.queryd:%=%.h)
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) -I$B/tools/queryd -MMD -MP -c -o $@ $<

# --- test programs -------------------------------------------------------------------------------
# A unit test gets the ground floor and the folders whose headers it includes, without their main.

FOLDERS := supervisor worker tools/queryd tools/tallyctl tools/broker tools/load
$(foreach f,$(FOLDERS),$(eval $B/$(notdir $f).a: $(call parts,$f); $$(archive)))
uses     = $(foreach f,$(FOLDERS),$(if $(shell grep -l '"$f/' $1),$B/$(notdir $f).a))

# The generated headers have to be there before anything under tests/ is compiled.
$B/tests/%.o: tests/%.c Makefile | $(PROTO:%=%.h)
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) -I$B -I$B/tests/unit -MMD -MP -c -o $@ $<

# What several tests share, and what they link instead of the real thing.
$B/shared.a: $(patsubst %.c,$B/%.o,$(filter-out tests/unit/test_%,$(wildcard tests/unit/*.c tests/fake/*.c)))
	$(archive)
LD.test_locate := -Wl,--wrap=rd_kafka_offsets_for_times

$(foreach t,$(UNIT),$(eval $t: $(call uses,tests/unit/$(notdir $t).c)))
$(UNIT): $B/unit/%: $B/tests/unit/%.o $B/shared.a $B/proto.a $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(LD.$*) $(LIBS.tests))
$(foreach t,$(BENCH),$(eval $t: $(call uses,tests/bench/$(notdir $t).c)))
# The yardsticks: the worker's allocator, though only librdkafka calls it; a client of Redis.
LD.raw_consumer := -Wl,--no-as-needed $(MIMALLOC) -Wl,--as-needed
LD.stores       := -lhiredis
$(BENCH): $B/bench/%: $B/tests/bench/%.o $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(MIMALLOC) $(LD.$*) $(LIBS.tests))
$B/tests/lib-dump: $B/tests/tools/lib-dump.o $B/libtally.a
	$(call link,$(LIBS.libtally))
$B/tests-kafka.a: $(call obj,tests/tools/kafka); $(archive)
$B/tests/kafka-do $B/tests/kafka-proxy: $B/tests-kafka.a
$(foreach t,$(TOOLS),$(eval $t: $(call uses,tests/tools/$(notdir $t).c)))
$(filter-out $B/tests/lib-dump,$(TOOLS)): $B/tests/%: $B/tests/tools/%.o $B/proto.a $B/libshm.a
	$(call link,$(LIBS.tests))

# A worker that aborts on a poisoned record, and one whose look-ups by time are told what to answer.
$B/variants/poison/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) -DTALLY_TEST_POISON -MMD -MP -c -o $@ $<
$B/variants/poison/libshm.a: $(patsubst %.c,$B/variants/poison/%.o,$(call src,shm)); $(archive)
$B/variants/poison/tally-worker: $(patsubst %.c,$B/variants/poison/%.o,$(call src,worker)) \
		$B/variants/poison/libshm.a
	$(call link,$(LIBS.worker))
$B/variants/lookups/tally-worker: $(call obj,worker) $B/tests/fake/lookups.o $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(LD.test_locate) $(LIBS.worker))

# The same objects with a newer librdkafka, found at run time (tests/kafka/librdkafka.sh).
NEWEST = -Wl,--disable-new-dtags,-rpath,$(shell tests/kafka/librdkafka.sh)
newest: $(addprefix $B/variants/newest/,tallyd tally-worker tally-queryd)
$B/variants/newest/tallyd: $(call obj,supervisor) $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(NEWEST) $(LIBS.supervisor))
$B/variants/newest/tally-worker: $(call obj,worker) $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(NEWEST) $(LIBS.worker))
$B/variants/newest/tally-queryd: $B/tally-queryd
	ln -sf ../../tally-queryd $@
.PHONY: newest

# Of what is only repeated, `make check` does a part; `make system` all of it.
CHECK_SLICE ?= STEP=5 KILLS=60 EARLY=12 ASSIGNED=6 READY=4 STOPPING=2 MOVES=2 STEPS=40 ZONE_KILLS=25 MANY=96 CROWD=4

# --- checks --------------------------------------------------------------------------------------

check: deps kafka-deps test-deps fuzz-deps analysis-deps browser-deps
	@$(MAKE) --no-print-directory all test-programs
	@export FAILURES="$(abspath $B)/failures.txt"; rm -f "$$FAILURES"; failed=; \
	for t in unit layers samples fuzz-short analyze-short race-short unit-valgrind-short slices check-kafka; do \
		echo "== $$t"; \
		case $$t in \
		slices) $(CHECK_SLICE) $(MAKE) --no-print-directory JOBS=3 slices;; \
		check-kafka) $(MAKE) --no-print-directory JOBS=3 check-kafka $(CHECK_KAFKA);; \
		*) $(MAKE) --no-print-directory $$t;; \
		esac || failed="$$failed $$t"; \
	done; \
	if [ -n "$$failed" ]; then \
		if [ -e "$$FAILURES" ]; then echo "== what failed"; cut -c1-500 "$$FAILURES" | head -n 200; fi; \
		echo "check: FAILED:$$failed"; exit 1; \
	 else echo "check: all passed"; fi

# Runs every test, JOBS at a time, then says which failed.  With CI set, a skipped test is a failed one.
define run_unit
	@rm -f $B/unit.failed; printf '%s\n' $(UNIT) | xargs -P $(JOBS) -I{} sh -c '\
		out=$$($1 {} 2>&1); rc=$$?; printf "%s\n" "$$out"; \
		case "$${CI:+ci} $$out" in ci*"[  SKIPPED ]"*) rc=1;; esac; \
		[ $$rc = 0 ] && exit; basename {} >>$B/unit.failed; \
		printf "%s\n" "{}: rc $$rc" "$$out" | grep -v "OK \]\|RUN  *\]" | tail -n 40 >>"$${FAILURES:-/dev/null}"'; \
	if [ -e $B/unit.failed ]; then echo "unit: FAILED: $$(sort $B/unit.failed | tr '\n' ' ')"; exit 1; \
	else echo "unit: $(words $(UNIT)) programs passed"; fi
endef

unit: $(UNIT)
	$(call run_unit,)
unit-asan:
	$(MAKE) --no-print-directory SAN=address B=$B/address unit
system-asan:
	$(MAKE) --no-print-directory SAN=address B=$B/address TEST_TIMEOUT=900 system

TEST_TIMEOUT ?= 400
JOBS ?= 2
PROVE = B="$(abspath $B)" prove --timer -j$(JOBS) --exec 'timeout -k 20 $(TEST_TIMEOUT) bash'
system: all test-programs
	$(PROVE) $(TESTS)

# On real Kafka: its own tests, and those system tests that do not speak of the embedded broker, with
# fewer repetitions of what has nothing to do with the broker (SLICE= for all of them).
SLICE ?= STEP=12 KILLS=40 EARLY=4 ASSIGNED=4 READY=2 STOPPING=1 DOWN=20 MOVES=1 \
	ZONE_KILLS=12 EMIT_KILLS=4 ADMISSIONS=10000 ROUNDS=2
KAFKA_TESTS ?= $(sort $(wildcard tests/kafka/[0-9]*.sh)) \
	$(shell grep -L '^# broker: embedded' $(sort $(wildcard tests/system/[0-9]*.sh)))
# `make check` takes those of the system tests in which the broker has the largest part, and not the longest.
CHECK_KAFKA := KAFKA_TESTS="$(filter-out $(foreach n,40 41 44 60 61 80,tests/kafka/$n-%.sh) $(foreach n, \
	01 02 03 04 05 10 20 21 22 30 31 32 33 34 35 36 37 40 41 42 50 51 53 65 68 70 71 72 73 75,tests/system/$n-%.sh), $(KAFKA_TESTS))"
check-kafka: all test-programs
	@if why=$$(tests/kafka/fetch.sh 2>&1 >/dev/null); then \
		if tests/kafka/librdkafka.sh >/dev/null 2>&1; then $(MAKE) --no-print-directory newest || exit 1; fi; \
		$(SLICE) BROKER=kafka $(PROVE) $(KAFKA_TESTS); \
	elif [ -n "$$CI" ]; then echo "check-kafka: not skipped in CI: $$why" >&2; exit 1; \
	else echo "check-kafka: SKIPPED: $$why"; fi
kafka: kafka-deps
	@$(MAKE) --no-print-directory -j$(JOBS) programs $B/tests/kafka-do
	@B="$(abspath $B)" exec tests/kafka/run.sh

layers: all
	tests/layers.sh $B

samples: all
	$B/tallyd --print-config | diff -u etc/tally.yaml -
	$B/tallyd -t -c etc/tally.yaml
	$B/tally-queryd --print-metrics | diff -u etc/man/tally-metrics.7 -
	jq -n -f etc/grafana/tally.jq | diff -u etc/grafana/tally.json -
	if command -v mandoc >/dev/null; then mandoc -Tlint etc/man/*.[1-8]; else [ -z "$$CI" ]; fi
	sed -n '/^```c$$/,/^```$$/{/^```/!p}' README.md >$B/readme.c
	$(CC) $(WARN) -Wno-missing-prototypes -Ishm -o $B/readme $B/readme.c $B/libtally.a $(LDFLAGS) $(LIBS.libtally)

# All beside yardsticks, in one table (tests/bench/README.md).  TIMED="tests/bench/4*" picks some.
BENCH_DEBIAN := redis-tools libhiredis-dev
bench-deps: deps kafka-deps
	@$(MAKE) --no-print-directory deps DEBIAN="$(BENCH_DEBIAN)"
	@tests/kafka/fetch.sh >/dev/null || true
bench bench-full: bench-deps
	@$(MAKE) --no-print-directory all $(TOOLS) $(BENCH)
	@B="$(abspath $B)" tests/bench/run.sh $(if $(filter %full,$@),full,short) $(wildcard $(TIMED))

demo: deps
	@$(MAKE) --no-print-directory -j$(JOBS) programs
	@B="$(abspath $B)" tools/demo.sh

BARE ?= all
bare:
	tests/bare/bare-root.sh $(BARE)

# First steps of README.md, timed, and the wrong turns, in a bootstrapped and booted Debian 12.
newcomer:
	tests/bare/newcomer.sh

.PHONY: check unit unit-asan system system-asan check-kafka kafka bare newcomer layers samples bench bench-full bench-deps demo

# --- faults --------------------------------------------------------------------------------------

# Programs that a test can kill, stop or delay at each FAULT() (tests/fault/README.md).
FAULTS := $B/variants/faults
$(FAULTS)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CF) -DTALLY_TEST_FAULTS -DTALLY_TEST_POISON -MMD -MP -c -o $@ $<
$(FAULTS)/libshm.a: $(patsubst %.c,$(FAULTS)/%.o,$(call src,shm)) $(FAULTS)/tests/fault/fault_point.o
	$(archive)
$(FAULTS)/tallyd: $(patsubst %.c,$(FAULTS)/%.o,$(call src,supervisor)) $(FAULTS)/libshm.a
	$(call link,$(LIBS.supervisor))
$(FAULTS)/tally-worker: $(patsubst %.c,$(FAULTS)/%.o,$(call src,worker)) $(FAULTS)/libshm.a
	$(call link,$(LIBS.worker))
$(FAULTS)/tally-queryd: $(call obj,tools/queryd) $(PROTO.queryd:%=%.o) $(DESCRIPTORS) $(FAULTS)/libshm.a
	$(call link,$(LIBS.queryd))
fault-programs: all test-programs $(addprefix $(FAULTS)/,tallyd tally-worker tally-queryd)

# Every fault point once, and a short random schedule; at length, with a new seed each time; one again.
MINUTES ?= 30
faults: fault-programs
	$(PROVE) $(sort $(wildcard tests/fault/[0-9]*.sh))
soak: fault-programs
	@B="$(abspath $B)" tests/fault/soak.sh $(MINUTES)
.PHONY: fault-programs faults soak

# Each call of each program fails once (tests/calls/README.md): a slice by SEED, or with BUDGET=0 all of them.
$B/tests/calls/preload.so: $B/tests/calls/preload.o
	$(CC) $(ALL_CF) -shared -o $@ $< -ldl
$B/tests/calls/sites: $B/tests/calls/sites.o
	$(CC) $(ALL_CF) -o $@ $<
# It is there before a sanitizer's library is.
$B/tests/calls/preload.so: ALL_CF := $(STD) $(WARN) $(CFLAGS) -fPIC -fno-builtin -I.
calls-programs: all test-programs $B/tests/calls/preload.so $B/tests/calls/sites
calls: calls-programs
	BUDGET=$${BUDGET:-0} B="$(abspath $B)" prove --timer -v --exec bash $(wildcard tests/calls/[0-9]*.sh)
calls-slice: calls-programs
	BUDGET=$${BUDGET:-35} $(PROVE) $(wildcard tests/calls/[0-9]*.sh)
# What `make check` does of faults, calls, system and browser, side by side.
slices: fault-programs calls-programs
	BUDGET=$${BUDGET:-30} $(PROVE) $(sort $(wildcard tests/fault/[0-9]*.sh) $(wildcard tests/calls/[0-9]*.sh) \
		$(wildcard tests/browser/[0-9]*.sh)) $(TESTS)
.PHONY: calls-programs calls calls-slice slices

# --- fuzz ----------------------------------------------------------------------------------------
# tests/fuzz/README.md.  FUZZ="fuzz_http fuzz_grpc" picks some.

FUZZ_DEBIAN  := clang libclang-rt-14-dev
FUZZ         ?= $(sort $(notdir $(basename $(wildcard tests/fuzz/fuzz_*.c))))
FUZZ_SECONDS ?= 60
FUZZ_LIBS    := -Wl,--start-group $(LIBS.tests) -ldl -Wl,--end-group
LD.fuzz_run    := -Wl,--wrap=mmap,--wrap=munmap
LD.fuzz_limits := $(LD.fuzz_run)
LD.fuzz_store  := -Wl,--wrap=__sanitizer_cov_8bit_counters_init
# Given by `make fuzz`; without it the targets get a main that runs files.
FUZZ_ENGINE  ?= $B/tests/fuzz/replay.o
FUZZERS      := $(FUZZ:%=$B/%)

$(foreach t,$(FUZZ),$(eval $B/$t: $(call uses,tests/fuzz/$t.c) $(call uses,tests/fuzz/ask_all.h)))
$(FUZZERS): $B/%: $B/tests/fuzz/%.o $B/tests/fuzz/replay.o $B/proto.a $B/libshm.a
	$(CC) $(ALL_CF) -o $@ $< $(FUZZ_ENGINE) $(ALL_LD) $(LD.$*) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(FUZZ_LIBS) -pthread
fuzzers: $(FUZZERS)

with_fuzzer = $(MAKE) --no-print-directory -j$(JOBS) CC=clang SAN=address B=$B/fuzz CFLAGS="-O1 -g -fsanitize=fuzzer-no-link" \
	FUZZ_ENGINE=-fsanitize=fuzzer FUZZ="$(FUZZ)" fuzzers
fuzz: fuzz-deps
	@$(with_fuzzer)
	@tests/fuzz/run.sh $B/fuzz $(FUZZ_SECONDS) $(FUZZ)
# What CI does: all inputs that are kept, and a few seconds of new ones, the same each time.
FUZZ_SHORT ?= 4
fuzz-short: fuzz-deps
	@if tests/fuzz/run.sh --can; then $(with_fuzzer) && FUZZ_SEED=1 FUZZ_RUNS=4000 tests/fuzz/run.sh $B/fuzz $(FUZZ_SHORT) $(FUZZ); \
	elif [ -n "$$CI" ]; then echo "fuzz-short: in CI it needs: $(FUZZ_DEBIAN)" >&2; exit 1; \
	else echo "fuzz-short: no libFuzzer here ($(FUZZ_DEBIAN)): kept inputs only"; \
		$(MAKE) --no-print-directory fuzz-replay; fi
# The same inputs without libFuzzer, by any compiler.
fuzz-replay:
	@$(MAKE) --no-print-directory -j$(JOBS) SAN=address B=$B/address fuzzers
	@tests/fuzz/run.sh $B/address replay $(FUZZ)
# Makes tests/fuzz/corpus anew from what the last runs have found, as small as it gets.
fuzz-merge:
	@tests/fuzz/run.sh $B/fuzz merge $(FUZZ)
fuzz-deps: deps
	@tests/fuzz/run.sh --can || $(MAKE) --no-print-directory deps DEBIAN="$(FUZZ_DEBIAN)" || true
.PHONY: fuzz fuzz-short fuzz-replay fuzz-merge fuzz-deps fuzzers

# --- analysis ------------------------------------------------------------------------------------

ANALYSIS_DEBIAN := cppcheck clang-tidy-14 shellcheck valgrind
CAN_ANALYZE := for p in cppcheck clang-tidy-14 shellcheck valgrind; do command -v $$p || exit 1; done >/dev/null
analysis-deps: deps
	@($(CAN_ANALYZE)) || $(MAKE) --no-print-directory deps DEBIAN="$(ANALYSIS_DEBIAN)" || true

# Nothing may be found (tests/analysis/run.sh).  ANALYZE="gcc tidy" picks some; the short one is for CI.
ANALYZE ?=
analyze: $(PROTO.queryd:%=%.h)
	@JOBS=$(JOBS) tests/analysis/run.sh $B $(ANALYZE)
analyze-short: $(PROTO.queryd:%=%.h)
	@if ($(CAN_ANALYZE)); then \
		JOBS=$(JOBS) tests/analysis/run.sh $B --short; \
	elif [ -n "$$CI" ]; then echo "analyze: in CI it needs: $(ANALYSIS_DEBIAN)" >&2; exit 1; \
	else echo "analyze: SKIPPED: it needs: $(ANALYSIS_DEBIAN)"; fi

# ThreadSanitizer (tests/race/one_map.c says how two maps become one memory to it).
ifeq ($(SAN),thread)
ALL_CF := $(filter-out -D_FORTIFY_SOURCE=2,$(ALL_CF)) -fsanitize=thread -fno-omit-frame-pointer
ALL_LD += -fsanitize=thread
COMPLETE :=
# gcc's does not know fences.  All that ours order are atomics, which are no races with or without them.
ALL_CF += $(if $(findstring clang,$(CC)),,-Wno-tsan)
endif
LD.races := -Wl,--wrap=mmap,--wrap=munmap,--wrap=renameat
RACES := $(patsubst tests/race/%.c,$B/race/%,$(wildcard tests/race/race_*.c))
$B/races.a: $B/tests/race/race.o $B/tests/race/one_map.o; $(archive)
$(RACES): $B/race/%: $B/tests/race/%.o $B/races.a $B/libshm.a
	@mkdir -p $(@D)
	$(call link,$(LD.races) $(LIBS.tests))

# Unit tests of what has threads: the query process, and libtally's maps that several handles share.
RACE_UNIT := $(addprefix $B/unit/test_,ask queryd queryd_http queryd_metrics queryd_post grpc grpc_ends client_maps)
race-programs: $(RACES) $(RACE_UNIT)
race:
	@$(MAKE) --no-print-directory -j$(JOBS) SAN=thread B=$B/thread race-programs
	@tests/race/run.sh $B/thread
race-short:
	@RACE_ROUNDS=$${RACE_ROUNDS:-500} $(MAKE) --no-print-directory race

# The unit tests under valgrind.  Leaks are ASan's part: children that _exit() would have them all.
VALGRIND := valgrind -q --error-exitcode=9 --leak-check=no --fair-sched=try --num-callers=20
# Not under it: what measures processor time, or waits for so long and no longer; what takes minutes.
NOT_VALGRIND  := ask_stall client_hostile grpc grpc_ends grpc_floods grpc_hostile grpc_services \
	grpc_tls limits_yaml peers_tls touch usage_crash usage_heal usage_torn services
unit-valgrind: UNIT := $(filter-out $(NOT_VALGRIND:%=$B/unit/test_%),$(UNIT))
unit-valgrind: $(UNIT)
	$(call run_unit,$(VALGRIND))
# A sixth of those that are not long, another one each day (DAY= for one).
DAY ?= $(shell expr $$(date +%s) / 86400)
LONG_VALGRIND := admit ask ask_trouble client client_check client_maps client_model client_names config_fuzz emit \
	lease limits locate posted queryd_access queryd_http queryd_metrics queryd_post usage \
	usage_faults usage_full usage_sources wire worker_admit
SHORT_VALGRIND = $(shell printf '%s\n' \
	$(filter-out $(NOT_VALGRIND:%=$B/unit/test_%) $(LONG_VALGRIND:%=$B/unit/test_%),$(UNIT)) | \
	awk -v day=$(DAY) 'NR % 6 == day % 6')
unit-valgrind-short: $(UNIT)
	@if command -v valgrind >/dev/null; then echo "unit-valgrind-short: DAY=$(DAY)"; \
		$(MAKE) --no-print-directory unit-valgrind UNIT="$(SHORT_VALGRIND)"; \
	elif [ -n "$$CI" ]; then echo "unit-valgrind-short: in CI it needs: valgrind" >&2; exit 1; \
	else echo "unit-valgrind-short: SKIPPED: it needs: valgrind"; fi
.PHONY: analysis-deps analyze analyze-short race-programs race race-short unit-valgrind unit-valgrind-short

# --- web page ------------------------------------------------------------------------------------

# Its files are in the program (.incbin), as they are.
$B/tools/queryd/answer_ui.o: $(wildcard tools/queryd/ui/*)

# In a real Chromium (tests/browser); without it, or npm, it says so and is skipped.
BROWSER_DEBIAN := chromium fonts-dejavu-core
browser-deps: test-deps
	@command -v chromium >/dev/null || $(MAKE) --no-print-directory deps DEBIAN="$(BROWSER_DEBIAN)" || true
browser: browser-deps
	@$(MAKE) --no-print-directory all test-programs
	$(PROVE) $(sort $(wildcard tests/browser/[0-9]*.sh))
.PHONY: browser browser-deps

# --- the rest ------------------------------------------------------------------------------------

deps:
	@missing=; for p in $(DEBIAN); do \
		[ "$$(dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || \
			missing="$$missing $$p"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=; \
	elif command -v sudo >/dev/null; then as=sudo; \
	else echo "deps: missing Debian packages; as root, run: apt-get install$$missing" >&2; exit 1; fi; \
	get="$$as env DEBIAN_FRONTEND=noninteractive apt-get -q -y"; \
	install="$$get install --no-install-recommends$$missing"; \
	echo "deps: installing$$missing"; \
	ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 || $$get update </dev/null; \
	$$install </dev/null || { $$get update </dev/null && $$install </dev/null; }

# Not needed to build or run: where they cannot be had, the tests on real Kafka say so and are skipped.
# After `deps`: two apt runs at a time would fight for its lock.
kafka-deps: deps
	@{ command -v java && command -v mvn && { command -v pip3 || command -v pip; }; } >/dev/null || \
		$(MAKE) --no-print-directory deps DEBIAN="$(KAFKA_DEBIAN)" || true

test-deps: deps
	@{ command -v protoc && command -v h2load && /usr/bin/python3 -c 'import grpc, google.protobuf'; } >/dev/null 2>&1 || \
		$(MAKE) --no-print-directory deps DEBIAN="$(TEST_DEBIAN)" || true
	@{ command -v promtool && command -v mandoc && command -v tmux && command -v zsh; } >/dev/null || $(MAKE) --no-print-directory deps DEBIAN="$(READ_DEBIAN)" || true
	@[ -z "$${CI:-}" ] || { [ -x /usr/sbin/sshd ] && command -v ssh; } >/dev/null || $(MAKE) --no-print-directory deps DEBIAN="$(SSH_DEBIAN)" || true
	@{ command -v node && command -v npm; } >/dev/null || \
		$(MAKE) --no-print-directory deps DEBIAN="$(NODE_DEBIAN)" || true

install: all
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include \
		$(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(SYSCONFDIR)/tally \
		$(DESTDIR)$(UNITDIR)/system $(DESTDIR)$(PREFIX)/lib/sysusers.d $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
	install $B/tallyd $B/tally-worker $B/tally-queryd $(DESTDIR)$(PREFIX)/sbin
	install $B/tallyctl $B/tally-broker $B/tally-load $(DESTDIR)$(PREFIX)/bin
	install -m 644 shm/tally.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $B/libtally.a $(DESTDIR)$(LIBDIR)
	install $B/libtally.so.0 $(DESTDIR)$(LIBDIR)
	ln -sfn libtally.so.0 $(DESTDIR)$(LIBDIR)/libtally.so
	install -m 644 $B/tally.pc $(DESTDIR)$(LIBDIR)/pkgconfig
	install -m 644 etc/systemd/tally.service $(wildcard etc/systemd/*.socket) $(DESTDIR)$(UNITDIR)/system
	install -m 644 etc/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/tally.conf
	install -m 644 etc/systemd/tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/tally.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/tally etc/prometheus/tally.rules.yaml etc/prometheus/scrape.yaml etc/grafana/tally.json
	install -D -m 644 etc/completion/tallyctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tallyctl
	ln -sfn tallyctl $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tallyd
	install -D -m 644 etc/completion/_tallyctl $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_tallyctl
	for f in $(notdir $(wildcard etc/*.yaml)); do \
		[ -e $(DESTDIR)$(SYSCONFDIR)/tally/$$f ] || \
			install -m 640 etc/$$f $(DESTDIR)$(SYSCONFDIR)/tally/$$f || exit 1; \
	done
	for f in $(wildcard etc/man/*.[1-8]); do \
		install -D -m 644 $$f $(DESTDIR)$(PREFIX)/share/man/man$${f##*.}/$${f##*/} || exit 1; \
	done

# Debian packages in $B/deb, from the files that git knows (or all that are here).  DEB_VERSION= for another one.
DEB_DEBIAN  := debhelper dpkg-dev fakeroot lintian
DEB_VERSION ?= $(VERSION)
deb-deps: deps
	@$(MAKE) --no-print-directory deps DEBIAN="$(DEB_DEBIAN)"
deb: deb-deps
	rm -rf $B/deb && mkdir -p $B/deb/tally
	{ git ls-files -z -co --exclude-standard 2>/dev/null || find . -path ./$B -prune -o -type f -print0; } | \
		tar -c --null -T - | tar -x -C $B/deb/tally
	cp -r etc/debian $B/deb/tally/debian
	sed -i '1s/(.*)/($(DEB_VERSION))/' $B/deb/tally/debian/changelog
	cd $B/deb/tally && env -u B -u MAKEFLAGS DEB_BUILD_OPTIONS="parallel=$(JOBS) $$DEB_BUILD_OPTIONS" \
		dpkg-buildpackage -us -uc -b -nc
	lintian --fail-on error,warning --tag-display-limit 0 $B/deb/*.changes
# The packages installed, run, upgraded and purged in a bootstrapped and booted Debian 12.
packages: deb
	tests/packages/run.sh $B/deb
.PHONY: deb deb-deps packages

format:
	clang-format -i $(foreach d,shm supervisor worker tools tests,$(shell find $d -name '*.[ch]'))

clean:
	rm -rf $B

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

.PHONY: deps kafka-deps test-deps install format clean help
