/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_ENDS_H
#define HEALTH_HEALTH_ENDS_H

/*
 * Inside health/: which ends of streams are slow.  A stream is as fast as the slower of its two
 * ends; an end is a port's direction, a rank's, or (one way alone) a host to which the way may
 * be long.  Values are percent of what is expected of the stream; low is bad.
 */
struct health_end {
    int n; /* samples that count: those of ends that are slow do not */
    double median;
    double sigma; /* the standard error of that median, percent */
    double own;   /* the deviation of one sample */
    double z;     /* of the median, from 100 */
    double best;  /* what the best quarter of its partners see */
    int partners, saw;
    int again; /* samples of the second look, and their median */
    double again_median;
    int slow, confirmed;
    int suspect; /* not slow, and it may be */
    int denied;  /* would be slow, but the second look says it is not */
    const char
        *pardon; /* static: why it is not slow outside the range; NULL: it is not there */
};

struct health_ends {
    int ends, ways, samples;
    const int (*pair)[2];         /* [samples] source, destination; borrowed */
    const double *value;          /* [samples] percent; borrowed */
    const unsigned char *again;   /* [samples] of the second look; borrowed, NULL: none is */
    const double (*spread)[2];    /* [ends] least deviation of a sample, percent; NULL: 0 */
    const unsigned char *excused; /* [ends] what others see of it says nothing of them;
                                     borrowed, NULL: none is */
    int few;                      /* an end counts with its best partners */
    double sigma_least;
    int (*alerts)(const void *rules, double percent);
    const void *rules;
    /* results */
    double pooled; /* deviation of one sample, all ends together */
    double z;      /* that accuses */
    int least;     /* samples that accuse */
    struct health_end (*end)[2];
    /* inside */
    int *first[2]; /* [ends + 1] where the end's places begin */
    int *place[2]; /* samples */
    double *room;  /* [2 * samples] */
    double peers[2];
};

enum {
    HEALTH_AGAIN = 12,      /* samples of a second look */
    HEALTH_AGAIN_LEAST = 6, /* fewer confirm nothing and deny nothing */
};

/* Fills end and the rest of the results; what is borrowed stays. */
void health_ends_judge(struct health_ends *e);
void health_ends_release(struct health_ends *e);
/* Median of the samples of an end (those that count) of `value`; n 0: none. */
double health_ends_median(struct health_ends *e, int k, int way, const double *value, int *n);
/* The upper quartile over the partners of the median with each. */
double health_ends_best(struct health_ends *e, int k, int way, const double *value, int *n);
/* The robust deviation of one sample of the end, from its median, or where pairs have samples
 * enough, from those with each partner. */
double health_ends_deviation(struct health_ends *e, int k, int way, const double *value);
/* Only the index, for the three above. */
void health_ends_index(struct health_ends *e);

#endif
