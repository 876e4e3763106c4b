# SPDX-License-Identifier: BSD-3-Clause
#
#   make                 build the commands into bin/
#   make check           install what is missing, build, run every test
#   make check-tsan      the threads of a rank under the thread sanitizer
#   make fuzz            feed the readers of files with mutations, under clang
#   make demo            install what is missing, build, run the whole pipeline
#   make install         PREFIX=/usr/local DESTDIR=
#   make SAN=address,undefined check     the same tests under sanitizers
#   DEPS=no              never install anything

PREFIX  ?= /usr/local
VERSION := 0.1.0
CC      := gcc
CFLAGS  ?= -O2 -g
SAN     ?=
DEPS    ?= yes

comma := ,
B   := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
BIN := $(if $(SAN),$(B)/bin,bin)

PKGS     := ompi-c libcyaml yaml-0.1 jansson libxxhash libpcre2-8 hwloc
PKGFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS   := -Wl,--as-needed $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl -lgomp -lpthread -lm
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -DKERN_CLONES=)
ALLFLAGS := -std=c11 -D_GNU_SOURCE -DPARO_VERSION='"$(VERSION)"' -fopenmp -fvisibility=hidden \
            -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
            -Wpointer-arith -Wundef -Werror=implicit-function-declaration \
            -ffp-contract=off -fno-math-errno -Ilib $(PKGFLAGS) $(SANFLAGS) $(CFLAGS)

# A floor named for a machine part has twins, NAME_cuda.c and NAME_none.c; the build picks one.
ABSENT  := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),%_f16_none.c,%_f16_x86.c)
CUDASRC := $(filter-out %_none.c,$(wildcard lib/*/*_cuda*.c lib/exec/*_nccl*.c lib/kern/*_cudnn*.c))
LIBSRC  := $(filter-out $(ABSENT) $(CUDASRC),$(sort $(wildcard lib/*/*.c)))
LIBOBJ  := $(LIBSRC:%.c=$(B)/%.o)
CMDSRC  := $(sort $(wildcard cmd/*.c))
CMDS    := $(CMDSRC:cmd/%.c=$(BIN)/%)
SCRIPTS := $(patsubst cmd/%.sh,$(BIN)/%,$(wildcard cmd/*.sh))
UNITSRC := $(sort $(wildcard tests/unit/*_test.c))
UNITS   := $(UNITSRC:tests/unit/%.c=$(B)/unit/%)
FUZZSRC := $(sort $(wildcard tests/fuzz/*_fuzz.c))
# Programs that tests run under mpirun.
MPISRC  := $(sort $(wildcard tests/mpi/*.c))
MPIS    := $(MPISRC:tests/mpi/%.c=$(B)/mpi/%)
SANOBJ  := $(if $(SAN),$(B)/tests/lint/keep_loaded.o)

# V=1 shows whole commands; else one short line each.
V  ?=
Q  := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')

# As many jobs as processors, unless a number is given.
ifeq (0,$(MAKELEVEL)$(findstring -j,$(MAKEFLAGS)))
MAKEFLAGS += -j$(shell nproc)
endif

.PHONY: all check check-all check-long check-tsan check-tsan-all fuzz demo deps install uninstall clean bench-collectives bench-training bench-planner bench-int8 bench-kill format
all: $(CMDS) $(SCRIPTS)

$(B)/libparo.a: $(LIBOBJ)
	@rm -f $@ && ar rcs $@ $^
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(ALLFLAGS) -MMD -MP -c -o $@ $<
$(BIN)/%: $(B)/cmd/%.o $(SANOBJ) $(B)/libparo.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BIN)/%: cmd/%.sh
	@mkdir -p $(@D)
	$(call say,SH $@)
	$(Q)sed 's/@VERSION@/$(VERSION)/' $< > $@ && chmod 755 $@
$(B)/unit/%: $(B)/tests/unit/%.o $(SANOBJ) $(B)/libparo.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LDLIBS)
# NAME_fuzz_test drives what tests/fuzz/NAME_fuzz.c checks.
$(FUZZSRC:tests/fuzz/%.c=$(B)/unit/%_test): $(B)/unit/%_test: $(B)/tests/fuzz/%.o
$(B)/mpi/%: $(B)/tests/mpi/%.o $(SANOBJ) $(B)/libparo.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)
units: $(UNITS) $(MPIS)
.PRECIOUS: $(B)/%.o
-include $(LIBOBJ:.o=.d) $(CMDSRC:%.c=$(B)/%.d) $(UNITSRC:%.c=$(B)/%.d) $(MPISRC:%.c=$(B)/%.d) $(FUZZSRC:%.c=$(B)/%.d)

deps:
	@[ "$(DEPS)" = no ] || sh tests/deps
# The packages must be there before make reads their flags: hence a second make.
check: deps
	@$(MAKE) --no-print-directory check-all SAN=$(SAN)
check-long: deps
	@$(MAKE) --no-print-directory check-all SAN=$(SAN) LONG=1
check-all: all $(UNITS) $(MPIS)
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) LONG=$(LONG) SAN=$(SAN) sh tests/run
# Races between the threads of a rank: the programs that have two, built under -fsanitize=thread.
check-tsan: deps
	@$(MAKE) --no-print-directory check-tsan-all SAN=thread
check-tsan-all: $(addprefix $(B)/,unit/stream_test mpi/coll_check mpi/engine_check)
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) SAN=$(SAN) sh tests/run $(B)/unit/stream_test tests/tsan/threads.bats
demo: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) STEPS=$(STEPS) sh examples/demo.sh
# libFuzzer, where clang has it: tests/fuzz/run.  SECONDS_EACH=600 for longer.
fuzz: deps
	@$(MAKE) --no-print-directory $(BIN)/paro-sched $(BIN)/paro-topo $(BIN)/paro-plan
	@BIN=$(BIN) SECONDS_EACH=$(or $(SECONDS_EACH),60) sh tests/fuzz/run
# Minutes: tests/bench/collectives.sh says how to ask for less.
bench-collectives: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) sh tests/bench/collectives.sh
# Strategies side by side, planned beside measured: tests/bench/training.sh.
bench-training: deps
	@$(MAKE) --no-print-directory all $(B)/bench/training_plot
	@BIN=$(abspath $(BIN)) PLOT=$(B)/bench/training_plot sh tests/bench/training.sh
# Predicted beside measured steps of all strategies: tests/bench/planner.sh.
bench-planner: deps
	@$(MAKE) --no-print-directory all $(B)/bench/planner_plot
	@BIN=$(abspath $(BIN)) PLOT=$(B)/bench/planner_plot sh tests/bench/planner.sh
# What int8 blocks between groups do to the loss: tests/bench/int8.sh.
bench-int8: deps
	@$(MAKE) --no-print-directory all $(B)/bench/int8_plot
	@BIN=$(abspath $(BIN)) PLOT=$(B)/bench/int8_plot sh tests/bench/int8.sh
# Runs that are killed and gone on with: tests/bench/kill.sh.
bench-kill: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) sh tests/bench/kill.sh
$(B)/bench/%: $(B)/tests/bench/%.o $(B)/libparo.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

install: all
	@BIN=$(BIN) B=$(B) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) sh tests/install
uninstall:
	@BIN=$(BIN) B=$(B) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) sh tests/install --remove
format:
	clang-format -i lib/*/*.[ch] cmd/*.c tests/unit/*.c tests/fuzz/*.[ch]
clean:
	rm -rf build build-* bin
