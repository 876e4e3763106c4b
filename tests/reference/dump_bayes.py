#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Dumps the evidence of small Gaussian models as numpy and scipy compute it.

    python3 -m venv DIR && DIR/bin/pip install numpy scipy
    DIR/bin/python tests/reference/dump_bayes.py tests/data

writes bayes.tsv, data of 12 rows with 3 features and y, and bayes.txt, read by
tests/cmd/bayes.bats.  The committed ones were made by numpy 2.4.6 and scipy 1.17.1.

bayes.txt has a line "KERNEL log_P L L_2 combined" for each kernel, at prior variance 0.8 and noise
variance 0.3.  Linear models are updated row by row in the space of their weights; expectations of
rectified units are integrals over the angle of two normal numbers, L_2's over its two samples.
combined regresses y on the means of the models `linear`, with all features, and `first`, with
the first one, and a row for each of their deviations.
"""
import sys

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

V0, V = 0.8, 0.3


def kernel(x, both):
    def pair(a, b):
        ra, rb = np.linalg.norm(a), np.linalg.norm(b)
        angle = np.arccos(np.clip(a @ b / ra / rb, -1, 1))
        # u = r cos t, v = r cos(t - angle); the mean of r^2 is 2
        up, down = angle - np.pi / 2, np.pi / 2
        relu = 2 * ra * rb * quad(lambda t: np.cos(t) * np.cos(t - angle), up, down, epsabs=1e-13)[0] / (2 * np.pi)
        step = quad(lambda t: 1.0, up, down)[0] / (2 * np.pi)
        return 2 * (relu + both * (a @ b) * step)
    return np.array([[pair(a, b) for b in x] for a in x])


def rows_of_linear(x, y):
    mean, cov = np.zeros(x.shape[1]), V0 * np.eye(x.shape[1])
    for a, b in zip(x, y):
        yield a @ mean, a @ cov @ a
        new = np.linalg.inv(np.linalg.inv(cov) + np.outer(a, a) / V)
        mean, cov = new @ (np.linalg.solve(cov, mean) + a * b / V), new


def rows_of_gram(g, y):
    for i in range(len(y)):
        k = np.linalg.solve(g[:i, :i] + V * np.eye(i), g[:i, i])
        yield k @ y[:i], g[i, i] - k @ g[:i, i]


def bounds(rows, y):
    one = two = 0
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    for (m, q), b in zip(rows, y):
        l = norm.logpdf(b, m + np.sqrt(q) * node, np.sqrt(V))
        one += weight @ l
        two += weight @ logsumexp([l[:, None] + 0 * l, l + 0 * l[:, None]], axis=0) @ weight - np.log(2)
    return one, two


def main():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 3)).round(3)
    y = (x @ [1, -0.5, 0] + 0.5 * rng.normal(size=12)).round(3)
    np.savetxt(f"{sys.argv[1]}/bayes.tsv", np.column_stack([x, y]), "%.3f", "\t")
    models = {n: list(rows_of_linear(x[:, :k], y)) for n, k in (("linear", 3), ("first", 1))}
    grams = {"linear": V0 * x @ x.T, "first": V0 * x[:, :1] @ x[:, :1].T,
             "relu": V0 * kernel(x, 0), "ntk": V0 * kernel(x, 1)}
    a, b = [np.eye(2)], [np.full(2, 0.5)]
    a += [np.array([[p[0], q[0]] for p, q in zip(*models.values())]) / np.sqrt(V)]
    b += [y / np.sqrt(V)]
    for i, rows in enumerate(models.values()):
        a += [np.sqrt([[r[1] / V] for r in rows]) * np.eye(2)[i]]
        b += [np.zeros(len(y))]
    w = dict(zip(models, np.linalg.lstsq(np.vstack(a), np.concatenate(b), rcond=None)[0]))
    with open(f"{sys.argv[1]}/bayes.txt", "w") as f:
        for name, g in grams.items():
            log_p = multivariate_normal(np.zeros(12), g + V * np.eye(12)).logpdf(y)
            l, two = bounds(models.get(name) or rows_of_gram(g, y), y)
            print(f"{name} {log_p:.6f} {l:.6f} {two:.6f} {w.get(name, 0):.5f}", file=f)


main()
