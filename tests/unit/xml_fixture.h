/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef XML_FIXTURE_H
#define XML_FIXTURE_H

/* Parses the XML of pictures with expat. */
#include <expat.h>

static void xml_count(void *elements, const char *name, const char **attributes)
{
    (void)name, (void)attributes;
    ++*(int *)elements;
}

/* The number of elements of a document, which is a picture and well-formed. */
static int xml_elements(const char *text)
{
    static const char head[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg ";
    XML_Parser parser = XML_ParserCreate(NULL);
    int elements = 0;

    XML_SetUserData(parser, &elements);
    XML_SetStartElementHandler(parser, xml_count);
    enum XML_Status status = XML_Parse(parser, text, (int)strlen(text), 1);
    XML_ParserFree(parser);
    if (status != XML_STATUS_OK || strncmp(text, head, strlen(head)))
        fail_msg("not well-formed:\n%s", text);
    return elements;
}

#endif
