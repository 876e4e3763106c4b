/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/train_events.h"

#include <assert.h>
#include <string.h>

#include "base/io.h"

/* A value has a tag, a float, and at most 10 bytes of keys and lengths. */
enum { VALUE_MAX = EVENTS_TAG_MAX + 16, MESSAGE_MAX = EVENTS_SCALARS_MAX * VALUE_MAX + 64 };
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 }; /* wire types */
enum { SESSION_START = 1 };

struct message {
    unsigned char byte[MESSAGE_MAX];
    size_t bytes;
};

static void events_put_bytes(struct message *m, const void *from, size_t bytes)
{
    assert(bytes <= sizeof m->byte - m->bytes);
    memcpy(m->byte + m->bytes, from, bytes);
    m->bytes += bytes;
}

static void put_varint(struct message *m, uint64_t v)
{
    do {
        unsigned char low = (unsigned char)(v & 127);
        v >>= 7;
        if (v)
            low |= 128;
        events_put_bytes(m, &low, 1);
    } while (v);
}

static void events_put_key(struct message *m, unsigned field, unsigned wire)
{
    put_varint(m, field << 3 | wire);
}

/* Appends the bits of a number, lowest byte first. */
static void put_fixed(struct message *m, unsigned field, uint64_t bits, size_t bytes)
{
    unsigned char le[8];

    io_put_le64(le, bits);
    events_put_key(m, field, bytes == 8 ? FIXED64 : FIXED32);
    events_put_bytes(m, le, bytes);
}

static void put_nested(struct message *m, unsigned field, const void *from, size_t bytes)
{
    events_put_key(m, field, LENGTH);
    put_varint(m, bytes);
    events_put_bytes(m, from, bytes);
}

static void put_wall_time(struct message *m, double wall_s)
{
    uint64_t bits;

    memcpy(&bits, &wall_s, sizeof bits);
    put_fixed(m, 1, bits, 8);
}

/* CRC32C (RFC 3720 B.4), bit by bit: a step has one record of about a kilobyte. */
static uint32_t crc32c(const unsigned char *p, size_t bytes)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* A checksum of data that contain their own checksum is weak, so TFRecord masks it. */
static void write_crc(FILE *f, const unsigned char *p, size_t bytes)
{
    uint32_t crc = crc32c(p, bytes);
    unsigned char le[8];

    io_put_le64(le, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u));
    fwrite(le, 1, 4, f);
}

static void write_record(FILE *f, const struct message *m)
{
    unsigned char le[8];

    io_put_le64(le, m->bytes);
    fwrite(le, 1, sizeof le, f);
    write_crc(f, le, sizeof le);
    fwrite(m->byte, 1, m->bytes, f);
    write_crc(f, m->byte, m->bytes);
}

static void put_step(struct message *m, int64_t step)
{
    events_put_key(m, 2, VARINT);
    put_varint(m, (uint64_t)step);
}

void events_put_version(FILE *f, double wall_s)
{
    static const char version[] = "brain.Event:2";
    struct message m = {.bytes = 0};

    put_wall_time(&m, wall_s);
    put_nested(&m, 3, version, sizeof version - 1);
    write_record(f, &m);
}

void events_put_start(FILE *f, double wall_s, int64_t step)
{
    struct message m = {.bytes = 0}, session = {.bytes = 0};

    events_put_key(&session, 1, VARINT);
    put_varint(&session, SESSION_START);
    put_wall_time(&m, wall_s);
    put_step(&m, step);
    put_nested(&m, 7, session.byte, session.bytes);
    write_record(f, &m);
}

void events_put_scalars(FILE *f, double wall_s, int64_t step,
                        const struct events_scalar *scalar, int count)
{
    struct message m = {.bytes = 0}, summary = {.bytes = 0};

    for (int i = 0; i < count; i++) {
        struct message value = {.bytes = 0};
        uint32_t bits;
        memcpy(&bits, &scalar[i].value, sizeof bits);
        put_nested(&value, 1, scalar[i].tag, strlen(scalar[i].tag));
        put_fixed(&value, 2, bits, 4);
        put_nested(&summary, 1, value.byte, value.bytes);
    }
    put_wall_time(&m, wall_s);
    put_step(&m, step);
    put_nested(&m, 5, summary.byte, summary.bytes);
    write_record(f, &m);
}
