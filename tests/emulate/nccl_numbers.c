/* SPDX-License-Identifier: BSD-3-Clause */
#include "nccl_numbers.h"

#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

size_t emulated_nccl_bytes(ncclDataType_t type)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return bytes[type];
}

double emulated_nccl_get(const char *p, ncclDataType_t type, size_t i)
{
    uint16_t h;
    float f;
    double d;
    int32_t w;
    int64_t l;

    p += i * emulated_nccl_bytes(type);
    switch (type) {
    case ncclFloat32:
        memcpy(&f, p, 4);
        return (double)f;
    case ncclFloat64:
        memcpy(&d, p, 8);
        return d;
    case ncclBfloat16:
        memcpy(&h, p, 2);
        return (double)dtype_f32_of_bf16(h);
    case ncclFloat16:
        memcpy(&h, p, 2);
        return (double)dtype_f32_of_f16(h);
    case ncclInt32:
        memcpy(&w, p, 4);
        return w;
    case ncclInt64:
    case ncclUint64:
        memcpy(&l, p, 8);
        return (double)l;
    case ncclUint32:
        memcpy(&w, p, 4);
        return (double)(uint32_t)w;
    default:
        return type == ncclInt8 ? (double)(int8_t)*p : (double)(uint8_t)*p;
    }
}

void emulated_nccl_put(char *p, ncclDataType_t type, size_t i, double v)
{
    p += i * emulated_nccl_bytes(type);
    switch (type) {
    case ncclFloat32:
        memcpy(p, &(float){(float)v}, 4);
        break;
    case ncclFloat64:
        memcpy(p, &v, 8);
        break;
    case ncclBfloat16:
        memcpy(p, &(uint16_t){dtype_bf16_of_f32((float)v)}, 2);
        break;
    case ncclFloat16:
        memcpy(p, &(uint16_t){dtype_f16_of_f32((float)v)}, 2);
        break;
    case ncclInt32:
    case ncclUint32:
        memcpy(p, &(uint32_t){(uint32_t)(int64_t)v}, 4);
        break;
    case ncclInt64:
    case ncclUint64:
        memcpy(p, &(int64_t){(int64_t)v}, 8);
        break;
    default:
        *p = (char)(uint8_t)(int64_t)v;
    }
}
