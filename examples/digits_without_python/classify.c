/* Classifies digits with the exported network: classify weights.bin pixels.f32 labels.i32 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

static float pixels[DIGITS_SEVERAL_DIGITS_LENGTH];
static int32_t labels[DIGITS_SEVERAL_LABELS_LENGTH], found[DIGITS_SEVERAL_LABELS_LENGTH];

static void read_file(const char *path, void *to, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(to, 1, size, file) != size) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

int main(int count, char **words)
{
    if (count != 4) return fprintf(stderr, "usage: classify weights.bin pixels.f32 labels.i32\n"), 2;
    read_file(words[2], pixels, sizeof pixels);
    read_file(words[3], labels, sizeof labels);
    digits_context *digits;
    int code = digits_create(&digits, words[1]);
    if (!code) code = digits_several(digits, pixels, found);
    int n = DIGITS_SEVERAL_LABELS_LENGTH, right = 0;
    for (int i = 0; i < n && !code; i++) {
        int32_t alone;
        code = digits_one(digits, pixels + 64 * i, &alone);
        if (!code && alone != found[i]) return fprintf(stderr, "digit %d: alone %d, with others %d\n", i, alone, found[i]), 1;
        right += found[i] == labels[i];
    }
    if (code) return fprintf(stderr, "%s\n", digits_message(code)), 1;
    digits_destroy(digits);
    printf("C: %.2f%% of %d held-out digits are recognised\n", 100.0 * right / n, n);
    return 0;
}
