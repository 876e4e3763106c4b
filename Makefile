# SPDX-License-Identifier: BSD-3-Clause
#
#   make                 build the commands into bin/
#   make CUDA=1          the same for GPUs too, into build-cuda/bin (CUDA_HOME, CUDNN_HOME, NCCL_HOME, ARCH="80 90", native)
#   make check           install what is missing, build, run the tests that need one process: minutes
#   make check-full      those with mpirun, emulated fabric and GPU, and the unit tests under sanitizers: half an hour
#   make check-long      long cases, the three below, and both tiers in bare Debian 12 and 13 systems: hours, as root
#   make check-tsan      the threads of a rank under the thread sanitizer
#   make check-faults    every system call and allocation fails once: an hour
#   make check-fuzz      feed the readers of files with mutations, a minute each, under clang
#   make renew           write the outputs that tests expect, tests/cmd/expected: FILES=tests/cmd/topo.bats for some
#   make check-mutants   change one line of the library at a time: does a test object?  MUTANTS=40 SEED=7 IN='lib/step lib/layout'
#   make demo            install what is missing, build, run the whole pipeline
#   make bench-NAME      measure, by tests/bench/NAME.sh: collectives simulate preload_mpi training planner int8 kill shard
#                        goodput shard_memory health health_lab rank types local watch peers easy
#   make install         PREFIX=/usr/local LIBDIR=lib DESTDIR=
#   make dist            write build/paro-VERSION.tar.gz, which needs no git
#   make deb             build Debian packages into build/deb
#   make image           write a container image of them, an OCI layout, into build/image: as root
#   make SAN=address,undefined check     the same tests under sanitizers; check-full as well
#   make CUDA=emulated   with the GPU in software that the tests use, tests/emulate
#   DEPS=no              never install anything

PREFIX  ?= /usr/local
LIBDIR  ?= lib
VERSION := 0.2.0
CC      := gcc
CFLAGS  ?= -O2 -g
SAN     ?=
DEPS    ?= yes
CUDA    ?=

# Flavours have folders of their own, O for what all of them share: what knows nothing of CUDA.
comma := ,
O   := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
B   := $(if $(CUDA),$(O:build%=build-$(CUDA:1=cuda)%),$(O))
BIN := $(if $(filter build,$(B)),bin,$(B)/bin)

PKGS     := ompi-c libcyaml yaml-0.1 expat libxxhash libpcre2-8 zlib libzstd libutf8proc hwloc
PKGFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS   := -Wl,--as-needed $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl -lgomp -lpthread -lm
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -DKERN_CLONES=)
WARN     := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wpointer-arith -Wundef
CWARN    := -Wstrict-prototypes -Wmissing-prototypes -Werror=implicit-function-declaration
BOTH     := -D_GNU_SOURCE -DPARO_VERSION='"$(VERSION)"' -fopenmp -fPIC -fvisibility=hidden $(WARN) \
            -ffp-contract=off -fno-math-errno
ALLFLAGS  = -std=c11 $(BOTH) $(CWARN) $(CUDAINC) -Ilib $(PKGFLAGS) $(SANFLAGS) $(CPPFLAGS) $(CFLAGS)

# A part that a machine may lack has files NAME_part.c, NAME_part_*.c, .cu, and NAME_part_none.c
# where it is left out: cuda, and with it nccl and cudnn where their headers are found.
ifeq ($(CUDA),1)
CUDA_HOME  ?= $(or $(patsubst %/bin/nvcc,%,$(shell command -v nvcc)),/usr/local/cuda)
CUDNN_HOME ?= $(CUDA_HOME)
NCCL_HOME  ?= $(CUDA_HOME)
HOMES      := $(sort $(CUDA_HOME) $(CUDNN_HOME) $(NCCL_HOME))
ARCH       ?= 80 90
NVCC       ?= $(CUDA_HOME)/bin/nvcc
NVCCFLAGS  ?= -O3
CUDAINC    := $(HOMES:%=-isystem %/include)
CUDALIBS   := $(wildcard $(HOMES:%=%/lib64) $(HOMES:%=%/lib))
HAS        := cuda $(foreach h,nccl cudnn,$(shell $(CC) $(CUDAINC) -E -include $h.h -x c /dev/null >/dev/null 2>&1 && echo $h))
LDLIBS     += $(foreach l,$(CUDALIBS),-L$l -Wl,-rpath,$l) -lcudart -lcublasLt -lstdc++ \
              $(if $(filter nccl,$(HAS)),-l:libnccl.so.2) $(if $(filter cudnn,$(HAS)),-l:libcudnn.so.9)
CU          = $(NVCC) -ccbin g++ -std=c++17 -Xcompiler -Wall,-fPIC,-fvisibility=hidden,-fno-exceptions \
              $(if $(findstring _hopper_,$<),-gencode arch=compute_90a$(comma)code=sm_90a,$(CUARCH)) -Ilib $(NVCCFLAGS)
# Files named for hopper speak what no other architecture does.
CUARCH     := $(if $(filter native,$(ARCH)),-arch=native,$(foreach a,$(ARCH),-gencode arch=compute_$a,code=sm_$a) \
              -gencode arch=compute_$(lastword $(ARCH)),code=compute_$(lastword $(ARCH)))
else ifeq ($(CUDA),emulated)
CUDAINC    := -Itests/emulate
HAS        := cuda $(patsubst tests/emulate/%.h,%,$(wildcard tests/emulate/nccl.h tests/emulate/cudnn.h))
EMULATOR   := $(wildcard tests/emulate/*.c tests/emulate/*.cpp)
LDLIBS     += -lstdc++
CU          = g++ -x c++ -std=c++17 -fno-exceptions $(filter-out -Wextra,$(BOTH)) -Wno-unknown-pragmas $(CUDAINC) -Ilib $(SANFLAGS) $(CFLAGS)
else ifneq ($(CUDA),)
$(error CUDA is '$(CUDA)', expected 1 or emulated)
endif
PARTS   := cuda nccl cudnn
part     = $(filter-out lib/topo/%,$(wildcard $(foreach e,.c _*.c .cu _*.cu,lib/*/*_$1$e)))
KNOWS   := $(sort $(filter-out %_none.c,$(foreach p,$(PARTS),$(call part,$p))))
# oneDNN has two interfaces, a file each; without headers the newer one says what is missing.
ONEDNN  := $(shell echo DNNL_VERSION_MAJOR | $(CC) -E -P -include oneapi/dnnl/dnnl_version.h - 2>/dev/null)
UNFIT   := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),%_f16_none.c,%_f16_x86.c) \
           $(if $(filter 2,$(ONEDNN)),%_onednn3.c,%_onednn2.c)
ABSENT  := $(foreach p,$(PARTS),$(if $(filter $p,$(HAS)),%_$p_none.c,$(filter-out %_none.c,$(call part,$p))))
# Folders whose objects are in shared libraries alone.
BORDERS := $(wildcard lib/paro/*.c lib/preload/*.c lib/plugin/*.c)
ALLSRC  := $(filter-out $(UNFIT) $(BORDERS),$(sort $(wildcard lib/*/*.c lib/*/*.cu)))
LIBSRC  := $(filter-out $(ABSENT),$(ALLSRC)) $(EMULATOR)
obj      = $(addsuffix .o,$(basename $(patsubst %,$(O)/%,$(filter-out $(KNOWS) $(EMULATOR),$1)) \
           $(patsubst %,$(B)/%,$(filter $(KNOWS) $(EMULATOR),$1))))
LIBOBJ  := $(call obj,$(LIBSRC))
# What other programs load: libparo without GPUs, and what they preload; one that is in software has its library beside.
border   = $(call obj,$(filter $(patsubst %,lib/%.c,$1),$(BORDERS)))
PORTS   := paro/paro_fabric paro/paro_combine
PUBLIC  := $(O)/libparo.so $(O)/static/libparo.a $(if $(call border,preload/preload_mpi%),$(O)/libparo-mpi.so) $(B)/libparo-nccl-plugin.so
PRELOAD := $(if $(filter nccl,$(HAS)),$(B)/libparo-nccl.so)
SOFTGPU := $(if $(EMULATOR),$(B)/libnccl.so.2)
BESIDE  := $(if $(EMULATOR),-Wl$(comma)-rpath$(comma)$(abspath $(B)))
CMDSRC  := $(sort $(wildcard cmd/*.c))
CMDS    := $(CMDSRC:cmd/%.c=$(BIN)/%)
SCRIPTS := $(patsubst cmd/%.sh,$(BIN)/%,$(wildcard cmd/*.sh))
UNITSRC := $(sort $(wildcard tests/unit/*_test.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/unit/%_test,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
UNITS   := $(UNITSRC:tests/unit/%.c=$(B)/unit/%) $(FUZZERS)
# Programs that tests run: under mpirun, on a GPU; of the latter some call its kernels.
CHECKSRC := $(filter-out $(if $(CUDA),,tests/gpu/cuda_%),$(sort $(wildcard tests/mpi/*.c tests/gpu/*_check.c)))
CHECKS   := $(CHECKSRC:tests/%.c=$(B)/%)
SANOBJ  := $(if $(SAN),$(O)/tests/lint/keep_loaded.o)

# V=1 shows whole commands; else one short line each.
V  ?=
Q  := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')

# As many jobs as processors, unless a number is given.
ifeq (0,$(MAKELEVEL)$(findstring -j,$(MAKEFLAGS)))
MAKEFLAGS += -j$(shell nproc)
endif

.PHONY: all units unit-programs checks gpu-checks emulated sanitized check check-all check-full check-full-all check-long check-long-all check-tsan check-tsan-all check-faults check-fuzz check-mutants renew demo deps install uninstall dist deb image clean format
all: $(CMDS) $(SCRIPTS) $(PUBLIC) $(PRELOAD)

define compile
	@mkdir -p $(@D)
	$(call say,$1 $<)
	$(Q)$2 -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
endef
define link
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(ALLFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter-out %.o,$^) $1 $(LDLIBS)
endef
$(B)/libparo.a: $(LIBOBJ)
$(O)/libparo.a: $(call obj,$(filter-out $(KNOWS),$(ALLSRC)))
$(sort $(B)/libparo.a $(O)/libparo.a):
	@rm -f $@ && ar rcs $@ $^
$(O)/%.o: %.c
	$(call compile,CC,$(CC) $(ALLFLAGS))
ifneq ($(B),$(O))
$(B)/%.o: %.c
	$(call compile,CC,$(CC) $(ALLFLAGS))
endif
$(B)/%.o: %.cu
	$(call compile,CU,$(CU))
$(B)/%.o: %.cpp
	$(call compile,CU,$(CU))
$(BIN)/%: $(O)/cmd/%.o $(SANOBJ) $(B)/libparo.a
	$(call link)
$(BIN)/%: cmd/%.sh cmd/options.in
	@mkdir -p $(@D)
	$(call say,SH $@)
	$(Q)sed -e '/^@OPTIONS@$$/{r cmd/options.in' -e 'd;}' $< | sed 's/@VERSION@/$(VERSION)/' > $@ && chmod 755 $@
$(B)/unit/%: $(O)/tests/unit/%.o $(SANOBJ) $(B)/libparo.a
	$(call link,-lcmocka)
# NAME_fuzz_test mutates the seeds of tests/fuzz/NAME_fuzz.c.
$(FUZZERS): $(B)/unit/%_test: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/fuzz_mutate.o $(O)/tests/fuzz/fuzz_seeds.o $(SANOBJ) $(B)/libparo.a
	$(call link,-lcmocka)
$(B)/unit/bayes_test: LDLIBS += -llapacke
$(filter $(B)/unit/nccl_%,$(UNITS)): | $(B)/libparo-nccl-plugin.so
# preload_NAME_test calls what is in no library.
$(filter $(B)/unit/preload_%,$(UNITS)): $(B)/unit/%_test: $(O)/lib/preload/%.o
# NAME_check's parts are NAME_check_PART.c.
PARTSRC := $(sort $(wildcard tests/gpu/*_check_*.c))
$(B)/gpu/kern_check: $(patsubst %.c,$(O)/%.o,$(filter tests/gpu/kern_check_%,$(PARTSRC)))
# mpi/NAME, gpu/NAME, bench/NAME.
$(B)/%: $(O)/tests/%.o $(SANOBJ) $(B)/libparo.a
	$(call link)
# Of libraries that other programs load nothing is seen but what they are for.
shared   = $(call link,-shared -Wl$(comma)--exclude-libs$(comma)ALL $1)
$(B)/tests/emulate/%.o: override CFLAGS += -fvisibility=default
$(B)/libnccl.so.2: $(call obj,$(EMULATOR))
	$(call link,-shared -Wl$(comma)-soname$(comma)libnccl.so.2)
$(B)/libparo-nccl.so: $(call border,preload/preload_nccl% plugin/plugin_tuning) $(SOFTGPU) $(B)/libparo.a
	$(call shared,$(BESIDE))
$(O)/libparo-mpi.so: $(call border,preload/preload_mpi% $(PORTS)) $(O)/libparo.a
	$(call shared)
# NCCL closes it with its last communicator; records of later ones follow those of earlier ones.
$(B)/libparo-nccl-plugin.so: $(call border,plugin/%) $(O)/libparo.a
	$(call shared,-Wl$(comma)-z$(comma)nodelete)
$(O)/libparo.so: $(call border,paro/%) $(O)/libparo.a
	$(call shared,-Wl$(comma)-soname$(comma)libparo.so.0)
$(O)/static/libparo.a: $(call border,paro/%) $(O)/libparo.a
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR $@)
	$(Q)ld -r -o $(@D)/paro.o $^ && objcopy --localize-hidden $(@D)/paro.o && ar rcs $@ $(@D)/paro.o
$(B)/preload/%: $(B)/tests/preload/%.o $(SOFTGPU)
	$(call link,$(BESIDE))
unit-programs: $(UNITS)
units: $(UNITS) $(CHECKS)
checks: $(CHECKS) $(if $(PRELOAD),$(patsubst tests/%.c,$(B)/%,$(wildcard tests/preload/nccl_*.c)))
gpu-checks: $(filter $(B)/gpu/%,$(CHECKS)) $(patsubst tests/%.c,$(B)/%,$(wildcard tests/gpu/*_bench.c))
.PRECIOUS: $(O)/%.o $(B)/%.o
-include $(sort $(wildcard $(foreach b,$(O) $(B),$b/*/*.d $b/*/*/*.d)))

check-full check-long deb: PACKAGING := --deb
deps:
	@[ "$(DEPS)" = no ] || sh tests/packaging/deps $(PACKAGING)
# The packages must be there before make reads their flags: hence a second make.
check check-full: %: deps
	@$(MAKE) --no-print-directory $*-all SAN=$(SAN)
check-long: deps
	@$(MAKE) --no-print-directory check-long-all SAN=$(SAN)
	@$(MAKE) --no-print-directory check-tsan check-faults check-fuzz DEPS=no
	@sh tests/packaging/bare
run-tests = @BIN=$(abspath $(BIN)) B=$(abspath $(B)) B_EMULATED=$(abspath $(O:build%=build-emulated%)) B_SAN=$(abspath build-address-undefined) SAN=$(SAN) TIER=$1 sh tests/run
check-all: all units
	$(call run-tests,check)
check-full-all: all units emulated sanitized
	$(call run-tests,full)
check-long-all: all units emulated
	$(call run-tests,long)
sanitized:
	@$(MAKE) --no-print-directory SAN=address,undefined unit-programs
# After all the rest: it shares the objects.
emulated: all units
	@$(MAKE) --no-print-directory CUDA=emulated SAN=$(SAN) all checks
# Races between the threads of a rank: the programs that have two, built under -fsanitize=thread.
check-tsan: deps
	@$(MAKE) --no-print-directory check-tsan-all SAN=thread
check-tsan-all: $(addprefix $(B)/,unit/stream_test unit/shard_move_test unit/nccl_plugin_test mpi/coll_check mpi/engine_check)
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) SAN=$(SAN) sh tests/run $(B)/unit/stream_test $(B)/unit/shard_move_test $(B)/unit/nccl_plugin_test tests/tsan/threads.bats
# Every n-th call of every kind fails, in every verb, and is the last: tests/fault/run; SAMPLE=20 for less.
check-faults: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) OUT=$(or $(OUT),$(B)/fault) SAMPLE=$(SAMPLE) JOBS=$(or $(JOBS),$(shell nproc)) sh tests/fault/run
# The tests that compare with files; what they print now is written there, for review.
renew: all
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) RENEW=1 sh tests/run $(or $(FILES),$(shell grep -lx 'load expect' tests/*/*.bats)); \
	rc=$$?; git add -N tests/cmd/expected && git diff --stat -- tests/cmd/expected; exit $$rc
demo: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) STEPS=$(STEPS) sh examples/demo.sh
# libFuzzer, where clang has it: tests/fuzz/run.  SECONDS_EACH=600 for longer, READERS="plan yaml" for some.
check-fuzz: deps
	@SECONDS_EACH=$(or $(SECONDS_EACH),60) sh tests/fuzz/run $(READERS)
# Hours for hundreds of mutants: tests/mutants/run.
check-mutants: deps
	@tests/mutants/run
# Minutes each: the script says how to ask for less.
bench-%: deps
	@$(MAKE) --no-print-directory all $(patsubst tests/%.c,$(B)/%,$(wildcard tests/bench/$*_*.c))
	@BIN=$(abspath $(BIN)) PLOT=$(B)/bench/$*_plot sh tests/bench/$*.sh

install: all
	@BIN=$(BIN) B=$(B) O=$(O) PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR) sh tests/packaging/install
uninstall:
	@BIN=$(BIN) B=$(B) O=$(O) PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR) sh tests/packaging/install --remove
dist:
	@O=$(O) sh tests/packaging/dist
deb: deps
	@O=$(O) sh tests/packaging/dist --deb
image: deb
	@O=$(O) sh tests/packaging/image
format:
	clang-format -i $(wildcard lib/*/*.[ch] lib/*/*.cu cmd/*.c tests/unit/*.[ch] tests/*/*.[ch] tests/emulate/*.cpp)
clean:
	rm -rf build build-* bin
