/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef XML_FIXTURE_H
#define XML_FIXTURE_H

/*
 * A strict reader of the XML that pictures consist of: elements that nest, attributes in double
 * quotes, the five entities and decimal references, characters of XML 1.0 in UTF-8.  No
 * comment, no CDATA, no document type.  Shares no code with base/svg.c.
 */
#include <stdlib.h>
#include <string.h>

struct xml {
    const char *at;
    char open[32][16]; /* names of the elements that are open */
    int depth, elements;
};

/* A character of text or of an attribute's value, and past it; 0: not allowed. */
static int xml_char(struct xml *x)
{
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};
    unsigned char c = (unsigned char)*x->at;
    int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : 3;

    if (c == '&') {
        for (int i = 0; i < 5; i++)
            if (strncmp(x->at, entities[i], strlen(entities[i])) == 0) {
                x->at += strlen(entities[i]);
                return 1;
            }
        char *end = NULL;
        long code = strncmp(x->at, "&#", 2) ? 0 : strtol(x->at + 2, &end, 10);
        if ((code != 9 && code != 10 && code != 13) || *end != ';')
            return 0;
        x->at = end + 1;
        return 1;
    }
    if (c == '<' || (c < 0x20 && c != '\n') || (c >= 0x80 && c < 0xc2) || c > 0xf4)
        return 0;
    for (int i = 1; i <= more; i++)
        if ((x->at[i] & 0xc0) != 0x80)
            return 0;
    if (strncmp(x->at, "\xef\xbf\xbe", 3) == 0 || strncmp(x->at, "\xef\xbf\xbf", 3) == 0)
        return 0;
    x->at += more + 1;
    return 1;
}

static size_t xml_name(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
}

/* Behind "<name": attributes, each once, then ">" or "/>". */
static int xml_attributes(struct xml *x)
{
    const char *seen[16];
    int n = 0;

    while (*x->at == ' ') {
        size_t length = xml_name(++x->at);
        for (int i = 0; i < n; i++)
            if (strncmp(seen[i], x->at, length + 1) == 0)
                return 0;
        if (!length || n == 16 || strncmp(x->at + length, "=\"", 2))
            return 0;
        seen[n++] = x->at;
        x->at += length + 2;
        while (*x->at && *x->at != '"')
            if (!xml_char(x))
                return 0;
        if (*x->at++ != '"')
            return 0;
    }
    return *x->at == '>' || strncmp(x->at, "/>", 2) == 0;
}

static int xml_tag(struct xml *x)
{
    int closing = x->at[1] == '/';
    size_t length = xml_name(x->at += 1 + closing);
    char name[16] = "";

    if (!length || length >= sizeof name)
        return 0;
    memcpy(name, x->at, length);
    x->at += length;
    if (closing)
        return x->depth && strcmp(x->open[--x->depth], name) == 0 && *x->at++ == '>';
    if ((!x->depth && x->elements) || x->depth == 32 || !xml_attributes(x))
        return 0;
    x->elements++;
    if (*x->at == '/') {
        x->at += 2;
        return 1;
    }
    x->at++;
    memcpy(x->open[x->depth++], name, sizeof name);
    return 1;
}

/* The number of elements of a document, or -1 when it is none. */
static int xml_elements(const char *text)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    struct xml x = {.at = text};

    if (strncmp(text, head, strlen(head)))
        return -1;
    x.at += strlen(head);
    while (*x.at)
        if (*x.at == '<' ? !xml_tag(&x) : x.depth ? !xml_char(&x) : *x.at++ != '\n')
            return -1;
    return x.depth ? -1 : x.elements;
}

#endif
