# SPDX-License-Identifier: BSD-3-Clause
"""A recipe of Spack.  In the folder of the source:

    spack repo add examples/spack
    spack dev-build paro@0.2.0 ^mpich
"""

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Paro(MakefilePackage):
    """Training of language models on clusters with slow links between nodes."""

    license("BSD-3-Clause")

    version("0.2.0")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("libcyaml@1.3.1:")
    depends_on("libyaml")
    depends_on("expat")
    depends_on("hwloc@2.9:")
    depends_on("onednn@2.6:")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("pcre2")
    depends_on("utf8proc")

    # Not Open MPI: the name of the MPI's pkg-config file, and of the folder of the build.
    @property
    def build_targets(self):
        mpi = "ompi-c" if self.spec.satisfies("^[virtuals=mpi] openmpi") else "mpich"
        return ["DEPS=no", f"MPI={mpi}", f"PREFIX={self.prefix}"]

    @property
    def install_targets(self):
        return self.build_targets + ["install"]
