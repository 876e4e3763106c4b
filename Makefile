# SPDX-License-Identifier: BSD-3-Clause
#
#   make                 build the commands into bin/
#   make CUDA=1          build for GPUs too, into build-cuda/bin: CUDA_HOME, CUDNN_HOME,
#                        NCCL_HOME, ARCH="80 90" or native
#   make CUDA=emulated   build with the GPU in software that the tests use, tests/emulate
#   make MPI=mpich       build with the MPI of this pkg-config name into build-mpich/bin (default:
#                        ompi-c, Open MPI)
#   make check           install missing packages, build, run the tests that need one process:
#                        minutes
#   make check-full      run the tests that need mpirun, an emulated network or an emulated GPU,
#                        and the unit tests under sanitizers: half an hour
#   make check-long      run the longest tests, the next three targets, and check and check-full
#                        on fresh Debian 12 and 13 systems: hours, as root
#   make check-tsan      run programs with two threads per rank under the thread sanitizer
#   make check-faults    make every system call and allocation fail once: an hour
#   make check-fuzz      give mutated files to the readers of files, a minute each: needs clang
#   make check-mutants   change one line of the library at a time; a test must fail:
#                        MUTANTS=40 SEED=7 IN='lib/step lib/layout'
#   make renew           rewrite the outputs that tests expect, tests/cmd/expected; for some
#                        files: FILES=tests/cmd/topo.bats
#   make SAN=address,undefined check     run the same tests under sanitizers; also check-full
#   make demo            install missing packages, build, run the whole pipeline
#   make bench-NAME      run the benchmark tests/bench/NAME.sh: collectives simulate preload_mpi
#                        training planner int8 kill shard goodput shard_memory health health_lab
#                        rank types local watch peers easy backend periods
#   make install         install what make builds: PREFIX=/usr/local LIBDIR=lib DESTDIR=
#   make wheel           write a wheel of the Python package into build/, libparo.so included
#   make dist            write build/paro-VERSION.tar.gz, which builds without git and is a Debian
#                        source package: MAINTAINER='NAME <USER@HOST>' HOMEPAGE=URL
#   make deb             build it, and write build/deb, an apt repository of the packages
#   make image           write a container image of these packages, an OCI layout, into
#                        build/image: as root
#   DEPS=no              install no packages

PREFIX  ?= /usr/local
LIBDIR  ?= lib
VERSION := 0.2.0
CC      := gcc
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config
CFLAGS  ?= -O2 -g
SAN     ?=
DEPS    ?= yes
CUDA    ?=
MPI     := ompi-c

# A build with CUDA, with sanitizers or with another MPI has its own folders.
# O: objects common to the builds with and without CUDA
# B: all other objects, libraries and test programs of this build
# BIN: its commands
comma := ,
O   := build$(addprefix -,$(filter-out ompi-c,$(MPI)))$(if $(SAN),-$(subst $(comma),-,$(SAN)))
B   := $(if $(CUDA),$(O:build%=build-$(CUDA:1=cuda)%),$(O))
BIN := $(if $(filter build,$(B)),bin,$(B)/bin)

PKGS     := $(MPI) libcyaml yaml-0.1 expat libxxhash libpcre2-8 zlib libzstd libutf8proc hwloc
PKGFLAGS := $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null)
LDLIBS   := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) \
            -ldnnl -lgomp -lpthread -lm
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer \
            -DKERN_CLONES=)
# MPICH's MPI_STATUSES_IGNORE is the address 1, which gcc takes for an array without items.
WARN     := -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wpointer-arith -Wundef \
            $(if $(filter-out ompi-c,$(MPI)),-Wno-stringop-overflow)
CWARN    := -Wstrict-prototypes -Wmissing-prototypes -Werror=implicit-function-declaration
BOTH     := -D_GNU_SOURCE -DPARO_VERSION='"$(VERSION)"' -fopenmp -fPIC \
            -fvisibility=hidden $(WARN) -ffp-contract=off -fno-math-errno
ALLFLAGS  = -std=c11 $(BOTH) $(CWARN) $(CUDAINC) -Ilib $(PKGFLAGS) $(SANFLAGS) $(CPPFLAGS) \
            $(CFLAGS)

# Optional parts: cuda, and with it nccl and cudnn if their headers are found.  The sources of a
# part are NAME_PART.c, NAME_PART_*.c and .cu; a build without the part has NAME_PART_none.c.
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
HAS        := cuda $(foreach h,nccl cudnn,$(shell $(CC) $(CUDAINC) -E -include $h.h -x c \
              /dev/null >/dev/null 2>&1 && echo $h))
LDLIBS     += $(foreach l,$(CUDALIBS),-L$l -Wl,-rpath,$l) -lcudart -lcublasLt -lstdc++ \
              $(if $(filter nccl,$(HAS)),-l:libnccl.so.2) \
              $(if $(filter cudnn,$(HAS)),-l:libcudnn.so.9)
GENCODE    := $(foreach a,$(ARCH),-gencode arch=compute_$a,code=sm_$a) \
              -gencode arch=compute_$(lastword $(ARCH)),code=compute_$(lastword $(ARCH))
CUARCH     := $(if $(filter native,$(ARCH)),-arch=native,$(GENCODE))
# Files with _hopper_ in their name use instructions of this architecture only.
CUHOPPER   := -gencode arch=compute_90a,code=sm_90a
CU          = $(NVCC) -ccbin g++ -std=c++17 \
              -Xcompiler -Wall,-fPIC,-fvisibility=hidden,-fno-exceptions \
              $(if $(findstring _hopper_,$<),$(CUHOPPER),$(CUARCH)) -Ilib $(NVCCFLAGS)
else ifeq ($(CUDA),emulated)
CUDAINC    := -Itests/emulate
HAS        := cuda $(patsubst tests/emulate/%.h,%,\
              $(wildcard tests/emulate/nccl.h tests/emulate/cudnn.h))
EMULATOR   := $(wildcard tests/emulate/*.c tests/emulate/*.cpp)
LDLIBS     += -lstdc++
CU          = g++ -x c++ -std=c++17 -fno-exceptions $(filter-out -Wextra,$(BOTH)) \
              -Wno-unknown-pragmas $(CUDAINC) -Ilib $(SANFLAGS) $(CFLAGS)
else ifneq ($(CUDA),)
$(error CUDA is '$(CUDA)', expected 1 or emulated)
endif
OPTIONAL := cuda nccl cudnn
part     = $(filter-out lib/topo/%,$(wildcard $(foreach e,.c _*.c .cu _*.cu,lib/*/*_$1$e)))
# KNOWS: sources of optional parts; their objects are in B, all others in O
KNOWS   := $(sort $(filter-out %_none.c,$(foreach p,$(OPTIONAL),$(call part,$p))))
# oneDNN 2 and 3 have different interfaces; each has its own source file here.  Without headers
# the file for version 3 is compiled, and the compiler's error names the missing header.
ONEDNN  := $(shell echo DNNL_VERSION_MAJOR | \
           $(CC) -E -P -include oneapi/dnnl/dnnl_version.h - 2>/dev/null)
UNFIT   := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),%_f16_none.c,%_f16_x86.c) \
           $(if $(filter 2,$(ONEDNN)),%_onednn3.c,%_onednn2.c)
ABSENT  := $(foreach p,$(OPTIONAL),$(if $(filter $p,$(HAS)),%_$p_none.c,\
           $(filter-out %_none.c,$(call part,$p))))
# BORDERS: sources of libraries for other programs; B/libparo.a has none of them
BORDERS := $(wildcard lib/paro/*.c lib/preload/*.c lib/plugin/*.c)
ALLSRC  := $(filter-out $(UNFIT) $(BORDERS),$(sort $(wildcard lib/*/*.c lib/*/*.cu)))
LIBSRC  := $(filter-out $(ABSENT),$(ALLSRC)) $(EMULATOR)
obj      = $(addsuffix .o,$(basename \
           $(patsubst %,$(O)/%,$(filter-out $(KNOWS) $(EMULATOR),$1)) \
           $(patsubst %,$(B)/%,$(filter $(KNOWS) $(EMULATOR),$1))))
LIBOBJ  := $(call obj,$(LIBSRC))
# Libraries for other programs: libparo, which uses no GPU; libraries to preload; a plugin of
# NCCL.  With the emulated GPU, NCCL is a library in the same folder.
border   = $(call obj,$(filter $(patsubst %,lib/%.c,$1),$(BORDERS)))
PORTS   := paro/paro_fabric paro/paro_combine
PUBLIC  := $(O)/libparo.so $(O)/static/libparo.a \
           $(if $(call border,preload/preload_mpi%),$(O)/libparo-mpi.so) \
           $(B)/libparo-nccl-plugin.so
PRELOAD := $(if $(filter nccl,$(HAS)),$(B)/libparo-nccl.so)
SOFTGPU := $(if $(EMULATOR),$(B)/libnccl.so.2)
BESIDE  := $(if $(EMULATOR),-Wl$(comma)-rpath$(comma)$(abspath $(B)))
CMDSRC  := $(sort $(wildcard cmd/*.c))
CMDS    := $(CMDSRC:cmd/%.c=$(BIN)/%)
SCRIPTS := $(patsubst cmd/%.sh,$(BIN)/%,$(wildcard cmd/*.sh))
UNITSRC := $(sort $(wildcard tests/unit/*_test.c))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/unit/%_test,$(sort $(wildcard tests/fuzz/*_fuzz.c)))
UNITS   := $(UNITSRC:tests/unit/%.c=$(B)/unit/%) $(FUZZERS)
# Programs that tests run under mpirun or on a GPU.  cuda_* call CUDA kernels: only with CUDA.
CHECKSRC := $(filter-out $(if $(CUDA),,tests/gpu/cuda_%),\
            $(sort $(wildcard tests/mpi/*.c tests/gpu/*_check.c)))
CHECKS   := $(CHECKSRC:tests/%.c=$(B)/%)
SANOBJ  := $(if $(SAN),$(O)/tests/lint/keep_loaded.o)

# V=1 prints whole commands instead of one short line each.
V  ?=
Q  := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)')

# Run as many jobs as there are processors, unless -j is given.
ifeq (0,$(MAKELEVEL)$(findstring -j,$(MAKEFLAGS)))
MAKEFLAGS += -j$(shell nproc)
endif

.PHONY: all units unit-programs checks gpu-checks emulated sanitized check check-all
.PHONY: check-full check-full-all check-long check-long-all check-tsan check-tsan-all
.PHONY: check-faults check-fuzz check-mutants renew demo clean format
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
	@rm -f $@ && $(AR) rcs $@ $^
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
	$(Q)sed -e '/^@OPTIONS@$$/{r cmd/options.in' -e 'd;}' $< | \
	sed 's/@VERSION@/$(VERSION)/' > $@ && chmod 755 $@
$(B)/unit/%: $(O)/tests/unit/%.o $(SANOBJ) $(B)/libparo.a
	$(call link,-lcmocka)
# NAME_fuzz_test mutates the seeds of tests/fuzz/NAME_fuzz.c.
$(FUZZERS): $(B)/unit/%_test: $(O)/tests/fuzz/%.o $(O)/tests/fuzz/fuzz_mutate.o \
  $(O)/tests/fuzz/fuzz_seeds.o $(SANOBJ) $(B)/libparo.a
	$(call link,-lcmocka)
$(B)/unit/bayes_test: LDLIBS += -llapacke
$(filter $(B)/unit/nccl_%,$(UNITS)): | $(B)/libparo-nccl-plugin.so
# preload_NAME_test calls functions of lib/preload, which is not part of libparo.a.
$(filter $(B)/unit/preload_%,$(UNITS)): $(B)/unit/%_test: $(O)/lib/preload/%.o
# NAME_check is also linked with NAME_check_PART.c.
PARTSRC := $(sort $(wildcard tests/gpu/*_check_*.c))
$(B)/gpu/kern_check: $(patsubst %.c,$(O)/%.o,$(filter tests/gpu/kern_check_%,$(PARTSRC)))
# Programs of tests/mpi, tests/gpu and tests/bench.
$(B)/%: $(O)/tests/%.o $(SANOBJ) $(B)/libparo.a
	$(call link)
# Libraries for other programs export only their interface, no symbol of libparo.a.
shared   = $(call link,-shared -Wl$(comma)--exclude-libs$(comma)ALL $1)
$(B)/tests/emulate/%.o: override CFLAGS += -fvisibility=default
$(B)/libnccl.so.2: $(call obj,$(EMULATOR))
	$(call link,-shared -Wl$(comma)-soname$(comma)libnccl.so.2)
$(B)/libparo-nccl.so: $(call border,preload/preload_nccl% plugin/plugin_tuning) $(SOFTGPU) \
  $(B)/libparo.a
	$(call shared,$(BESIDE))
$(O)/libparo-mpi.so: $(call border,preload/preload_mpi% $(PORTS)) $(O)/libparo.a
	$(call shared)
# NCCL closes the plugin with its last communicator.  It stays loaded, so that records of later
# communicators are added to those of earlier ones.
$(B)/libparo-nccl-plugin.so: $(call border,plugin/%) $(O)/libparo.a
	$(call shared,-Wl$(comma)-z$(comma)nodelete)
$(O)/libparo.so: $(call border,paro/%) $(O)/libparo.a
	$(call shared,-Wl$(comma)-soname$(comma)libparo.so.0)
$(O)/static/libparo.a: $(call border,paro/%) $(O)/libparo.a
	@mkdir -p $(@D) && rm -f $@
	$(call say,AR $@)
	$(Q)$(CC) -r -nostdlib -o $(@D)/paro.o $^ && $(OBJCOPY) --localize-hidden $(@D)/paro.o && \
	$(AR) rcs $@ $(@D)/paro.o
$(B)/preload/%: $(B)/tests/preload/%.o $(SOFTGPU)
	$(call link,$(BESIDE))
unit-programs: $(UNITS)
units: $(UNITS) $(CHECKS)
checks: $(CHECKS) \
  $(if $(PRELOAD),$(patsubst tests/%.c,$(B)/%,$(wildcard tests/preload/nccl_*.c)))
gpu-checks: $(filter $(B)/gpu/%,$(CHECKS)) \
  $(patsubst tests/%.c,$(B)/%,$(wildcard tests/gpu/*_bench.c))
.PRECIOUS: $(O)/%.o $(B)/%.o
-include $(sort $(wildcard $(foreach b,$(O) $(B),$b/*/*.d $b/*/*/*.d)))

# A second make reads the compiler flags of the packages that deps has installed.
check check-full: %: deps
	@$(MAKE) --no-print-directory $*-all SAN=$(SAN)
check-long: deps
	@$(MAKE) --no-print-directory check-long-all SAN=$(SAN)
	@$(MAKE) --no-print-directory check-tsan check-faults check-fuzz DEPS=no
	@sh tests/packaging/bare
run-tests = @BIN=$(abspath $(BIN)) B=$(abspath $(B)) \
            B_EMULATED=$(abspath $(O:build%=build-emulated%)) \
            B_SAN=$(abspath build-address-undefined) SAN=$(SAN) TIER=$1 sh tests/run
check-all: all units
	$(call run-tests,check)
check-full-all: all units emulated sanitized
	$(call run-tests,full)
check-long-all: all units emulated
	$(call run-tests,long)
sanitized:
	@$(MAKE) --no-print-directory SAN=address,undefined unit-programs
# Runs after all and units, because both makes write objects into O.
emulated: all units
	@$(MAKE) --no-print-directory CUDA=emulated SAN=$(SAN) all checks
# Programs with two threads per rank, built with -fsanitize=thread, which finds data races.
check-tsan: deps
	@$(MAKE) --no-print-directory check-tsan-all SAN=thread
TSANUNITS := $(addprefix $(B)/unit/,stream_test shard_move_test nccl_plugin_test)
check-tsan-all: $(TSANUNITS) $(addprefix $(B)/mpi/,coll_check engine_check)
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) SAN=$(SAN) \
	sh tests/run $(TSANUNITS) tests/tsan/threads.bats
# Runs every verb again and again; each time another system call or allocation fails.  SAMPLE=20
# makes fewer of them fail.
check-faults: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) OUT=$(or $(OUT),$(B)/fault) SAMPLE=$(SAMPLE) \
	JOBS=$(or $(JOBS),$(shell nproc)) sh tests/fault/run
# Runs the tests that compare with files, rewrites these files, and shows which have changed.
renew: all
	@BIN=$(abspath $(BIN)) B=$(abspath $(B)) RENEW=1 \
	sh tests/run $(or $(FILES),$(shell grep -lx 'load expect' tests/*/*.bats)); \
	rc=$$?; git add -N tests/cmd/expected && git diff --stat -- tests/cmd/expected; exit $$rc
demo: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) STEPS=$(STEPS) sh examples/demo.sh
# Needs libFuzzer of clang.  SECONDS_EACH=600 runs longer, READERS="plan yaml" selects readers.
check-fuzz: deps
	@SECONDS_EACH=$(or $(SECONDS_EACH),60) sh tests/fuzz/run $(READERS)
# Takes hours for hundreds of mutants.
check-mutants: deps
	@tests/mutants/run
# Each benchmark takes minutes; its script lists the variables that shorten it.
bench-%: deps
	@$(MAKE) --no-print-directory all $(patsubst tests/%.c,$(B)/%,$(wildcard tests/bench/$*_*.c))
	@BIN=$(abspath $(BIN)) PLOT=$(B)/bench/$*_plot sh tests/bench/$*.sh

format:
	clang-format -i $(wildcard lib/*/*.[ch] lib/*/*.cu cmd/*.c) \
	  $(wildcard tests/unit/*.[ch] tests/*/*.[ch] tests/emulate/*.cpp)
clean:
	rm -rf build build-* bin

include tests/packaging/packaging.mk
