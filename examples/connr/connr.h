/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONNR_H
#define CONNR_H
/*
 * ConNR: clustering by contextually affinitive neighbourhoods (arXiv 2312.07806), of texts.
 * Matrices are row-major floats; comments give their shapes, (rows,columns).
 */
#include <err.h>
#include <stddef.h>
#include <stdint.h>

/* ---- connr_text.c: the input, and views of it ---- */
void *zeros(int64_t n, size_t bytes); /* n items; exits with status 2 if there is no memory */
void release(void *variable);
#define SCOPED __attribute__((cleanup(release))) /* variables freed at the end of the block */
uint64_t stream(uint64_t seed, uint64_t which);  /* the state of random numbers */
double uniform(uint64_t *state);                 /* from [0, 1) */

struct texts {
    int n, classes, words, dim;
    int *label;         /* (n) */
    int64_t *from;      /* (n + 1) text i has the tokens from[i] ... from[i + 1] - 1 */
    int *token;         /* numbers of words */
    float *idf, *theme; /* (words) log(n / texts with the word); (words,dim) their vectors */
    float *vector;      /* (n,2,dim) the views themselves; NULL: those of tokens */
};
/*
 * Lines CLASS<TAB>TEXT, whose words get vectors of `dim` numbers by latent semantic analysis;
 * or CLASS<TAB>NUMBERS, the vector of the first view, then that of the second.
 */
void texts_read(struct texts *t, const char *path, int vectors, int dim, uint64_t seed);

struct view {
    uint64_t seed;     /* with it and the number of the text, a view is always the same */
    double crop, drop; /* least share of tokens kept, 1: all; probability to drop a token */
};
/* x (rows,dim): unit vectors, view 0 or 1 (side) of texts which[]; NULL: of the first ones. */
void texts_view(const struct texts *t, const int *which, int rows, const struct view *v,
                int side, float *x);

/* ---- connr_encoder.c: the network ---- */
enum sum { GRADIENT, MEAN };
void sum_ranks(enum sum which, void *x); /* over all ranks, in place; the program defines it */
/* C (m,n) += op(A) op(B); ta, tb: 'N', or 'T' for a matrix that is stored transposed. */
void add_product(char ta, char tb, int m, int n, int k, const float *a, const float *b,
                 float *c);
double normalise(float *x, int rows,
                 int d); /* to unit vectors; returns the last one's length */

struct net {
    int dim, hidden;                       /* set by the caller, the rest by net_init */
    int64_t part, count, steps;            /* parameters of projector or predictor, of both */
    float *online, *target, *m, *v, *grad; /* (count); grad has one more, for the loss */
};
void net_init(struct net *n, uint64_t seed);
void net_update(struct net *n, double rate, double average); /* Adam; the target follows */
/* COLLECTIVE.  mlp: (part); `all` rows on all ranks; y (rows,hidden); out (rows,dim). */
void mlp_forward(const struct net *n, const float *mlp, const float *x, int rows, int all,
                 float *y, float *out);
/* COLLECTIVE.  Adds to grad (part); dout (rows,dim) becomes the gradient of x. */
void mlp_backward(const struct net *n, const float *mlp, const float *x, const float *y,
                  int rows, int all, float *dout, float *grad);

/* ---- connr_cluster.c: k-means, and agreement with labels ---- */
/* x (n,d) unit vectors.  centre (k,d): unit vectors; of (n): the cluster of each row. */
void kmeans(const float *x, int n, int d, int k, uint64_t seed, float *centre, int *of);
struct scores {
    double nmi, acc, ari; /* 1: the same partition */
};
struct scores agreement(const int *label, const int *of, int n, int k); /* both below k */
/* The largest sum of entries of table (k,k), one of each row and column. */
double assignment(const int *table, int k);

/* ---- connr_refine.c: what ConNR adds to BYOL, on a batch of keys (b,d), unit vectors ---- */
/*
 * Rows first ... first + rows - 1 of the affinity c (rows,b), their k largest: near (rows,k).
 * k1, k2: neighbours in the graph, and of a propagation; k2 = 0: the affinity is the cosine.
 * All three are at most b.
 */
void rerank(const float *keys, int b, int d, int k1, int k2, int k, int first, int rows,
            float *c, int *near);
/*
 * keep (b): 1 where the distance to the own centre, over the distance to the next one, is below
 * the int(theta b)-th smallest of the batch.
 */
void boundary_filter(const float *keys, const int *of, int b, int d, const float *centre, int k,
                     double theta, char *keep);
/*
 * The rows' part of the loss -2 / (all k) sum_i keep_i sum_j q_i . key_near(i,j).  q (rows,d)
 * is made unit vectors; dq is the gradient before that.
 */
double concordance(float *q, int rows, int all, const float *keys, int d, const int *near,
                   int k, const char *keep, float *dq);
#endif
