/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends messages along the flows named by the arguments, all at once, and prints what each one
 * got:
 *     flow MEBIBYTES FROM:TO...        (ranks)        "0:2 59.8 MB/s"
 *     flow where                       one line a rank: rank, host, rank and size in its node
 *     flow forever FROM:TO...          sends until it is killed
 *     flow leave STATUS                every rank exits without MPI_Finalize
 *     flow die RANK, flow abort RANK   one rank is killed, or aborts with 5; others wait
 * Test tool of paro-lab: stands for any MPI program, and shares no code with paro.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE = 1 << 20, WINDOW = 4, FLOWS = 16 };

static char buffer[2][FLOWS][WINDOW][MESSAGE];

static void print_where(int rank, int size)
{
    char host[MPI_MAX_PROCESSOR_NAME] = "", line[512], *all = NULL;
    int chars, node_rank, node_size;
    MPI_Comm node;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    MPI_Get_processor_name(host, &chars);
    memset(line, 0, sizeof line);
    snprintf(line, sizeof line, "%d %s %d %d", rank, host, node_rank, node_size);
    if (rank == 0)
        all = malloc((size_t)size * sizeof line);
    MPI_Gather(line, sizeof line, MPI_CHAR, all, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        puts(all + (size_t)i * sizeof line);
    free(all);
    MPI_Comm_free(&node);
}

/* One message of every flow that this rank takes part in; at most WINDOW are in flight. */
static void post(int flows, int ends[][2], int rank, int slot, MPI_Request requests[][2])
{
    for (int i = 0; i < flows; i++) {
        requests[i][0] = requests[i][1] = MPI_REQUEST_NULL;
        if (ends[i][0] == rank)
            MPI_Isend(buffer[0][i][slot], MESSAGE, MPI_CHAR, ends[i][1], i, MPI_COMM_WORLD,
                      &requests[i][0]);
        if (ends[i][1] == rank)
            MPI_Irecv(buffer[1][i][slot], MESSAGE, MPI_CHAR, ends[i][0], i, MPI_COMM_WORLD,
                      &requests[i][1]);
    }
}

/* Sends `messages` along each flow; end_s[i] is when flow i's last one had arrived. */
static void run(int flows, int ends[][2], int rank, long messages, double *end_s)
{
    static MPI_Request requests[FLOWS][WINDOW][2];
    MPI_Request now[FLOWS][2];

    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = MPI_Wtime();
    for (int i = 0; i < flows; i++)
        for (int w = 0; w < WINDOW; w++)
            requests[i][w][0] = requests[i][w][1] = MPI_REQUEST_NULL;
    long posted[FLOWS] = {0}, open = flows;
    /* Flows advance by themselves: a slow one must not hold back a fast one. */
    while (open > 0) {
        open = 0;
        for (int i = 0; i < flows; i++) {
            int slot = (int)(posted[i] % WINDOW), done;
            if (posted[i] == messages + WINDOW)
                continue;
            open++;
            MPI_Testall(2, requests[i][slot], &done, MPI_STATUSES_IGNORE);
            if (!done)
                continue;
            if (posted[i] < messages) {
                post(1, &ends[i], rank, slot, now);
                memcpy(requests[i][slot], now[0], sizeof now[0]);
            }
            if (++posted[i] == messages + WINDOW)
                end_s[i] = MPI_Wtime() - start_s;
        }
    }
}

/* Returns if `how` is none of the ways to end badly. */
static void end_badly(const char *how, int number, int rank)
{
    if (strcmp(how, "leave") == 0)
        exit(number);
    if (strcmp(how, "die") == 0 && rank == number)
        raise(SIGKILL);
    if (strcmp(how, "abort") == 0 && rank == number)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(how, "die") == 0 || strcmp(how, "abort") == 0)
        pause(); /* in MPI they might report the peer that they miss before mpirun ends them */
}

int main(int argc, char **argv)
{
    int rank, size, ends[FLOWS][2], flows = argc - 2;
    double end_s[FLOWS] = {0}, all_s[FLOWS];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && strcmp(argv[1], "where") == 0) {
        print_where(rank, size);
        return MPI_Finalize();
    }
    if (argc == 3)
        end_badly(argv[1], atoi(argv[2]), rank);
    if (flows < 1 || flows > FLOWS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < flows; i++)
        if (sscanf(argv[i + 2], "%d:%d", &ends[i][0], &ends[i][1]) != 2)
            MPI_Abort(MPI_COMM_WORLD, 2);
    run(flows, ends, rank, 1, end_s); /* connects */
    do
        run(flows, ends, rank, strcmp(argv[1], "forever") ? atol(argv[1]) : 64, end_s);
    while (strcmp(argv[1], "forever") == 0);
    MPI_Reduce(end_s, all_s, flows, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < flows; i++)
        printf("%s %.1f MB/s\n", argv[i + 2], (double)atol(argv[1]) * MESSAGE / all_s[i] / 1e6);
    return MPI_Finalize();
}
