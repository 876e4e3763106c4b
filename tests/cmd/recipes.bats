# SPDX-License-Identifier: BSD-3-Clause
# The recipe of Spack has the packages that the build of the Debian packages has; the module file loads.

@test "examples/spack depends on what debian/control builds with" {
    cd "$ROOT" || exit 1
    python3 - <<'PY'
import ast
ast.parse(open("examples/spack/packages/paro/package.py").read())
PY
    grep -qxF "    version(\"$(sed -n 's/^VERSION *:= *//p' Makefile)\")" examples/spack/packages/paro/package.py
    diff <(sed -n '/^Build-Depends:/,/^$/p' tests/packaging/debian/control | grep -oE '[a-z0-9-]+( \(>= [0-9.]+\))?(,|$)' |
        grep -v debhelper | sed -E 's/ \(>= (.*)\)/@\1:/; s/,$//
            s/^lib(cyaml|yaml)-dev/lib\1/; s/^lib(.*)-dev/\1/; s/expat1/expat/; s/dnnl/onednn/; s/pcre2/pcre2/
            s/openmpi.*/mpi/; s/^pkg-config/pkgconfig/; s/^zlib1g-dev/zlib-api/' | sort) \
        <(sed -n 's/^    depends_on("\([^"]*\)".*/\1/p' examples/spack/packages/paro/package.py | grep -vxE 'c|gmake' | sort)
}

@test "the module file adds an installation to the paths" {
    command -v modulecmd >/dev/null || skip "no environment-modules here"
    PARO_PREFIX=/opt/paro MODULEPATH=$ROOT/examples/modulefiles run modulecmd sh load paro
    [ "$status" = 0 ]
    [[ "$output" =~ PATH=/opt/paro/bin: ]]
    [[ "$output" == *LD_LIBRARY_PATH=/opt/paro/lib/paro:/opt/paro/lib* ]]
}
