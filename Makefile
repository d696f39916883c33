# Lanekeeper. `make help` lists the targets.
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash

CC ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
VERSION := 0.1.0
BUILD   ?= build
PREFIX  ?= /usr/local
WERROR  ?= -Werror
SAN     ?=

JOBS    ?= 2
ASAN    ?= $(BUILD)-asan

all: ## the daemon, the worker, the command line tool and the client library (the default)
.PHONY: all

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough $(WERROR)
OPT  ?= -O2
CFLAGS   ?= $(OPT) -g -fno-omit-frame-pointer -ffp-contract=off
CPPFLAGS += -D_GNU_SOURCE -DLK_VERSION='"$(VERSION)"' -Iserver -I. -I$(BUILD)
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(SAN) -fPIC -pthread -MMD -MP
LDFLAGS += $(SAN) -pthread
LDLIBS  := -lnng -lprotobuf-c -lzstd -lxxhash -lyaml -lz -lpcre2-8

# Protocol messages: generated, never committed.
PROTO   := $(wildcard proto/*.proto)
PROTO_C := $(PROTO:%.proto=$(BUILD)/%.pb-c.c)

# One archive a layer, in the order of who may use whom (server/README.md).
LAYERS := base seq core op format store config worker host rpc
src_of  = $(sort $(wildcard server/$(1)/*.c) $(wildcard server/$(1)/*/*.c))
objs_of = $(patsubst %.c,$(BUILD)/%.o,$(call src_of,$(1)))
lib_of  = $(BUILD)/lib/$(1).a

define layer
$(call lib_of,$(1)): $(call objs_of,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@$(AR) rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer,$(l))))

PROTO_LIB := $(BUILD)/lib/proto.a
$(PROTO_LIB): $(PROTO_C:.c=.o) $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard proto/*.c)))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/%.pb-c.c $(BUILD)/%.pb-c.h: %.proto
	@mkdir -p $(BUILD)
	@protoc-c --c_out=$(BUILD) $<

$(BUILD)/%.pb-c.o: $(BUILD)/%.pb-c.c
	@echo "  CC  $<"
	@$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(ALL_CFLAGS)) -c -o $@ $<

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC  $<"
	@$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c -o $@ $<


# Programs ----------------------------------------------------------------------------------------

DAEMON_LIBS := $(foreach l,host rpc config core seq format store op base,$(call lib_of,$(l))) $(PROTO_LIB)
PROGRAMS    := $(BUILD)/lanekeeperd $(BUILD)/lanekeeper $(BUILD)/lanekeeper-worker
LIBRARIES   := $(BUILD)/liblanekeeper.a $(BUILD)/liblanekeeper.so

all: $(PROGRAMS) $(LIBRARIES)

# Whatever includes a generated header waits for it.
$(call objs_of,host) $(call objs_of,rpc) $(call objs_of,worker): | $(PROTO_C)

$(BUILD)/lanekeeperd: $(BUILD)/server/main.o $(DAEMON_LIBS)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(DAEMON_LIBS) -Wl,--end-group $(LDLIBS)

# The client library: one archive and one shared object that exports lanekeeper_* alone.
CLIENT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard client/c/*.c)))
CLIENT_PROTO := $(BUILD)/proto/envelope.o $(BUILD)/proto/state.o $(BUILD)/proto/training.o $(BUILD)/proto/lanekeeper.pb-c.o
CLIENT_LIBS := -lprotobuf-c -lxxhash
$(CLIENT_OBJ): CPPFLAGS += -fvisibility=hidden
$(CLIENT_OBJ): | $(PROTO_C)

$(BUILD)/liblanekeeper.a: $(CLIENT_OBJ) $(CLIENT_PROTO)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/liblanekeeper.so: $(CLIENT_OBJ) $(CLIENT_PROTO) client/c/lanekeeper.map
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL -Wl,--version-script=client/c/lanekeeper.map -o $@ $(filter %.o,$^) $(CLIENT_LIBS)

# The command line tool: the client library, and server layers for what needs no daemon.
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard client/cli/*.c)))
$(CLI_OBJ): | $(PROTO_C)
$(BUILD)/lanekeeper: $(CLI_OBJ) $(BUILD)/liblanekeeper.a $(DAEMON_LIBS)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(BUILD)/liblanekeeper.a -Wl,--start-group $(DAEMON_LIBS) -Wl,--end-group $(LDLIBS)

# The worker: the binary that is installed, and one with faults that tests can switch on.
WORKER_LIBS  := $(foreach l,worker format store op proto base,$(call lib_of,$(l)))
WORKER_FAULT := $(patsubst server/worker/%.c,$(BUILD)/tests/worker-faults/%.o,$(call src_of,worker))
$(WORKER_FAULT): | $(PROTO_C)

$(BUILD)/lanekeeper-worker: $(BUILD)/server/worker/main.o $(WORKER_LIBS)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(WORKER_LIBS) -Wl,--end-group $(LDLIBS)

$(BUILD)/tests/worker-faults/%.o: server/worker/%.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DLK_TEST_FAULTS -c -o $@ $<

$(BUILD)/tests/lanekeeper-worker-faults: $(WORKER_FAULT) $(filter-out %/worker.a,$(WORKER_LIBS))
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS)

# Tests -------------------------------------------------------------------------------------------

# Unit tests mirror server/: tests/unit/<layer>/test_<thing>.c is one Check program, linked with its
# layer and those below it, so that a broken layer breaks no test beneath it.
deps_base   := base
deps_seq    := seq base
deps_core   := core seq base
deps_op     := op base
deps_format := format base
deps_store  := store base
deps_config := config core seq base
deps_worker := worker format store op proto base
deps_rpc    := rpc proto core seq base
deps_host   := host rpc config proto core seq format store op base
deps_client := rpc proto base
deps_proto  := proto base
deps_cli    := $(deps_host)
libs_client := $(BUILD)/liblanekeeper.a
libs_cli    := $(BUILD)/lib/cli.a $(BUILD)/liblanekeeper.a
UNIT_SRC := $(sort $(wildcard tests/unit/*/test_*.c))
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)

TEST_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/*/*.c tests/unit/*/*.c))
$(TEST_OBJ): | $(PROTO_C)

# What several tests use: taken from an archive, so that each links what it needs.
TEST_LIB := $(BUILD)/lib/tests.a
$(TEST_LIB): $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/lib/check_main.c,$(wildcard tests/lib/*.c)) $(filter-out tests/bench/bench_%,$(wildcard tests/bench/*.c)))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

LINK_TEST = $(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDLIBS)

define unit
$(BUILD)/tests/unit/$(1)/test_%: $(BUILD)/tests/unit/$(1)/test_%.o $(BUILD)/tests/lib/check_main.o $(libs_$(1)) $(TEST_LIB) $(foreach d,$(deps_$(1)),$(BUILD)/lib/$(d).a)
	@echo "  LD  $$@"
	@$$(LINK_TEST) $$(CHECK_LIBS)
endef
CHECK_LIBS = $(shell pkg-config --libs check)
$(foreach l,$(LAYERS) client cli proto,$(eval $(call unit,$(l))))

$(BUILD)/lib/cli.a: $(filter-out %/main.o,$(CLI_OBJ))
	@mkdir -p $(@D)
	@rm -f $@
	@$(AR) rcs $@ $^

# The pool's tests start real workers, and play false ones over the worker's own connection.
$(addprefix $(BUILD)/tests/unit/host/,test_pool test_pool_deaths test_pool_remote): $(call lib_of,worker) \
	| $(BUILD)/tests/lanekeeper-worker-faults $(BUILD)/lanekeeper-worker

# Programs that scripts drive: every other C file with a main. lane_dump stands for the pure part.
TEST_SRC := $(sort $(wildcard tests/oracle/*.c tests/e2e/*.c tests/demo/*.c tests/bench/bench_*.c tests/fuzz/fuzz_*.c tests/proof/*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
$(BUILD)/tests/oracle/lane_dump: $(foreach l,core seq base,$(call lib_of,$(l)))
$(filter-out %/lane_dump,$(TEST_BIN)): $(BUILD)/liblanekeeper.a $(DAEMON_LIBS) $(call lib_of,worker)
$(filter-out %/consume,$(TEST_BIN)): $(TEST_LIB)
$(TEST_BIN): $(BUILD)/%: $(BUILD)/%.o
	@echo "  LD  $@"
	@$(LINK_TEST)

# The simulator: the pure part and the engine's own files, object by object; what they touch of the world is
# in tests/sim under the same headers (tests/sim/README.md).
SIM_HOST := arena assemble blocks counted cursor drop_log engine log_limit measure places reply report requests shape slots
SIM_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/sim/*.c)) $(filter $(SIM_HOST:%=server/host/%.c),$(wildcard server/host/*.c)))
SIM_BIN  := $(BUILD)/tests/sim/sim
$(SIM_BIN): $(SIM_OBJ) $(foreach l,core seq base,$(call lib_of,$(l))) $(PROTO_LIB)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -Wl,--wrap=lk_check_failed,--wrap=slots_take,--wrap=cursor_new -o $@ $(filter %.o,$^) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lprotobuf-c -lxxhash

SIM_FROM  ?= 0
SIM_SEEDS ?= 1000000
.PHONY: sim
sim: $(SIM_BIN) ## the engine in a simulated world: SIM_SEEDS=1000000 seeds from SIM_FROM=0 on
	@$(SIM_BIN) --seeds $(SIM_FROM)..$$(($(SIM_FROM) + $(SIM_SEEDS))) --jobs $(JOBS)

# Some: MUTANTS="NAME…". The copies are made of what is built here, so that one line costs one object.
MUTANT_UNITS := $(filter-out %/test_pool%,$(filter $(foreach l,base seq core host,$(BUILD)/tests/unit/$(l)/%),$(UNIT_BIN)))
.PHONY: mutants
mutants: $(SIM_BIN) $(BUILD)/tests/oracle/lane_dump $(MUTANT_UNITS) ## break the core line by line: who notices? (MUTANTS="NAME…")
	@python3 tests/sim/mutants/mutants.py $(BUILD) --jobs $(JOBS) $(MUTANTS)

# What is fuzzed replays a corpus here, and is driven by libFuzzer in a build with LIBFUZZER=1.
FUZZ_BIN := $(filter $(BUILD)/tests/fuzz/%,$(TEST_BIN))
$(BUILD)/tests/fuzz/fuzz_daemon: | $(BUILD)/lanekeeper-worker
$(BUILD)/tests/fuzz/fuzz_remote: private LDFLAGS += -Wl,--wrap=pthread_create,--wrap=pthread_join,--wrap=epoll_wait
$(BUILD)/tests/fuzz/fuzz_link: private LDFLAGS += -Wl,--wrap=pthread_cond_timedwait,--wrap=lk_socket_close
ifdef LIBFUZZER
$(FUZZ_BIN): private LDFLAGS += -fsanitize=fuzzer
else
$(FUZZ_BIN): $(BUILD)/tests/fuzz/replay.o
endif

# What is preloaded into programs of any build: never sanitized itself.
PRELOADED := $(BUILD)/tests/chaos/shim.so $(BUILD)/tests/proof/plant/leak.so
$(PRELOADED): $(BUILD)/%.so: %.c
	@mkdir -p $(@D)
	@echo "  LD  $@"
	@$(CC) $(CPPFLAGS) $(filter-out $(SAN),$(ALL_CFLAGS)) -shared -o $@ $<

.PHONY: tests unit check demo deps
tests: all $(UNIT_BIN) $(TEST_BIN) $(SIM_BIN) $(BUILD)/tests/lanekeeper-worker-faults $(PRELOADED) ## all test programs, without running them

unit: all $(UNIT_BIN) ## build and run the unit tests; the first that fails ends it
	@for t in $(UNIT_BIN); do $$t || exit 1; done

check: ## install what is missing, build, run every test, also under ASan and UBSan (logs: build/test-logs)
	@deploy/deps.sh check
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers
	@sh tests/fetch_oracles.sh $(BUILD)/venv || echo "check: no reference libraries: some tests will be skipped"
	@+tests/run.sh --build $(BUILD) --sanitized $(ASAN) --jobs $(JOBS)

.PHONY: check-python
check-python: all ## the Python adapters with the real frameworks, from PyPI into build/venv-frameworks (about 7 GB)
	@tests/python/frameworks/run.sh $(BUILD)

# Hours for all of them at 200 MB; it goes on where it was ended. ORACLE="gpt2 llama3" for some.
ORACLE_MB ?= 200
ORACLE    ?= $(notdir $(wildcard $(BUILD)/tokenizers/* $(BUILD)/grafts/*))
ORACLE_DIRS = $(wildcard $(ORACLE:%=$(BUILD)/tokenizers/%) $(ORACLE:%=$(BUILD)/grafts/%))
COMPARE    = $(BUILD)/venv/bin/python tests/oracle/tokenizer_oracle.py --encode $(BUILD)/tests/oracle/encode_main
.PHONY: oracle
oracle: ## compare ids with the reference's on ORACLE_MB=200 megabytes for each tokenizer (ORACLE="gpt2 …")
	@deploy/deps.sh check
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers all
	@sh tests/fetch_oracles.sh $(BUILD)/venv
	@python3 tests/oracle/graft.py $(BUILD)/tokenizers $(BUILD)/grafts
	@python3 tests/demo/corpus.py $(BUILD)/demo/data
	@python3 tests/bench/bench_corpus.py $(BUILD)/bench/data --packages $(BUILD)/bench/packages
	@+$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/tests/oracle/encode_main oracle-run

# Apart, as what there is to compare is known only now.
.PHONY: oracle-run
oracle-run: $(BUILD)/tests/oracle/encode_main
	@$(COMPARE) --cases --small
	@$(COMPARE) --patterns $(BUILD)/tokenizers/gpt2
	@printf '%s\n' $(ORACLE_DIRS) | xargs -P $(JOBS) -I{} $(COMPARE) --mb $(ORACLE_MB) --state $(BUILD)/oracle {} \
		--text $(BUILD)/demo/data $(BUILD)/bench/data

.PHONY: zephon
zephon: ## what the Python zephon does in the same situations: the table of tests/README.md, measured (ZEPHON="ROW…")
	@deploy/deps.sh demo
	@+$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/e2e/trainer
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers
	@sh tests/fetch_oracles.sh $(BUILD)/venv
	@python3 tests/demo/corpus.py $(BUILD)/demo/data
	@$(BUILD)/venv/bin/python tests/oracle/compare_zephon.py $(BUILD) $(BUILD)/demo/data $(BUILD)/tokenizers/gpt2 $(ZEPHON)

# What is found lies in $(BUILD)-fuzz; what crashed is minimised into tests/fuzz/corpus/NAME when it is mended.
FUZZ_S ?= 120
FUZZ   ?= $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
SAN_FUZZ := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
.PHONY: fuzz
fuzz: ## fuzz every reader and both ends of every protocol, FUZZ_S=120 seconds each (FUZZ="json encode" for some)
	@deploy/deps.sh fuzz
	@python3 tests/fuzz/seeds.py $(BUILD)-fuzz/seeds
	@+$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-fuzz CC=clang SAN="$(SAN_FUZZ)" LIBFUZZER=1 \
		$(FUZZ:%=$(BUILD)-fuzz/tests/fuzz/fuzz_%)
	@printf '%s\n' $(FUZZ) | xargs -P $(JOBS) -I{} tests/fuzz/run.sh $(BUILD)-fuzz {} $(FUZZ_S)

# Hours, if asked for: random faults go on for CHAOS_S seconds a group. A failure prints the command that shows it again.
CHAOS_S ?= 60
SEED    ?= $(shell date +%s)
.PHONY: chaos
chaos: ## strike the real thing with every fault that tests/chaos knows (CHAOS_S=60 SEED=… CHAOS=PATTERN)
	@deploy/deps.sh check
	@+$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD) tests
	@python3 tests/chaos/run.py $(BUILD) --seed $(SEED) --seconds $(CHAOS_S) --jobs $(JOBS) --only '$(or $(CHAOS),.)'

# Threads, memory and static analysis: long forms of their own, each in a build of its own. tests/README.md
UNIT_OF     = $(foreach l,$(1),$(patsubst tests/%.c,$(2)/tests/%,$(wildcard tests/unit/$(l)/test_*.c)))
PURE_LAYERS := base seq core
SOAK_S      ?= 600
SOAK_RATE   ?= 100
VALGRIND_SEEDS ?= 40
COVER_SEEDS ?= 3000
.PHONY: tsan valgrind soak analyze coverage
tsan: ## what has threads, and whole daemons, under ThreadSanitizer (TSAN=PATTERN for some)
	@deploy/deps.sh check
	@+$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-tsan SAN=-fsanitize=thread tests
	@tests/proof/tsan.sh --self-test
	@tests/proof/tsan.sh $(BUILD)-tsan --only '$(or $(TSAN),.)'

valgrind: ## memcheck on the unit tests of the core, and on VALGRIND_SEEDS=40 of the simulator
	@deploy/deps.sh valgrind
	@+$(MAKE) --no-print-directory -j$(JOBS) $(call UNIT_OF,$(PURE_LAYERS) op format store host,$(BUILD)) $(SIM_BIN)
	@tests/proof/valgrind.sh --self-test
	@tests/proof/valgrind.sh $(BUILD) $(VALGRIND_SEEDS)

soak: ## a daemon, workers and trainers for SOAK_S=600 seconds: memory, descriptors and threads stay what they are
	@deploy/deps.sh check
	@+$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/proof/soak_trainer
	@python3 tests/proof/soak.py --self-test
	@python3 tests/proof/soak.py $(BUILD) $(SOAK_S) $(SOAK_RATE)

analyze: $(PROTO_C) ## clang's static analyzer and clang-tidy's bugprone and cert checks over all that is installed
	@deploy/deps.sh analyze
	@tests/proof/analyze.sh --self-test
	@tests/proof/analyze.sh $(BUILD) $(JOBS)

coverage: ## lines and branches of base, seq and core that tests reach; fails under 98 % and 95 %
	@deploy/deps.sh check
	@+$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-coverage OPT=-O0 SAN=--coverage \
		$(call UNIT_OF,$(PURE_LAYERS),$(BUILD)-coverage) $(BUILD)-coverage/tests/oracle/lane_dump $(BUILD)-coverage/tests/sim/sim
	@python3 tests/proof/coverage.py $(BUILD)-coverage --seeds $(COVER_SEEDS)

demo: ## install what is missing, build, and see identical batches whatever happens to the machines
	@deploy/deps.sh demo
	@+$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/demo/consume
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers gpt2-pair
	@python3 tests/demo/corpus.py $(BUILD)/demo/data
	@python3 tests/demo/demo.py $(BUILD)

BENCH_BIN := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))
.PHONY: bench
bench: ## measure, print a table, write build/bench.json; BENCH=quick: the rough figures in a minute
	@deploy/deps.sh demo
	@+$(MAKE) --no-print-directory -j$(JOBS) all $(BENCH_BIN) $(BUILD)/tests/oracle/encode_main
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers all
	@BENCH=$(BENCH) python3 tests/bench/bench.py $(BUILD)

.PHONY: scale
scale: ## measure 100 million rows, 50,000 shards, 1,024 lanes, 300 datasets: build/scale.json; 8 GB of disk, SCALE=quick: a tenth
	@deploy/deps.sh demo
	@+$(MAKE) --no-print-directory -j$(JOBS) all $(BUILD)/tests/bench/bench_consume
	@sh tests/fetch_tokenizers.sh $(BUILD)/tokenizers gpt2-pair
	@SCALE=$(SCALE) python3 tests/bench/scale.py $(BUILD)

.PHONY: experiment
experiment: ## train on 1, 2, 4, 8 and 3 processes in turn, with three loaders (EXPERIMENT=quick, long; tests/experiment)
	@deploy/deps.sh experiment
	@+$(MAKE) --no-print-directory -j$(JOBS) all
	@python3 tests/demo/corpus.py $(BUILD)/demo/data
	@sh tests/experiment/run.sh $(BUILD) --setting $(or $(EXPERIMENT),default)

deps: ## install the packages that building and testing need
	@deploy/deps.sh check

# Installing --------------------------------------------------------------------------------------

INSTALL_BIN := $(DESTDIR)$(PREFIX)/bin
INSTALL_LIB := $(DESTDIR)$(PREFIX)/lib
SONAME      := liblanekeeper.so.0

INSTALL_SHARE := $(DESTDIR)$(PREFIX)/share

# What the tool makes of its own tables.
MANUAL      := $(addprefix $(BUILD)/man/,lanekeeper.1 lanekeeper.yaml.5 lanekeeperd.8 lanekeeper-worker.8)
COMPLETIONS := $(addprefix $(BUILD)/completion/,bash zsh fish)
$(MANUAL): $(BUILD)/man/%: $(BUILD)/lanekeeper
	@mkdir -p $(@D)
	@$< man $* >$@
$(COMPLETIONS): $(BUILD)/completion/%: $(BUILD)/lanekeeper
	@mkdir -p $(@D)
	@$< completion $* >$@

.PHONY: man install clean help
man: $(MANUAL) $(COMPLETIONS) ## the manual pages and the shells' completions, into build/man and build/completion

install: all man ## programs, library, header, manual pages and completions into DESTDIR/PREFIX (/usr/local)
	install -d $(INSTALL_BIN) $(INSTALL_LIB)/pkgconfig $(DESTDIR)$(PREFIX)/include $(INSTALL_SHARE)/man/man1 \
		$(INSTALL_SHARE)/man/man5 $(INSTALL_SHARE)/man/man8 $(INSTALL_SHARE)/bash-completion/completions \
		$(INSTALL_SHARE)/zsh/site-functions $(INSTALL_SHARE)/fish/vendor_completions.d
	for page in $(MANUAL); do install -m 644 $$page $(INSTALL_SHARE)/man/man$${page##*.} || exit 1; done
	for program in lanekeeper lanekeeperd; do \
		install -m 644 $(BUILD)/completion/bash $(INSTALL_SHARE)/bash-completion/completions/$$program && \
		install -m 644 $(BUILD)/completion/fish $(INSTALL_SHARE)/fish/vendor_completions.d/$$program.fish || exit 1; done
	install -m 644 $(BUILD)/completion/zsh $(INSTALL_SHARE)/zsh/site-functions/_lanekeeper
	install $(PROGRAMS) $(INSTALL_BIN)
	install -m 644 client/c/lanekeeper.h $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/liblanekeeper.a $(INSTALL_LIB)
	install $(BUILD)/liblanekeeper.so $(INSTALL_LIB)/liblanekeeper.so.$(VERSION)
	ln -sf liblanekeeper.so.$(VERSION) $(INSTALL_LIB)/$(SONAME)
	ln -sf $(SONAME) $(INSTALL_LIB)/liblanekeeper.so
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: lanekeeper' 'Description: client of lanekeeperd' \
		'Version: $(VERSION)' 'Libs: -L$${prefix}/lib -llanekeeper' \
		'Libs.private: $(CLIENT_LIBS) -pthread' 'Cflags: -I$${prefix}/include' \
		>$(INSTALL_LIB)/pkgconfig/lanekeeper.pc
	[ -n "$(DESTDIR)" ] || PATH="$$PATH:/sbin:/usr/sbin" ldconfig 2>/dev/null || true # or programs linked to the library do not find it

clean: ## remove everything that was built or fetched
	rm -rf $(BUILD) $(ASAN) $(BUILD)-tsan $(BUILD)-coverage

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'
	@echo "Settings: BUILD=build CC=gcc|clang JOBS=2 WERROR= OPT=-O2 SAN=-fsanitize=… PREFIX=/usr/local DESTDIR="

.PRECIOUS: $(BUILD)/%.o $(BUILD)/%.pb-c.c $(BUILD)/%.pb-c.h
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
