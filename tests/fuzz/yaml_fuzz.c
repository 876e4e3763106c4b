/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of YAML that all of paro's own formats stand on. */
#include "reader_fuzz.h"

#include "value/value_yaml.h"

struct doc_item {
    char *key, *number;
};

struct doc {
    char *format, *name;
    struct doc_item *items;
    unsigned items_count;
    char **words;
    unsigned words_count;
};

enum { TEXT_MAX = 64 };

#define TEXT(struct_, member_, flags_)                                                         \
    CYAML_FIELD_STRING_PTR(#member_, CYAML_FLAG_POINTER | (flags_), struct struct_, member_,   \
                           0, TEXT_MAX)
static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, TEXT_MAX)};
static const cyaml_schema_field_t item_fields[] = {
    TEXT(doc_item, key, 0), TEXT(doc_item, number, CYAML_FLAG_OPTIONAL), CYAML_FIELD_END};
static const cyaml_schema_value_t item_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_item, item_fields)};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT(doc, format, 0), TEXT(doc, name, CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_SEQUENCE("items", CYAML_FLAG_POINTER, struct doc, items, &item_schema, 1, 8),
    CYAML_FIELD_SEQUENCE("words", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc, words,
                         &word_schema, 0, 8),
    CYAML_FIELD_END};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

static struct doc *load(const void *data, size_t bytes)
{
    static const char *const paths[] = {"", "items", "items[1].number", "words[0]", "a.b"};
    struct err err = {0};
    struct yaml y;
    struct doc *doc = NULL;

    yaml_take(&y, FUZZ_NAME, fuzz_copy(data, bytes), (int64_t)bytes);
    int rc = fuzz_judge(yaml_format(&y, "fuzz/1", &err), &err);
    rc = rc ? rc : fuzz_judge(yaml_load(&y, &schema, (void **)&doc, &err), &err);
    assert((rc == 0) == (doc != NULL));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct err place = {0};
        yaml_fail(&y, paths[i], &place, "is looked up");
        assert(place.line >= 0 && place.line <= (int)bytes + 1);
    }
    yaml_release(&y);
    return doc;
}

static void put(FILE *f, const char *key, const char *text)
{
    if (!text)
        return;
    fputs(key, f);
    yaml_put_text(f, text);
    putc('\n', f);
}

static char *print(const struct doc *doc, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    put(f, "format: ", doc->format);
    put(f, "name: ", doc->name);
    fputs("items:\n", f);
    for (unsigned i = 0; i < doc->items_count; i++) {
        put(f, "  - key: ", doc->items[i].key);
        put(f, "    number: ", doc->items[i].number);
    }
    if (doc->words_count)
        fputs("words:\n", f);
    for (unsigned i = 0; i < doc->words_count; i++)
        put(f, "  - ", doc->words[i]);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    size_t first_bytes = 0, again_bytes = 0;
    struct doc *doc = bytes <= FUZZ_MAX ? load(data, bytes) : NULL;

    if (!doc)
        return 0;
    char *first = print(doc, &first_bytes);
    struct doc *back = load(first, first_bytes);
    assert(back);
    char *again = print(back, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    yaml_drop(&schema, doc);
    yaml_drop(&schema, back);
    return 1;
}

static const char block[] = "format: fuzz/1\nname: \"a \\u00e9\"\nitems:\n  - key: a\n"
                            "    number: 1e-3\n  - key: >\n      folded\n      text\n"
                            "words: [x, 'y''s']\n";
static const char flow[] =
    "# flow\n{\"format\": \"fuzz/1\", \"items\": [{\"key\": \"a\"}, {\"key\": \"b\",\n"
    " \"number\": \"0\"}]}\n";

FUZZ_SET(.name = "yaml", .longest = 2048, .cases = 8000, .ends = " \n\"',:[]{}",
         .words = FUZZ_LIST("- ", ": ", "? ", "|", ">", "---", "...", "&a", "*a", "!!int",
                            "%YAML 1.1", "{", "}", "[", "]", "\"", "'", "#", "format", "key",
                            "items", "number", "~", "nan", "12abc", "\xc3\xa9", "\xff",
                            "\xef\xbb\xbf", "\t", "\n", "\\x41", "<<"),
         .text = {FUZZ_TEXT(block), FUZZ_TEXT(flow)});
