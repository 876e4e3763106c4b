/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef XML_FIXTURE_H
#define XML_FIXTURE_H

/* What expat says of the XML that pictures consist of. */
#include <expat.h>

static void xml_count(void *elements, const char *name, const char **attributes)
{
    (void)name, (void)attributes;
    ++*(int *)elements;
}

/* The number of elements of a document, or -1 when it is none. */
static int xml_elements(const char *text)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ";
    XML_Parser parser = XML_ParserCreate(NULL);
    int elements = 0;

    XML_SetUserData(parser, &elements);
    XML_SetStartElementHandler(parser, xml_count);
    enum XML_Status status = XML_Parse(parser, text, (int)strlen(text), 1);
    XML_ParserFree(parser);
    return status == XML_STATUS_OK && strncmp(text, head, strlen(head)) == 0 ? elements : -1;
}

#endif
