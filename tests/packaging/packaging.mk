# SPDX-License-Identifier: BSD-3-Clause
#
# Make targets for the scripts of this folder: install dependencies, install paro, build its
# packages.  Part of the Makefile, which describes the targets.

.PHONY: deps install uninstall wheel dist deb image

# deps prints the apt-get command before it runs it.
check-full check-long deb: PACKAGING := --deb
deps:
	@[ "$(DEPS)" = no ] || sh tests/packaging/deps $(PACKAGING)

run-install = @BIN=$(BIN) B=$(B) O=$(O) PREFIX=$(PREFIX) LIBDIR=$(LIBDIR) DESTDIR=$(DESTDIR) MPI=$(MPI) \
              sh tests/packaging/install
install: all
	$(run-install)
uninstall:
	$(run-install) --remove

wheel: $(O)/libparo.so
	@python3 lib/python/make_wheel.py $(O)
dist:
	@O=$(O) sh tests/packaging/dist
deb: deps
	@O=$(O) sh tests/packaging/dist --deb
image: deb
	@O=$(O) sh tests/packaging/image
