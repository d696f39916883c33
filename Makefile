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

all:
.PHONY: all

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough $(WERROR)
OPT  ?= -O2
CFLAGS   ?= $(OPT) -g -fno-omit-frame-pointer -ffp-contract=off
CPPFLAGS += -D_GNU_SOURCE -DLK_VERSION='"$(VERSION)"' -Iserver -I. -I$(BUILD)
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(SAN) -fPIC -pthread -MMD -MP
LDFLAGS += $(SAN) -pthread
LDLIBS  := -lnng -lprotobuf-c -lzstd -lxxhash -lyaml -lpcre2-8 -lz

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
CLIENT_PROTO := $(BUILD)/proto/envelope.o $(BUILD)/proto/state.o $(BUILD)/proto/lanekeeper.pb-c.o
CLIENT_LIBS := -lnng -lprotobuf-c -lxxhash
$(CLIENT_OBJ): CPPFLAGS += -fvisibility=hidden
$(CLIENT_OBJ): | $(PROTO_C)

$(BUILD)/liblanekeeper.a: $(CLIENT_OBJ) $(CLIENT_PROTO)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/liblanekeeper.so: $(CLIENT_OBJ) $(CLIENT_PROTO)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -shared -Wl,-soname,liblanekeeper.so.0 -Wl,--exclude-libs,ALL -o $@ $^ $(CLIENT_LIBS)

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
UNIT_SRC := $(sort $(wildcard tests/unit/*/test_*.c))
UNIT_BIN := $(UNIT_SRC:%.c=$(BUILD)/%)

define unit
$(BUILD)/tests/unit/$(1)/test_%: $(BUILD)/tests/unit/$(1)/test_%.o $(BUILD)/tests/lib/check_main.o $(foreach d,$(deps_$(1)),$(BUILD)/lib/$(d).a)
	@echo "  LD  $$@"
	@$(CC) $(LDFLAGS) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LDLIBS) $$(CHECK_LIBS)
endef
CHECK_LIBS = $(shell pkg-config --libs check)
$(foreach l,$(LAYERS),$(eval $(call unit,$(l))))

# The pool's tests start real workers, and play false ones over the worker's own connection.
$(BUILD)/tests/unit/host/test_pool $(BUILD)/tests/unit/host/test_pool_remote: $(BUILD)/tests/lib/corpus.o $(call lib_of,worker) \
	| $(BUILD)/tests/lanekeeper-worker-faults $(BUILD)/lanekeeper-worker

.PHONY: unit
unit: $(UNIT_BIN)
	@for t in $(UNIT_BIN); do $$t || exit 1; done

.PRECIOUS: $(BUILD)/%.o $(BUILD)/%.pb-c.c $(BUILD)/%.pb-c.h
.PHONY: clean
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
