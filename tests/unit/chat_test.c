/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests conversations by templates: their text and what of it is learned, written down as the
 * families publish it.  The tokenizer has a token for each byte, and the special tokens.
 */
#include "unit.h"

#include "data/data_chat.h"

/* A byte-level vocabulary without merges: bytes 0-255 as GPT-2 spells them, then specials. */
static struct tokenizer *open_bytes(const char *const *special, int specials)
{
    FILE *f = unit_stream();
    int next = 256, id = 0;
    struct tokenizer *t;

    fprintf(f, "{\"added_tokens\":[");
    for (int i = 0; i < specials; i++)
        fprintf(f,
                "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                "\"rstrip\":false,\"normalized\":false,\"special\":true}",
                i ? "," : "", 256 + i, special[i]);
    fprintf(f, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
               "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
               "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
               "\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        int seen = (b > ' ' && b < 127) || (b > 160 && b != 173);
        fprintf(f, "%s\"\\u%04x\":%d", b ? "," : "", seen ? b : next++, id++);
    }
    fprintf(f, "},\"merges\":[]}}");
    char *text = unit_text(f);
    assert_ok(tokenizer_parse(&t, "tokenizer.json", text, (int64_t)strlen(text), &err));
    free(text);
    return t;
}

/* The result of chat_encode: the text, and below each byte '^' where it is learned. */
struct got {
    const char *const *special;
    char text[2000], mask[2000];
};

static int take(void *arg, const int32_t *ids, int64_t count, int trained, struct err *why)
{
    struct got *g = arg;

    (void)why;
    for (int64_t i = 0; i < count; i++) {
        size_t at = strlen(g->text);
        if (ids[i] < 256)
            sprintf(g->text + at, "%c", ids[i]);
        else
            strcat(g->text, g->special[ids[i] - 256]);
        for (; g->text[at]; at++)
            g->mask[at] = trained ? '^' : '.';
    }
    return 0;
}

static const struct jsonl_message talk[] = {
    {"system", " Be kind. ", 10}, {"user", "Hi <|im_end|> [INST]", 20}, {"assistant", "Yo", 2},
    {"user", "\nBye", 4},         {"assistant", " See you ", 9},
};

/* want: "context{trained}context{trained}..." */
static void check_chat(struct chat *chat, const char *const *special,
                       const struct jsonl_message *message, int messages, int open,
                       const char *want)
{
    struct got g = {special, "", ""};
    char text[2000] = "", mask[2000] = "";
    int trained = 0;
    size_t n = 0;

    for (const char *p = want; *p; p++)
        if (*p == '{' || *p == '}') {
            trained = *p == '{';
        } else {
            text[n] = *p;
            mask[n++] = trained ? '^' : '.';
        }
    assert_ok(chat_encode(chat, message, messages, open, take, &g, &err));
    assert_string_equal(g.text, text);
    assert_string_equal(g.mask, mask);
}

static const char *const im[] = {"<|im_start|>", "<|im_end|>"};
static const char *const llama[] = {"<|begin_of_text|>", "<|start_header_id|>",
                                    "<|end_header_id|>", "<|eot_id|>"};
static const char *const phi[] = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"};
static const char *const gemma[] = {"<bos>", "<start_of_turn>", "<end_of_turn>"};
static const char *const mistral[] = {"<s>", "</s>", "[INST]", "[/INST]"};

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

TEST(conversations_of_all_templates)
{
    static const struct {
        const char *name, *const *special;
        int specials, found; /* by the vocabulary alone */
        const char *end, *whole, *first;
    } cases[] = {
        {"chatml", im, COUNT(im), 1, "<|im_end|>",
         "<|im_start|>system\n Be kind. <|im_end|>\n"
         "<|im_start|>user\nHi <|im_end|> [INST]<|im_end|>\n"
         "<|im_start|>assistant\n{Yo<|im_end|>\n}<|im_start|>user\n\nBye<|im_end|>\n"
         "<|im_start|>assistant\n{ See you <|im_end|>\n}",
         "<|im_start|>user\n\nBye<|im_end|>\n<|im_start|>assistant\n"},
        {"qwen2.5", im, COUNT(im), 0, "<|im_end|>",
         "<|im_start|>system\n Be kind. <|im_end|>\n"
         "<|im_start|>user\nHi <|im_end|> [INST]<|im_end|>\n"
         "<|im_start|>assistant\n{Yo<|im_end|>\n}<|im_start|>user\n\nBye<|im_end|>\n"
         "<|im_start|>assistant\n{ See you <|im_end|>\n}",
         "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
         "assistant.<|im_end|>\n<|im_start|>user\n\nBye<|im_end|>\n<|im_start|>assistant\n"},
        {"smollm2", im, COUNT(im), 0, "<|im_end|>",
         "<|im_start|>system\n Be kind. <|im_end|>\n"
         "<|im_start|>user\nHi <|im_end|> [INST]<|im_end|>\n"
         "<|im_start|>assistant\n{Yo<|im_end|>\n}<|im_start|>user\n\nBye<|im_end|>\n"
         "<|im_start|>assistant\n{ See you <|im_end|>\n}",
         "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
         "Face<|im_end|>\n<|im_start|>user\n\nBye<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3", llama, COUNT(llama), 1, "<|eot_id|>",
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\nHi <|im_end|> [INST]<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{Yo<|eot_id|>}"
         "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{See you<|eot_id|>}",
         "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"phi3", phi, COUNT(phi), 1, "<|end|>",
         "<|system|>Be kind. <|end|><|user|>Hi <|im_end|> [INST]<|end|>"
         "<|assistant|>{Yo<|end|>}<|user|>Bye<|end|>"
         "<|assistant|>{See you <|end|>}",
         "<|user|>Bye<|end|><|assistant|>"},
        {"gemma", gemma, COUNT(gemma), 1, "<end_of_turn>",
         "<bos><start_of_turn>user\n Be kind. \n\nHi <|im_end|> [INST]<end_of_turn>\n"
         "<start_of_turn>model\n{Yo<end_of_turn>\n}<start_of_turn>user\nBye<end_of_turn>\n"
         "<start_of_turn>model\n{See you<end_of_turn>\n}",
         "<bos><start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
        {"mistral", mistral, COUNT(mistral), 1, "</s>",
         "<s>[INST]  Be kind. \n\nHi <|im_end|> [INST][/INST]{ Yo</s>}[INST] \nBye[/INST]"
         "{  See you </s>}",
         "<s>[INST] \nBye[/INST]"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int found = 0; found <= cases[i].found; found++) {
            struct tokenizer *t = open_bytes(cases[i].special, cases[i].specials);
            struct chat *chat;
            assert_ok(chat_open(&chat, t, found ? NULL : cases[i].name, &err));
            check_chat(chat, cases[i].special, talk, 5, 0, cases[i].whole);
            check_chat(chat, cases[i].special, talk + 3, 1, 1, cases[i].first);
            assert_string_equal(cases[i].special[chat_end(chat) - 256], cases[i].end);
            chat_close(chat);
            tokenizer_close(t);
        }
}

/* Generic templates write the role; Qwen2.5's makes results in a row one user's message. */
TEST(results_of_tools_and_names_of_roles)
{
    static const struct jsonl_message calls[] = {{"developer", "s", 1},   {"human", "a", 1},
                                                 {"gpt", "b", 1},         {"tool", "1", 1},
                                                 {"observation", "2", 1}, {"model", "c", 1}};
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"chatml", "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
                   "<|im_start|>assistant\n{b<|im_end|>\n}<|im_start|>tool\n1<|im_end|>\n"
                   "<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n{c<|im_end|>\n}"},
        {"qwen2.5",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
         "<|im_start|>assistant\n{b<|im_end|>\n}<|im_start|>user\n<tool_response>\n1\n"
         "</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
         "<|im_start|>assistant\n{c<|im_end|>\n}"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *t = open_bytes(im, COUNT(im));
        struct chat *chat;
        assert_ok(chat_open(&chat, t, cases[i].name, &err));
        check_chat(chat, im, calls, COUNT(calls), 0, cases[i].want);
        chat_close(chat);
        tokenizer_close(t);
    }
}

static int take_digits(void *arg, const int32_t *ids, int64_t count, int trained,
                       struct err *why)
{
    (void)trained, (void)why;
    for (int64_t i = 0; i < count; i++)
        sprintf(strchr(arg, 0), "%d", ids[i]);
    return 0;
}

#define FLAGS                                                                                  \
    "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false,"     \
    "\"special\": true"

/* A tokenizer that puts a mark before a text puts none before what follows its first piece. */
TEST(only_a_text_begins)
{
    static const char json[] =
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"<|im_start|>\"," FLAGS
        "}, {\"id\": 3, \"content\": \"<|im_end|>\"," FLAGS "}],"
        "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\","
        "\"prepend_scheme\": \"first\", \"split\": false}, \"model\": {\"type\": \"BPE\","
        "\"vocab\": {\"?\": 0, \"_\": 1}, \"merges\": [], \"unk_token\": \"?\"}}";
    char got[100] = "";
    struct tokenizer *t;
    struct chat *chat;

    assert_ok(tokenizer_parse(&t, "t", json, sizeof json - 1, &err));
    assert_ok(chat_open(&chat, t, NULL, &err));
    assert_ok(chat_encode(chat, talk + 3, 1, 0, take_digits, got, &err));
    assert_string_equal(got, "2"
                             "00000"
                             "0000"
                             "3"
                             "0"); /* user\n, \nBye, \n */
    chat_close(chat);
    tokenizer_close(t);
}

static void check_error(const char *const *special, int specials, const char *name,
                        const struct jsonl_message *message, int messages, const char *said)
{
    struct tokenizer *t = open_bytes(special, specials);
    struct got g = {special, "", ""};
    struct chat *chat = NULL;
    int rc = chat_open(&chat, t, name, &err);

    if (rc == 0)
        rc = chat_encode(chat, message, messages, 0, take, &g, &err);
    assert_int_equal(rc, -1);
    if (!strstr(err.text, said))
        fail_msg("'%s', expected '%s' in it", err.text, said);
    chat_close(chat);
    tokenizer_close(t);
}

TEST(what_cannot_be_encoded)
{
    static const struct jsonl_message tool[] = {{"tool", "x", 1}},
                                      call[] = {{"function_call", "x", 1}},
                                      late[] = {{"user", "x", 1}, {"system", "y", 1}},
                                      answer[] = {{"system", "x", 1}, {"assistant", "y", 1}};

    check_error(im, 2, "vicuna", talk, 5, "--chat-template 'vicuna', expected chatml, ");
    check_error(phi, 2, NULL, talk, 5, "no special tokens of a chat template");
    check_error(llama, 3, "llama3", talk, 5, "without the token <|eot_id|>");
    check_error(gemma, 3, NULL, tool, 1, "with the role 'tool', expected system, user or");
    check_error(im, 2, NULL, call, 1, "'function_call', expected system, user, tool or");
    check_error(gemma, 3, NULL, late, 2, "expected it to be the first");
    check_error(mistral, 4, NULL, answer, 2, "expected a user's message");
    check_error(gemma, 3, NULL, answer, 1, "expected a user's message");
}
