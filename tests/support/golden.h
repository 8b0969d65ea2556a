/* The cases of models/tiny-vl/golden.jsonl: what PyTorch in f32 answers on the f16-rounded weights, greedily. */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct golden_case {
    char id[32], kind[32];  /* "text-00"; text, text-multi, text-system, text-long, raw, image, images, draft */
    char model[32];         /* "tiny-vl" or "tiny-draft" */
    char *prompt;           /* the text, template applied */
    char *output_text;
    int32_t *token_ids;     /* the whole prompt, image pads expanded */
    size_t n_token_ids;
    int32_t *output_ids;    /* without the end token */
    size_t n_output_ids;
    bool ends;              /* an end token follows the output; otherwise max_tokens was reached */
    uint32_t max_tokens;
    size_t n_images;
    struct {
        int32_t id;
        double logit;
    } top5[5];              /* at the first position of the answer */
    double min_gap;         /* least distance of the two best logits on the way */
    bool exact;
} golden_case;

/* All cases of the file; ends the test when it cannot be read. */
golden_case *golden_load(const char *path, size_t *n);
void golden_free(golden_case *cases, size_t n);

/* Of the files tiny-vl-*.gguf without their vision part: the case has no pictures. */
bool golden_is_text(const golden_case *c);
/* Of tiny-draft-*.gguf. */
bool golden_is_draft(const golden_case *c);

#endif
